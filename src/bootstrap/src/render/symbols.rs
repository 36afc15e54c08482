//! Settings made of placeholders, and the documents computed from them.
//!
//! Both CloudFormation's `Fn::Sub` and Terraform's `templatefile` write a placeholder as `${name}`, so one way of
//! computing documents serves both; only the names differ.
//!
//! Some lists have a length that only the tool has. Their placeholder stands among the elements as a string of
//! its own, and [`spliced`] turns `"${name}",` into `${name}`: the tool puts nothing there, or elements each
//! followed by a comma.

use karpenter_aws_api::Partition;

use crate::desired::{Desired, Purpose, desired};
use crate::policy::{Document, Statement, controller, trust};
use crate::settings::{ExtraNodeRole, Identity, Platform, PodIdentityTrust, Settings};

/// Names of the placeholders in a tool, without `${}`.
pub(crate) struct Symbols {
    pub(crate) cluster: &'static str,
    pub(crate) region: &'static str,
    pub(crate) account: &'static str,
    pub(crate) partition: &'static str,
    pub(crate) ec2_principal: &'static str,
    pub(crate) iam_path: &'static str,
    pub(crate) namespace: &'static str,
    pub(crate) service_account: &'static str,
    pub(crate) oidc_issuer: &'static str,
    pub(crate) node_role_arn: &'static str,
    pub(crate) queue_name: &'static str,
    pub(crate) queue_key: &'static str,
    pub(crate) rule_prefix: &'static str,
    /// Elements of the list of roles that may be passed, besides the node role.
    pub(crate) more_node_roles: &'static str,
    /// Elements of the list of SSM parameters, besides the public ones.
    pub(crate) more_parameters: &'static str,
}

/// Every document a template needs.
pub(crate) struct Documents {
    /// Prefixes of the policies' names before the cluster's name, and the rights they always grant.
    pub(crate) policies: Vec<(&'static str, Document)>,
    /// Granted only with zonal shift, in the last policy.
    pub(crate) zonal_shift: Statement,
    /// Granted only with a key of the customer's on the queue, in the last policy.
    pub(crate) queue_key: Statement,
    /// Principals that may assume a node role.
    pub(crate) node_trust: Document,
    /// Principals that may assume the controller role, by EKS Pod Identity and the cluster's ARN.
    pub(crate) pod_identity_trust: Document,
    /// Principals that may assume the controller role, by EKS Pod Identity and the tags of the session.
    pub(crate) session_trust: Document,
    /// Principals that may assume the controller role, by the cluster's identity provider.
    pub(crate) irsa_trust: Document,
    /// Everything else; its policies and roles are not for use.
    pub(crate) rest: Desired,
}

impl Symbols {
    /// Settings with `${name}` wherever a user would have set a value.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            partition: hole(self.partition),
            ec2_principal: hole(self.ec2_principal),
            iam_path: hole(self.iam_path),
            namespace: hole(self.namespace),
            service_account: hole(self.service_account),
            existing_node_role: Some(hole(self.node_role_arn)),
            queue_name: Some(hole(self.queue_name)),
            rule_prefix: Some(hole(self.rule_prefix)),
            extra_node_roles: vec![ExtraNodeRole {
                arn: hole(self.more_node_roles),
                platform: Platform::Linux,
            }],
            extra_ssm_parameters: vec![hole(self.more_parameters)],
            ..Settings::new(&hole(self.cluster), &hole(self.region), &hole(self.account), Partition::Aws)
        }
    }

    /// Computes the documents.
    pub(crate) fn documents(&self) -> Documents {
        let settings = self.settings();
        let mut irsa = settings.clone();
        irsa.identity = Identity::Irsa { issuer: hole(self.oidc_issuer) };
        let session = Settings { pod_identity_trust: PodIdentityTrust::SessionTags, ..settings.clone() };
        let controller_trust = |settings: &Settings| {
            trust::controller(settings).expect("invariant: only the identity `None` has no trust document")
        };
        let policies = controller::policies(&settings);
        Documents {
            policies: policies.map(|(name, statements)| (name, Document::of(statements))).into(),
            zonal_shift: controller::zonal_shift(&settings),
            queue_key: controller::queue_key(&hole(self.queue_key)),
            node_trust: trust::node(&settings),
            pod_identity_trust: controller_trust(&settings),
            session_trust: controller_trust(&session),
            irsa_trust: controller_trust(&irsa),
            rest: desired(&settings),
        }
    }

    /// Turns the placeholders that stand for any number of list elements from a string into bare text.
    pub(crate) fn spliced(&self, text: &str) -> String {
        [self.more_node_roles, self.more_parameters]
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(&format!("\"{}\",", hole(name)), &hole(name)))
    }
}

/// The node role's AWS-managed policies by name.
pub(crate) fn node_policies(settings: &Settings) -> Vec<String> {
    let mut settings = settings.clone();
    settings.existing_node_role = None;
    let roles = desired(&settings).roles;
    let attached = roles.into_iter().find(|role| role.purpose == Purpose::Nodes).map(|role| role.attached);
    let name = |arn: String| arn.rsplit('/').next().unwrap_or_default().to_owned();
    attached.unwrap_or_default().into_iter().map(name).collect()
}

/// `${name}`
fn hole(name: &str) -> String {
    format!("${{{name}}}")
}
