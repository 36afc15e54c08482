//! Decisions of the operator: the cluster, where it lives, names and options. Validated once, at the edge.

mod validate;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::Partition;

pub use self::validate::Invalid;
use crate::names::{POLICY_NAME_MAX, QUEUE_NAME_MAX, ROLE_NAME_MAX, RULE_NAME_MAX, bounded};

/// Length that the longest rule name adds to the prefix all of a cluster's rules share.
const LONGEST_RULE_SUFFIX: usize = "-InstanceStateChange".len();

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
    /// Second field of every ARN: `aws`, `aws-cn`, ...
    pub partition: String,
    /// Principal of EC2 in the partition: `ec2.amazonaws.com`, `ec2.amazonaws.com.cn`, ...
    pub ec2_principal: String,
    /// IAM path of roles, policies and profile; begins and ends with `/`.
    pub iam_path: String,
    /// ARN of the permissions boundary put on every role made here; `None` leaves the one a role has.
    pub permissions_boundary: Option<String>,
    /// Extra tags on everything that is created.
    pub tags: BTreeMap<String, String>,
    /// Way in which the controller gets its credentials.
    pub identity: Identity,
    /// Condition that ties the controller role to this cluster with EKS Pod Identity.
    pub pod_identity_trust: PodIdentityTrust,
    /// Namespace of the controller's service account.
    pub namespace: String,
    /// Name of the controller's service account.
    pub service_account: String,
    /// Overrides the name of the node role. The role is created under this name when it does not exist.
    pub node_role_name: Option<String>,
    /// ARN of a node role that is managed elsewhere; none is made then.
    pub existing_node_role: Option<String>,
    /// True if a second node role is made for Windows nodes: the access entry of Linux nodes does not serve them.
    pub windows: bool,
    /// Overrides the name of the node role for Windows.
    pub windows_node_role_name: Option<String>,
    /// Overrides the name of the static instance profile.
    pub instance_profile_name: Option<String>,
    /// Overrides the name of the controller role.
    pub controller_role_name: Option<String>,
    /// Overrides what the names of the controller's policies end with: the cluster's name.
    pub policy_suffix: Option<String>,
    /// Overrides the name of the interruption queue.
    pub queue_name: Option<String>,
    /// Overrides what the names of the rules begin with.
    pub rule_prefix: Option<String>,
    /// ARN of a customer-managed key that encrypts the queue; `None` leaves the key a queue has, and a new queue gets
    /// SQS-managed encryption.
    pub queue_kms_key: Option<String>,
    /// Protections to remove from things that have them.
    pub take_off: BTreeSet<Removable>,
    /// Address family of the cluster's pods; `None` while that is not known, and counts as IPv4.
    pub ip_family: Option<IpFamily>,
    /// ARNs of further managed policies for the node role.
    pub extra_node_policies: Vec<String>,
    /// Further roles, made elsewhere, that EC2NodeClasses name in `spec.role`.
    pub extra_node_roles: Vec<ExtraNodeRole>,
    /// ARNs of private SSM parameters that `amiSelectorTerms` name.
    pub extra_ssm_parameters: Vec<String>,
    /// True if the controller reads the zonal-shift status of the cluster.
    pub zonal_shift: bool,
    /// True if an EKS access entry lets the nodes join.
    pub access_entry: bool,
    /// Way in which node classes find subnets and security group; it decides whether those are tagged.
    pub selection: Selection,
    /// Subnets to tag for discovery; empty means the cluster's own.
    pub subnets: Vec<String>,
    /// The security group to tag for discovery; `None` means the cluster security group.
    pub security_group: Option<String>,
    /// Treatment of things that exist under our names and that others made.
    pub foreign: Foreign,
}

/// Protections that stay on things that have them unless the operator decides otherwise: a person who runs `apply` without the
/// flag that put one there hardly means to weaken the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Removable {
    /// The permissions boundary of our roles.
    PermissionsBoundary,
    /// The customer-managed key of the queue.
    QueueKmsKey,
}

