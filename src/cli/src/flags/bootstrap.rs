//! Flags of `karpenter bootstrap` and their way into its settings.

use std::collections::BTreeMap;

use anyhow::Context;
use clap::{Args, ValueEnum};
use karpenter_aws_api::Partition;
use karpenter_bootstrap::Settings;
use karpenter_bootstrap::settings::{
    ExtraNodeRole, Identity, Invalid, IpFamily, Platform, PodIdentityTrust, Removable, Selection,
};

/// Instead of an ARN: takes off what is there.
const NONE: &str = "none";

/// The cluster, names and options.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct BootstrapFlags {
    /// Name of the EKS cluster
    #[arg(long, env)]
    pub(crate) cluster_name: Option<String>,
    /// Region of the cluster [default: what the AWS SDK finds in `AWS_REGION` or the profile]
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Id of the AWS account [default: that of the credentials]
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// Use this endpoint for every AWS service, such as that of an emulator
    #[arg(long, env = "AWS_ENDPOINT_URL")]
    pub(crate) endpoint_url: Option<String>,
    /// How the controller gets its credentials
    #[arg(long, default_value = "pod-identity")]
    pub(crate) identity: IdentityKind,
    /// With `--identity pod-identity`: what the trust policy of the controller role compares, so that no other cluster
    /// can use the role
    #[arg(long, default_value = "cluster-arn")]
    pub(crate) pod_identity_trust: TrustKind,
    /// OIDC issuer of the cluster, for `--identity irsa` [default: as EKS reports it]
    #[arg(long, value_name = "URL")]
    pub(crate) oidc_issuer: Option<String>,
    /// Namespace of the controller's service account
    #[arg(long, default_value = "kube-system")]
    pub(crate) namespace: String,
    /// Name of the controller's service account
    #[arg(long, default_value = "karpenter")]
    pub(crate) service_account: String,
    /// IAM path of the roles, policies and the instance profile
    #[arg(long, default_value = "/")]
    pub(crate) iam_path: String,
    /// ARN of the permissions boundary for the roles created here; `none` removes it [default: existing roles keep
    /// theirs]
    #[arg(long, value_name = "ARN|none")]
    pub(crate) permissions_boundary: Option<String>,
    /// Name of the node role; an existing role that bootstrap did not create is used unchanged [default:
    /// `KarpenterNodeRole-CLUSTER`]
    #[arg(long)]
    pub(crate) node_role_name: Option<String>,
    /// Name of the controller role [default: `CLUSTER-karpenter`]
    #[arg(long)]
    pub(crate) controller_role_name: Option<String>,
    /// Suffix of the names of the controller's policies; needed if the account has clusters of the same name in several
    /// regions [default: the name of the cluster]
    #[arg(long)]
    pub(crate) policy_suffix: Option<String>,
    /// Name of the interruption queue [default: the name of the cluster]
    #[arg(long)]
    pub(crate) queue_name: Option<String>,
    /// ARN of the KMS key that encrypts the queue; its policy must let events.amazonaws.com use it. `none` goes back to
    /// that of SQS [default: an existing queue keeps its key, a new one has that of SQS]
    #[arg(long, value_name = "ARN|none")]
    pub(crate) queue_kms_key: Option<String>,
    /// IP family of the cluster's pods; with `ipv6` node roles get the policy `AmazonEKS_CNI_IPv6_Policy` of the account
    /// [default: as EKS reports it; `ipv4` for commands that do not ask EKS]
    #[arg(long)]
    pub(crate) ip_family: Option<FamilyKind>,
    /// ARN of an additional managed policy for the node role (repeatable)
    #[arg(long = "extra-node-policy", value_name = "ARN")]
    pub(crate) extra_node_policies: Vec<String>,
    /// ARN of an existing node role to use instead of creating one
    #[arg(long, value_name = "ARN", conflicts_with = "node_role_name")]
    pub(crate) node_role_arn: Option<String>,
    /// Create a second node role, for Windows nodes
    #[arg(long)]
    pub(crate) windows: bool,
    /// Name of the node role for Windows [default: `KarpenterWindowsNodeRole-CLUSTER`]
    #[arg(long, requires = "windows")]
    pub(crate) windows_node_role_name: Option<String>,
    /// Name of the instance profile, which clusters without access to the IAM API need [default:
    /// `KarpenterNodeInstanceProfile-CLUSTER`]
    #[arg(long)]
    pub(crate) instance_profile_name: Option<String>,
    /// Prefix of the names of the event rules [default: `Karpenter-CLUSTER`]
    #[arg(long)]
    pub(crate) rule_prefix: Option<String>,
    /// ARN of an additional node role that an EC2NodeClass names (repeatable)
    #[arg(long = "extra-node-role", value_name = "ARN")]
    pub(crate) extra_node_roles: Vec<String>,
    /// ARN of an additional node role that an EC2NodeClass for Windows names (repeatable)
    #[arg(long = "extra-windows-node-role", value_name = "ARN")]
    pub(crate) extra_windows_node_roles: Vec<String>,
    /// ARN of a private SSM parameter that an EC2NodeClass names (repeatable)
    #[arg(long = "extra-ssm-parameter", value_name = "ARN")]
    pub(crate) extra_ssm_parameters: Vec<String>,
    /// Additional tag for everything that is created (repeatable)
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) tags: Vec<(String, String)>,
    /// Do not tag subnets and security group for discovery: EC2NodeClasses select them by id, as they must if clusters
    /// share them
    #[arg(long, conflicts_with_all = ["subnets", "security_group"])]
    pub(crate) no_discovery_tags: bool,
    /// Subnet to tag for discovery (repeatable) [default: the private subnets of the cluster]
    #[arg(long = "subnet", value_name = "ID")]
    pub(crate) subnets: Vec<String>,
    /// Security group to tag for discovery, one that the nodes under `CoreDNS` have [default: the cluster security group]
    #[arg(long, value_name = "ID")]
    pub(crate) security_group: Option<String>,
    /// Let the controller read the zonal-shift status of the cluster
    #[arg(long)]
    pub(crate) zonal_shift: bool,
    /// Do not create an EKS access entry for the node role
    #[arg(long)]
    pub(crate) no_access_entry: bool,
}

