//! Principals that may assume the two roles (spec aws-operations 1.3 and 1.5).

use super::{Document, Statement};
use crate::settings::{Identity, PodIdentityTrust, Settings};

/// Whom the tokens of service accounts are for.
pub(crate) const STS_AUDIENCE: &str = "sts.amazonaws.com";

/// The node role is assumed by EC2.
pub fn node(settings: &Settings) -> Document {
    Document::of(vec![
        Statement::allow("AllowEC2", &["sts:AssumeRole"], vec![])
            .for_principal("Service", &[&settings.ec2_principal]),
    ])
}

/// The controller role is assumed by the controller's service account, by the way settings choose.
/// `None` when the operator brings credentials of their own.
pub fn controller(settings: &Settings) -> Option<Document> {
    let statement = match &settings.identity {
        Identity::None => return None,
        Identity::PodIdentity => pod_identity(settings),
        Identity::Irsa { issuer } => {
            let subject =
                format!("system:serviceaccount:{}:{}", settings.namespace, settings.service_account);
            let provider = settings.iam_arn(&format!("oidc-provider/{issuer}"));
            Statement::allow("AllowServiceAccount", &["sts:AssumeRoleWithWebIdentity"], vec![])
                .for_principal("Federated", &[&provider])
                .when("StringEquals", &format!("{issuer}:aud"), [STS_AUDIENCE])
                .when("StringEquals", &format!("{issuer}:sub"), [subject])
        }
    };
    Some(Document::of(vec![statement]))
}

/// Tied to the cluster either way: the service alone would let every cluster of every account in.
fn pod_identity(settings: &Settings) -> Statement {
    let anyone = Statement::allow("AllowPodIdentity", &["sts:AssumeRole", "sts:TagSession"], vec![])
        .for_principal("Service", &["pods.eks.amazonaws.com"]);
    match settings.pod_identity_trust {
        PodIdentityTrust::ClusterArn => anyone
            .when("StringEquals", "aws:SourceAccount", [settings.account.as_str()])
            .when("ArnEquals", "aws:SourceArn", [settings.cluster_arn()]),
        PodIdentityTrust::SessionTags => [
            ("eks-cluster-arn", settings.cluster_arn()),
            ("kubernetes-namespace", settings.namespace.clone()),
            ("kubernetes-service-account", settings.service_account.clone()),
        ]
        .into_iter()
        .fold(anyone, |statement, (tag, value)| {
            statement.when("StringEquals", &format!("aws:RequestTag/{tag}"), [value])
        }),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_aws_api::Partition;

    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn the_node_role_trusts_ec2_by_a_name_that_iam_takes() {
        for (region, partition, principal) in [
            ("eu-west-1", Partition::Aws, "ec2.amazonaws.com"),
            ("cn-north-1", Partition::China, "ec2.amazonaws.com.cn"),
            ("eusc-de-east-1", Partition::EuSovereign, "ec2.amazonaws.com"),
        ] {
            let document = node(&Settings::new("prod", region, "123456789012", partition));
            assert_eq!(document.to_value()["Statement"][0]["Principal"]["Service"], principal, "{region}");
        }
    }

    #[test]
    fn pod_identity_is_limited_to_this_cluster() {
        let document = controller(&settings()).unwrap();
        assert_eq!(
            document.to_json(),
            concat!(
                r#"{"Version":"2012-10-17","Statement":[{"Sid":"AllowPodIdentity","Effect":"Allow","#,
                r#""Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"],"#,
                r#""Condition":{"ArnEquals":{"aws:SourceArn":"arn:aws:eks:eu-west-1:123456789012:cluster/prod"},"#,
                r#""StringEquals":{"aws:SourceAccount":"123456789012"}}}]}"#
            )
        );
    }

    #[test]
    fn session_tags_name_cluster_and_service_account() {
        let mut settings = settings();
        settings.pod_identity_trust = PodIdentityTrust::SessionTags;
        let document = controller(&settings).unwrap();
        assert_eq!(
            document.to_value()["Statement"][0]["Condition"],
            serde_json::json!({ "StringEquals": {
                "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:eu-west-1:123456789012:cluster/prod",
                "aws:RequestTag/kubernetes-namespace": "kube-system",
                "aws:RequestTag/kubernetes-service-account": "karpenter",
            }})
        );
    }

    #[test]
    fn irsa_names_the_service_account() {
        let mut settings = settings();
        settings.identity = Identity::Irsa { issuer: "oidc.eks.eu-west-1.amazonaws.com/id/ABC".to_owned() };
        let json = controller(&settings).unwrap().to_json();
        assert!(json.contains(
            r#""Federated":"arn:aws:iam::123456789012:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC""#
        ));
        assert!(json.contains(r#"/id/ABC:sub":"system:serviceaccount:kube-system:karpenter""#));
    }

    #[test]
    fn no_identity_means_no_role() {
        let mut settings = settings();
        settings.identity = Identity::None;
        assert!(controller(&settings).is_none());
    }
}
