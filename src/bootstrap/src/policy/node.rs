//! The AWS-managed policies of the node role (spec aws-operations 1.5).

use crate::settings::Settings;

/// ARNs of the managed policies every node needs, and those the settings add.
pub fn managed_policies(settings: &Settings) -> Vec<String> {
    let mut arns: Vec<String> = [
        "AmazonEKSWorkerNodePolicy",
        "AmazonEKS_CNI_Policy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ]
    .iter()
    .map(|name| format!("arn:{}:iam::aws:policy/{name}", settings.partition))
    .collect();
    arns.extend(settings.extra_node_policies.iter().cloned());
    arns.sort();
    arns.dedup();
    arns
}