/// Values of `--identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdentityKind {
    /// EKS Pod Identity; needs the eks-pod-identity-agent add-on.
    PodIdentity,
    /// IAM roles for service accounts; needs the cluster's OIDC provider in IAM.
    Irsa,
    /// Create no controller role.
    None,
}

/// Values of `--pod-identity-trust`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrustKind {
    /// ARN and account of the cluster (`aws:SourceArn` and `aws:SourceAccount`).
    ClusterArn,
    /// The tags that EKS puts on each session: cluster, namespace and service account.
    SessionTags,
}

/// Values of `--ip-family`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyKind {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl From<FamilyKind> for IpFamily {
    fn from(kind: FamilyKind) -> Self {
        match kind {
            FamilyKind::Ipv4 => Self::V4,
            FamilyKind::Ipv6 => Self::V6,
        }
    }
}

impl BootstrapFlags {
    /// The name of the cluster, which may also come from elsewhere than a flag.
    pub(crate) fn cluster(&self) -> anyhow::Result<&str> {
        self.cluster_name.as_deref().context("name the cluster with --cluster-name or CLUSTER_NAME")
    }

    /// Returns whether EKS has to be asked for the issuer.
    pub(crate) fn lacks_issuer(&self) -> bool {
        self.identity == IdentityKind::Irsa && self.oidc_issuer.is_none()
    }

