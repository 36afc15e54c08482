//! The managed policies of the node role (spec aws-operations 1.5).

use super::{Document, Statement};
use crate::settings::{IpFamily, Settings};

/// Lets the network plugin give pods IPv4 addresses.
pub(crate) const CNI_POLICY: &str = "AmazonEKS_CNI_Policy";
/// Lets the network plugin give pods IPv6 addresses. AWS has none: EKS's documentation has each account make one of this name.
pub(crate) const CNI_IPV6_POLICY: &str = "AmazonEKS_CNI_IPv6_Policy";

/// ARNs of the managed policies every node needs, and those the settings add.
pub fn managed_policies(settings: &Settings) -> Vec<String> {
    let of_aws = |name| format!("arn:{}:iam::aws:policy/{name}", settings.partition);
    let mut arns: Vec<String> =
        ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore"]
            .map(of_aws)
            .into();
    arns.push(match settings.ip_family {
        Some(IpFamily::V6) => cni_ipv6_policy(settings),
        Some(IpFamily::V4) | None => of_aws(CNI_POLICY),
    });
    arns.extend(settings.extra_node_policies.iter().cloned());
    arns.sort();
    arns.dedup();
    arns
}

/// The ARN of the account's own policy for IPv6.
pub(crate) fn cni_ipv6_policy(settings: &Settings) -> String {
    settings.iam_arn(&format!("policy/{CNI_IPV6_POLICY}"))
}

/// Returns that policy as EKS's documentation gives it.
pub(crate) fn cni_ipv6_document(settings: &Settings) -> Document {
    let interfaces = format!("arn:{}:ec2:*:*:network-interface/*", settings.partition);
    Document::of(vec![
        Statement::allow(
            "AssignAddresses",
            &[
                "ec2:AssignIpv6Addresses",
                "ec2:DescribeInstances",
                "ec2:DescribeTags",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeInstanceTypes",
            ],
            vec!["*".to_owned()],
        ),
        Statement::allow("TagInterfaces", &["ec2:CreateTags"], vec![interfaces]),
    ])
}
