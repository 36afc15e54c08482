//! What the operator decides: the cluster, where it lives, names and options. Validated once, at the edge.

use std::collections::BTreeMap;

use karpenter_aws_client::Partition;

use crate::names::{QUEUE_NAME_MAX, ROLE_NAME_MAX, bounded};

/// Everything the desired prerequisites are computed from. Build with [`Settings::new`] and set the optional
/// fields, then call [`Settings::validate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// EKS cluster name, 1 to 100 characters.
    pub cluster: String,
    /// Region such as `eu-west-1`.
    pub region: String,
    /// Twelve-digit account id.
    pub account: String,
    /// The partition the account lives in.
    pub partition: Partition,
    /// IAM path of roles, policies and profile; begins and ends with `/`.
    pub iam_path: String,
    /// ARN of the permissions boundary put on both roles.
    pub permissions_boundary: Option<String>,
    /// Extra tags on everything that is created.
    pub tags: BTreeMap<String, String>,
    /// How the controller gets its credentials.
    pub identity: Identity,
    /// Namespace of the controller's service account.
    pub namespace: String,
    /// Name of the controller's service account.
    pub service_account: String,
    /// Overrides the name of the node role. The role is created under this name when it does not exist.
    pub node_role_name: Option<String>,
    /// Overrides the name of the controller role.
    pub controller_role_name: Option<String>,
    /// Overrides the name of the interruption queue.
    pub queue_name: Option<String>,
    /// ARN of a customer-managed key that encrypts the queue; `None` uses SQS-managed encryption.
    pub queue_kms_key: Option<String>,
    /// ARNs of further managed policies for the node role.
    pub extra_node_policies: Vec<String>,
    /// ARNs of further roles that EC2NodeClasses name in `spec.role`.
    pub extra_pass_roles: Vec<String>,
    /// ARNs of private SSM parameters that `amiSelectorTerms` name.
    pub extra_ssm_parameters: Vec<String>,
    /// Whether the controller reads the zonal-shift status of the cluster.
    pub zonal_shift: bool,
    /// Whether an EKS access entry lets the nodes join.
    pub access_entry: bool,
    /// Subnets to tag for discovery; empty means the cluster's own.
    pub subnets: Vec<String>,
    /// The security group to tag for discovery; `None` means the cluster security group.
    pub security_group: Option<String>,
}

/// How the controller's pods obtain credentials for the controller role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// EKS Pod Identity: an association between service account and role.
    PodIdentity,
    /// IAM roles for service accounts, through the cluster's OIDC issuer (host and path, no scheme).
    Irsa {
        /// The issuer, for example `oidc.eks.eu-west-1.amazonaws.com/id/ABC`.
        issuer: String,
    },
    /// No controller role is made: the operator brings credentials.
    None,
}

/// A setting that cannot be used, with what is allowed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is `{value}`: {allowed}")]
pub struct Invalid {
    /// The field, spelled like the command-line flag without dashes in front.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What would be accepted.
    pub allowed: &'static str,
}

impl Settings {
    /// Settings with every default for a cluster. `account` and `partition` come from STS.
    pub fn new(cluster: &str, region: &str, account: &str, partition: Partition) -> Self {
        Self {
            cluster: cluster.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            partition,
            iam_path: "/".to_owned(),
            permissions_boundary: None,
            tags: BTreeMap::new(),
            identity: Identity::PodIdentity,
            namespace: "kube-system".to_owned(),
            service_account: "karpenter".to_owned(),
            node_role_name: None,
            controller_role_name: None,
            queue_name: None,
            queue_kms_key: None,
            extra_node_policies: Vec::new(),
            extra_pass_roles: Vec::new(),
            extra_ssm_parameters: Vec::new(),
            zonal_shift: false,
            access_entry: true,
            subnets: Vec::new(),
            security_group: None,
        }
    }

    /// Every setting that cannot be used; empty when all is well.
    pub fn validate(&self) -> Vec<Invalid> {
        let mut wrong = Vec::new();
        let mut check = |ok: bool, field, value: &str, allowed| {
            if !ok {
                wrong.push(Invalid { field, value: value.to_owned(), allowed });
            }
        };
        check(
            is_cluster_name(&self.cluster),
            "cluster-name",
            &self.cluster,
            "expected 1 to 100 letters, digits, dashes and underscores, beginning with a letter or digit",
        );
        check(!self.region.is_empty(), "region", &self.region, "expected a region such as `eu-west-1`");
        check(
            self.account.len() == 12 && self.account.bytes().all(|byte| byte.is_ascii_digit()),
            "account",
            &self.account,
            "expected twelve digits",
        );
        check(
            is_iam_path(&self.iam_path),
            "iam-path",
            &self.iam_path,
            "expected a path that begins and ends with `/`, at most 512 characters",
        );
        for (field, arn) in
            [("permissions-boundary", &self.permissions_boundary), ("queue-kms-key", &self.queue_kms_key)]
        {
            if let Some(arn) = arn {
                check(arn.starts_with("arn:"), field, arn, "expected an ARN");
            }
        }
        for (field, arns) in [
            ("extra-node-policy", &self.extra_node_policies),
            ("extra-pass-role", &self.extra_pass_roles),
            ("extra-ssm-parameter", &self.extra_ssm_parameters),
        ] {
            for arn in arns {
                check(arn.starts_with("arn:"), field, arn, "expected an ARN");
            }
        }
        for (field, name, max) in [
            ("node-role-name", &self.node_role_name, ROLE_NAME_MAX),
            ("controller-role-name", &self.controller_role_name, ROLE_NAME_MAX),
            ("queue-name", &self.queue_name, QUEUE_NAME_MAX),
        ] {
            if let Some(name) = name {
                check(
                    !name.is_empty() && name.len() <= max && !name.contains('/'),
                    field,
                    name,
                    "expected a bare name within the limit of AWS (64 characters for roles, 80 for queues)",
                );
            }
        }
        wrong
    }