    /// Settings for this account. `issuer` is the one EKS named, if it was asked.
    pub(crate) fn settings(
        &self,
        account: &str,
        region: &str,
        issuer: Option<&str>,
    ) -> anyhow::Result<Settings> {
        let cluster = self.cluster()?;
        anyhow::ensure!(
            self.oidc_issuer.is_none() || self.identity == IdentityKind::Irsa,
            "--oidc-issuer is for --identity irsa: add that, or leave the issuer out"
        );
        let mut settings = Settings::new(cluster, region, account, Partition::of_region(region));
        settings.identity = match self.identity {
            IdentityKind::PodIdentity => Identity::PodIdentity,
            IdentityKind::None => Identity::None,
            IdentityKind::Irsa => {
                let issuer = self.oidc_issuer.as_deref().or(issuer).with_context(|| {
                    format!("cluster `{cluster}` has no OIDC issuer, which --identity irsa needs")
                })?;
                Identity::Irsa { issuer: issuer.trim_start_matches("https://").to_owned() }
            }
        };
        settings.pod_identity_trust = match self.pod_identity_trust {
            TrustKind::ClusterArn => PodIdentityTrust::ClusterArn,
            TrustKind::SessionTags => PodIdentityTrust::SessionTags,
        };
        settings.tags = self.tags.iter().cloned().collect::<BTreeMap<_, _>>();
        settings.namespace.clone_from(&self.namespace);
        settings.service_account.clone_from(&self.service_account);
        settings.iam_path.clone_from(&self.iam_path);
        settings.node_role_name.clone_from(&self.node_role_name);
        settings.controller_role_name.clone_from(&self.controller_role_name);
        settings.policy_suffix.clone_from(&self.policy_suffix);
        settings.queue_name.clone_from(&self.queue_name);
        settings.ip_family = self.ip_family.map(IpFamily::from);
        settings.extra_node_policies.clone_from(&self.extra_node_policies);
        settings.existing_node_role.clone_from(&self.node_role_arn);
        settings.windows = self.windows;
        settings.windows_node_role_name.clone_from(&self.windows_node_role_name);
        settings.instance_profile_name.clone_from(&self.instance_profile_name);
        settings.rule_prefix.clone_from(&self.rule_prefix);
        settings.extra_node_roles = self.extra_roles();
        settings.extra_ssm_parameters.clone_from(&self.extra_ssm_parameters);
        settings.subnets.clone_from(&self.subnets);
        settings.security_group.clone_from(&self.security_group);
        settings.zonal_shift = self.zonal_shift;
        settings.access_entry = !self.no_access_entry;
        if self.no_discovery_tags {
            settings.selection = Selection::ByOthers;
        }
        let mut removable = |given: &Option<String>, what| match given.as_deref() {
            Some(NONE) => {
                settings.take_off.insert(what);
                None
            }
            _ => given.clone(),
        };
        let boundary = removable(&self.permissions_boundary, Removable::PermissionsBoundary);
        let key = removable(&self.queue_kms_key, Removable::QueueKmsKey);
        (settings.permissions_boundary, settings.queue_kms_key) = (boundary, key);
        named(&settings.validate())?;
        Ok(settings)
    }

    /// Settings for this account, which exists: what they name is of it.
    pub(crate) fn settings_in(
        &self,
        account: &str,
        region: &str,
        issuer: Option<&str>,
    ) -> anyhow::Result<Settings> {
        let settings = self.settings(account, region, issuer)?;
        named(&settings.misplaced())?;
        Ok(settings)
    }

    fn extra_roles(&self) -> Vec<ExtraNodeRole> {
        let of = |arns: &[String], platform| -> Vec<ExtraNodeRole> {
            arns.iter().map(|arn| ExtraNodeRole { arn: arn.clone(), platform }).collect()
        };
        let mut roles = of(&self.extra_node_roles, Platform::Linux);
        roles.extend(of(&self.extra_windows_node_roles, Platform::Windows));
        roles
    }
}

/// The flags that cannot be used, a line for each.
fn named(wrong: &[Invalid]) -> anyhow::Result<()> {
    let lines: Vec<_> = wrong.iter().map(|invalid| format!("--{invalid}")).collect();
    anyhow::ensure!(lines.is_empty(), "{}", lines.join("\n"));
    Ok(())
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: BootstrapFlags,
    }

    fn settings(words: &[&str]) -> Settings {
        let words = ["bootstrap", "--cluster-name", "prod"].iter().chain(words);
        Cli::parse_from(words).flags.settings("123456789012", "eu-west-1", None).unwrap()
    }

    #[test]
    fn a_boundary_or_key_is_left_given_or_taken_off() {
        let (boundary, key) =
            ("arn:aws:iam::123456789012:policy/b", "arn:aws:kms:eu-west-1:123456789012:key/k");
        let both = |boundary, key| settings(&["--permissions-boundary", boundary, "--queue-kms-key", key]);
        let given = both(boundary, key);
        assert_eq!(given.permissions_boundary.as_deref(), Some(boundary));
        assert_eq!(given.queue_kms_key.as_deref(), Some(key));
        let off = both("none", "none");
        assert_eq!((off.permissions_boundary, off.queue_kms_key), (None, None));
        let all = [Removable::PermissionsBoundary, Removable::QueueKmsKey];
        assert_eq!(off.take_off, all.into());
        for left in [settings(&[]), given] {
            assert!(left.take_off.is_empty());
        }
    }

    #[test]
    fn names_of_policies_and_the_address_family_are_left_or_given() {
        let left = settings(&[]);
        assert_eq!((left.policy_suffix(), left.ip_family), ("prod", None));
        let given = settings(&["--policy-suffix", "prod-eu", "--ip-family", "ipv6"]);
        assert_eq!((given.policy_suffix(), given.ip_family), ("prod-eu", Some(IpFamily::V6)));
    }

    #[test]
    fn the_network_is_tagged_unless_told_otherwise() {
        assert_eq!(settings(&[]).selection, Selection::ByTag);
        assert_eq!(settings(&["--no-discovery-tags"]).selection, Selection::ByOthers);
    }
}