/// Treatment of things that exist under our names and that others made for this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// They are in the way: nothing is done.
    InTheWay,
    /// They are taken over: tagged as ours and brought to the desired state. What carries another cluster's tag never is.
    Adopted,
}

/// The addresses that pods get, which decides what the network plugin on the nodes has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4.
    V4,
    V6,
}

/// Way in which node classes select subnets and security groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// By the discovery tag, which holds the name of one cluster.
    ByTag,
    /// By ids or tags of the operator's own: nothing of the network is tagged. For subnets that clusters share.
    ByOthers,
}

/// Way in which the controller's pods obtain credentials for the controller role.
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

/// Condition in the trust document of the controller role on a session of EKS Pod Identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodIdentityTrust {
    /// That it is asked for on behalf of this cluster: `aws:SourceArn` and `aws:SourceAccount`.
    ClusterArn,
    /// That it carries the tags which EKS gives the sessions of this cluster's controller: `aws:RequestTag/...` of
    /// cluster, namespace and service account. For accounts where the other way is refused; associations that
    /// switch session tags off get no credentials this way.
    SessionTags,
}

/// A role of one or some EC2NodeClasses, besides the node role.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExtraNodeRole {
    /// Its ARN, path included.
    pub arn: String,
    /// Operating system of the nodes that have it.
    pub platform: Platform,
}

/// The operating system of nodes, which decides the type of their access entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// Any Linux, Bottlerocket included.
    Linux,
    /// Windows: its nodes belong to one more group than those of Linux.
    Windows,
}

impl Platform {
    /// The type of access entry as EKS spells it.
    pub(crate) fn entry_type(self) -> &'static str {
        match self {
            Self::Linux => "EC2_LINUX",
            Self::Windows => "EC2_WINDOWS",
        }
    }
}

impl Settings {
    /// Settings with every default for a cluster. `account` and `partition` come from STS.
    pub fn new(cluster: &str, region: &str, account: &str, partition: Partition) -> Self {
        Self {
            cluster: cluster.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            partition: partition.arn_prefix().to_owned(),
            ec2_principal: partition.ec2_principal(),
            iam_path: "/".to_owned(),
            permissions_boundary: None,
            tags: BTreeMap::new(),
            identity: Identity::PodIdentity,
            pod_identity_trust: PodIdentityTrust::ClusterArn,
            namespace: "kube-system".to_owned(),
            service_account: "karpenter".to_owned(),
            node_role_name: None,
            existing_node_role: None,
            windows: false,
            windows_node_role_name: None,
            instance_profile_name: None,
            controller_role_name: None,
            policy_suffix: None,
            queue_name: None,
            rule_prefix: None,
            queue_kms_key: None,
            take_off: BTreeSet::new(),
            ip_family: None,
            extra_node_policies: Vec::new(),
            extra_node_roles: Vec::new(),
            extra_ssm_parameters: Vec::new(),
            zonal_shift: false,
            access_entry: true,
            selection: Selection::ByTag,
            subnets: Vec::new(),
            security_group: None,
            foreign: Foreign::InTheWay,
        }
    }

    /// `kubernetes.io/cluster/<name>`: the tag key that marks what belongs to the cluster.
    pub(crate) fn cluster_tag_key(&self) -> String {
        format!("kubernetes.io/cluster/{}", self.cluster)
    }

    /// The name of the node role, without path.
    pub fn node_role(&self) -> String {
        if let Some(arn) = &self.existing_node_role {
            return arn.rsplit('/').next().unwrap_or(arn).to_owned();
        }
        let computed = || bounded("KarpenterNodeRole-", &self.cluster, "", ROLE_NAME_MAX);
        self.node_role_name.clone().unwrap_or_else(computed)
    }

    /// The name of the node role for Windows, without path.
    pub fn windows_node_role(&self) -> String {
        let computed = || bounded("KarpenterWindowsNodeRole-", &self.cluster, "", ROLE_NAME_MAX);
        self.windows_node_role_name.clone().unwrap_or_else(computed)
    }