    /// `kubernetes.io/cluster/<name>`: the tag key that marks what belongs to the cluster.
    pub fn cluster_tag_key(&self) -> String {
        format!("kubernetes.io/cluster/{}", self.cluster)
    }

    /// The name of the node role, without path.
    pub fn node_role(&self) -> String {
        let computed = || bounded("KarpenterNodeRole-", &self.cluster, "", ROLE_NAME_MAX);
        self.node_role_name.clone().unwrap_or_else(computed)
    }

    /// The name of the controller role, without path.
    pub fn controller_role(&self) -> String {
        let computed = || bounded("", &self.cluster, "-karpenter", ROLE_NAME_MAX);
        self.controller_role_name.clone().unwrap_or_else(computed)
    }

    /// The name of the interruption queue.
    pub fn queue(&self) -> String {
        self.queue_name.clone().unwrap_or_else(|| bounded("", &self.cluster, "", QUEUE_NAME_MAX))
    }

    /// An IAM ARN in this account, `resource` being what stands after the last colon.
    pub fn iam_arn(&self, resource: &str) -> String {
        format!("arn:{}:iam::{}:{resource}", self.partition.arn_prefix(), self.account)
    }

    /// The ARN of the node role, path included.
    pub fn node_role_arn(&self) -> String {
        self.iam_arn(&format!("role{}{}", self.iam_path, self.node_role()))
    }

    /// The ARN of the controller role, path included.
    pub fn controller_role_arn(&self) -> String {
        self.iam_arn(&format!("role{}{}", self.iam_path, self.controller_role()))
    }

    /// The ARN of the interruption queue.
    pub fn queue_arn(&self) -> String {
        format!("arn:{}:sqs:{}:{}:{}", self.partition.arn_prefix(), self.region, self.account, self.queue())
    }

    /// The ARN of the EKS cluster.
    pub fn cluster_arn(&self) -> String {
        format!(
            "arn:{}:eks:{}:{}:cluster/{}",
            self.partition.arn_prefix(),
            self.region,
            self.account,
            self.cluster
        )
    }

    /// The ARN of a rule on the default event bus.
    pub fn rule_arn(&self, rule: &str) -> String {
        format!("arn:{}:events:{}:{}:rule/{rule}", self.partition.arn_prefix(), self.region, self.account)
    }
}

/// EKS: 100 characters, `^[0-9A-Za-z][A-Za-z0-9\-_]*$`.
fn is_cluster_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn is_iam_path(path: &str) -> bool {
    path.starts_with('/')
        && path.ends_with('/')
        && path.len() <= 512
        && path.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn settings() -> Settings {
        settings_for_cluster("prod")
    }

    pub(crate) fn settings_for_cluster(cluster: &str) -> Settings {
        Settings::new(cluster, "eu-west-1", "123456789012", Partition::Aws)
    }

    #[test]
    fn defaults_are_valid_for_every_legal_cluster_name() {
        for cluster in ["p", "prod", "Prod_1-a", &"c".repeat(100)] {
            assert_eq!(settings_for_cluster(cluster).validate(), [], "{cluster}");
        }
    }

    #[test]
    fn each_bad_value_is_named_with_what_is_allowed() {
        let cases: [(&str, fn(&mut Settings)); 9] = [
            ("cluster-name", |s| s.cluster = String::new()),
            ("cluster-name", |s| s.cluster = "c".repeat(101)),
            ("cluster-name", |s| s.cluster = "-prod".to_owned()),
            ("account", |s| s.account = "12345678901x".to_owned()),
            ("iam-path", |s| s.iam_path = "platform".to_owned()),
            ("permissions-boundary", |s| s.permissions_boundary = Some("boundary".to_owned())),
            ("queue-kms-key", |s| s.queue_kms_key = Some("alias/k".to_owned())),
            ("extra-pass-role", |s| s.extra_pass_roles = vec!["role".to_owned()]),
            ("node-role-name", |s| s.node_role_name = Some("path/role".to_owned())),
        ];
        for (field, break_it) in cases {
            let mut settings = settings();
            break_it(&mut settings);
            let wrong = settings.validate();
            assert_eq!(wrong.iter().map(|w| w.field).collect::<Vec<_>>(), [field]);
        }
    }

    #[test]
    fn a_path_stands_in_arns_but_not_in_names() {
        let mut settings = settings();
        settings.iam_path = "/platform/karpenter/".to_owned();
        assert_eq!(
            settings.node_role_arn(),
            "arn:aws:iam::123456789012:role/platform/karpenter/KarpenterNodeRole-prod"
        );
        assert_eq!(settings.node_role(), "KarpenterNodeRole-prod");
    }
}