    /// The name of the controller role, without path.
    pub fn controller_role(&self) -> String {
        let computed = || bounded("", &self.cluster, "-karpenter", ROLE_NAME_MAX);
        self.controller_role_name.clone().unwrap_or_else(computed)
    }

    /// Returns the suffix of the names of the controller's policies.
    pub fn policy_suffix(&self) -> &str {
        self.policy_suffix.as_deref().unwrap_or(&self.cluster)
    }

    /// The name of the interruption queue.
    pub fn queue(&self) -> String {
        self.queue_name.clone().unwrap_or_else(|| bounded("", &self.cluster, "", QUEUE_NAME_MAX))
    }

    /// Returns the prefix of the names of the cluster's rules.
    pub fn rule_prefix(&self) -> String {
        let computed = || bounded("Karpenter-", &self.cluster, "", RULE_NAME_MAX - LONGEST_RULE_SUFFIX);
        self.rule_prefix.clone().unwrap_or_else(computed)
    }

    /// The name of the static instance profile, without path.
    pub fn instance_profile(&self) -> String {
        let computed = || bounded("KarpenterNodeInstanceProfile-", &self.cluster, "", POLICY_NAME_MAX);
        self.instance_profile_name.clone().unwrap_or_else(computed)
    }

    /// An IAM ARN in this account, `resource` being what stands after the last colon.
    pub fn iam_arn(&self, resource: &str) -> String {
        format!("arn:{}:iam::{}:{resource}", self.partition, self.account)
    }

    /// The ARN of the node role, path included.
    pub fn node_role_arn(&self) -> String {
        let computed = || self.iam_arn(&format!("role{}{}", self.iam_path, self.node_role()));
        self.existing_node_role.clone().unwrap_or_else(computed)
    }

    /// The ARN of the node role for Windows, path included.
    pub fn windows_node_role_arn(&self) -> String {
        self.iam_arn(&format!("role{}{}", self.iam_path, self.windows_node_role()))
    }

    /// The ARN of the identity provider that IRSA needs; `None` without IRSA.
    pub fn oidc_provider_arn(&self) -> Option<String> {
        match &self.identity {
            Identity::Irsa { issuer } => Some(self.iam_arn(&format!("oidc-provider/{issuer}"))),
            Identity::PodIdentity | Identity::None => None,
        }
    }

    /// The ARN of the controller role, path included.
    pub fn controller_role_arn(&self) -> String {
        self.iam_arn(&format!("role{}{}", self.iam_path, self.controller_role()))
    }

    /// The ARN of the interruption queue.
    pub fn queue_arn(&self) -> String {
        format!("arn:{}:sqs:{}:{}:{}", self.partition, self.region, self.account, self.queue())
    }

    /// The ARN of the EKS cluster.
    pub fn cluster_arn(&self) -> String {
        format!("arn:{}:eks:{}:{}:cluster/{}", self.partition, self.region, self.account, self.cluster)
    }

    /// The ARN of a rule on the default event bus.
    pub fn rule_arn(&self, rule: &str) -> String {
        format!("arn:{}:events:{}:{}:rule/{rule}", self.partition, self.region, self.account)
    }
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
    fn a_path_stands_in_arns_but_not_in_names() {
        let mut settings = settings();
        settings.iam_path = "/platform/karpenter/".to_owned();
        assert_eq!(
            settings.node_role_arn(),
            "arn:aws:iam::123456789012:role/platform/karpenter/KarpenterNodeRole-prod"
        );
        assert_eq!(settings.node_role(), "KarpenterNodeRole-prod");
    }

    #[test]
    fn an_existing_node_role_keeps_its_own_path() {
        let mut settings = settings();
        settings.existing_node_role = Some("arn:aws:iam::123456789012:role/team/nodes".to_owned());
        assert_eq!(settings.node_role(), "nodes");
        assert_eq!(settings.node_role_arn(), "arn:aws:iam::123456789012:role/team/nodes");
    }
}
