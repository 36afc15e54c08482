//! Validation of settings, and messages about those that cannot be used.

use std::collections::BTreeSet;

use super::{Identity, LONGEST_RULE_SUFFIX, Settings};
use crate::names::{POLICY_NAME_MAX, POLICY_SUFFIX_MAX, QUEUE_NAME_MAX, ROLE_NAME_MAX, RULE_NAME_MAX};

/// Characters that IAM allows in names besides letters and digits.
const NAMES: &str = "_+=,.@-";

/// A setting that cannot be used, with what is allowed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is `{value}`: {allowed}")]
pub struct Invalid {
    /// The field, spelled like the command-line flag without dashes in front.
    pub field: &'static str,
    /// Given value.
    pub value: String,
    /// Accepted values.
    pub allowed: &'static str,
}

impl Settings {
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
            "expected `/`, or a path such as `/platform/`, at most 512 characters",
        );
        if let Identity::Irsa { issuer } = &self.identity {
            check(
                is_issuer(issuer),
                "oidc-issuer",
                issuer,
                "expected the issuer as EKS names it, such as https://oidc.eks.eu-west-1.amazonaws.com/id/ABC: no ARN, no \
                 `/` at its end",
            );
        }
        self.arns(&mut check);
        self.names(&mut check);
        wrong
    }

    /// ARNs of the things they should be of, and no role of nodes twice.
    fn arns(&self, check: &mut impl FnMut(bool, &'static str, &str, &'static str)) {
        for (field, arns, service, resource, allowed) in [
            (
                "permissions-boundary",
                self.permissions_boundary.iter().collect(),
                "iam",
                "policy/",
                "expected the ARN of an IAM policy",
            ),
            (
                "extra-node-policy",
                self.extra_node_policies.iter().collect(),
                "iam",
                "policy/",
                "expected the ARN of an IAM policy",
            ),
            (
                "node-role-arn",
                self.existing_node_role.iter().collect(),
                "iam",
                "role/",
                "expected the ARN of an IAM role",
            ),
            (
                "extra-node-role",
                self.extra_node_roles.iter().map(|role| &role.arn).collect(),
                "iam",
                "role/",
                "expected the ARN of an IAM role",
            ),
            (
                "queue-kms-key",
                self.queue_kms_key.iter().collect::<Vec<&String>>(),
                "kms",
                "key/",
                "expected the ARN of a key, not an alias: the controller's policy names the key",
            ),
            (
                "extra-ssm-parameter",
                self.extra_ssm_parameters.iter().collect(),
                "ssm",
                "parameter/",
                "expected the ARN of an SSM parameter",
            ),
        ] {
            for arn in arns {
                check(is_arn(arn, service, resource), field, arn, allowed);
            }
        }
        let mut named = BTreeSet::from([self.node_role_arn()]);
        named.extend(self.windows.then(|| self.windows_node_role_arn()));
        for role in &self.extra_node_roles {
            // EKS makes one access entry for a role, whatever runs on its nodes.
            let once = named.insert(role.arn.clone());
            check(once, "extra-node-role", &role.arn, "expected a further role, this one is named already");
        }
    }

    /// Names that AWS takes.
    fn names(&self, check: &mut impl FnMut(bool, &'static str, &str, &'static str)) {
        let role = "expected a name without path, of at most 64 letters, digits and `_+=,.@-`";
        for (field, name, longest, others, allowed) in [
            ("node-role-name", &self.node_role_name, ROLE_NAME_MAX, NAMES, role),
            ("windows-node-role-name", &self.windows_node_role_name, ROLE_NAME_MAX, NAMES, role),
            ("controller-role-name", &self.controller_role_name, ROLE_NAME_MAX, NAMES, role),
            (
                "instance-profile-name",
                &self.instance_profile_name,
                POLICY_NAME_MAX,
                NAMES,
                "expected a name without path, of at most 128 letters, digits and `_+=,.@-`",
            ),
            (
                "policy-suffix",
                &self.policy_suffix,
                POLICY_SUFFIX_MAX,
                NAMES,
                "expected at most 100 letters, digits and `_+=,.@-`, as many as a cluster's name has",
            ),
            (
                "rule-prefix",
                &self.rule_prefix,
                RULE_NAME_MAX - LONGEST_RULE_SUFFIX,
                "._-",
                "expected at most 44 letters, digits and `.-_`: EventBridge allows 64, and the longest suffix takes 20",
            ),
            (
                "queue-name",
                &self.queue_name,
                QUEUE_NAME_MAX,
                "_-",
                "expected at most 80 letters, digits, dashes and underscores",
            ),
        ] {
            if let Some(name) = name {
                let known = |byte: u8| byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte);
                let ok = (1..=longest).contains(&name.len()) && name.bytes().all(known);
                check(ok, field, name, allowed);
            }
        }
    }
}

/// EKS: 100 characters, `^[0-9A-Za-z][A-Za-z0-9\-_]*$`.
fn is_cluster_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// IAM: `/`, or at least one character between two of them, as `^/([!-~]+/)?$` requires in the template and the module.
fn is_iam_path(path: &str) -> bool {
    path.starts_with('/')
        && path.ends_with('/')
        && path != "//"
        && path.len() <= 512
        && path.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
}

/// `arn:<partition>:<service>:...:<resource>`, with as many fields as ARNs have.
fn is_arn(text: &str, service: &str, resource: &str) -> bool {
    let fields: Vec<&str> = text.splitn(6, ':').collect();
    matches!(fields.as_slice(), ["arn", partition, found, _, _, rest]
        if !partition.is_empty() && *found == service && rest.len() > resource.len() && rest.starts_with(resource))
}

/// Host and path without scheme, as IAM names identity providers.
fn is_issuer(issuer: &str) -> bool {
    !issuer.contains(':') && issuer.split('/').all(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use crate::settings::tests::{settings, settings_for_cluster};
    use crate::settings::{ExtraNodeRole, Identity, Platform, Settings};

    fn issuer(issuer: &str) -> Identity {
        Identity::Irsa { issuer: issuer.to_owned() }
    }

    #[test]
    fn defaults_are_valid_for_every_legal_cluster_name() {
        for cluster in ["p", "prod", "Prod_1-a", &"c".repeat(100)] {
            assert_eq!(settings_for_cluster(cluster).validate(), [], "{cluster}");
        }
    }

    #[test]
    fn each_bad_value_is_named_with_what_is_allowed() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 21] = [
            ("cluster-name", |s| s.cluster = String::new()),
            ("cluster-name", |s| s.cluster = "c".repeat(101)),
            ("cluster-name", |s| s.cluster = "-prod".to_owned()),
            ("account", |s| s.account = "12345678901x".to_owned()),
            ("iam-path", |s| s.iam_path = "platform".to_owned()),
            ("iam-path", |s| s.iam_path = "//".to_owned()),
            ("permissions-boundary", |s| s.permissions_boundary = Some("boundary".to_owned())),
            ("queue-kms-key", |s| s.queue_kms_key = Some("alias/k".to_owned())),
            ("extra-node-role", |s| {
                s.extra_node_roles =
                    vec![ExtraNodeRole { arn: "role".to_owned(), platform: Platform::Linux }];
            }),
            ("node-role-arn", |s| s.existing_node_role = Some("role".to_owned())),
            ("node-role-name", |s| s.node_role_name = Some("path/role".to_owned())),
            ("queue-kms-key", |s| {
                s.queue_kms_key = Some("arn:aws:kms:eu-west-1:123456789012:alias/k".to_owned());
            }),
            ("extra-node-policy", |s| {
                s.extra_node_policies = vec!["arn:aws:iam::123456789012:role/logs".to_owned()];
            }),
            ("extra-ssm-parameter", |s| s.extra_ssm_parameters = vec!["/ami".to_owned()]),
            ("queue-name", |s| s.queue_name = Some("my queue!".to_owned())),
            ("rule-prefix", |s| s.rule_prefix = Some("r".repeat(45))),
            ("policy-suffix", |s| s.policy_suffix = Some("p".repeat(101))),
            ("policy-suffix", |s| s.policy_suffix = Some("eu/prod".to_owned())),
            ("oidc-issuer", |s| s.identity = issuer("oidc.eks.eu-west-1.amazonaws.com/id/ABC/")),
            ("oidc-issuer", |s| s.identity = issuer("arn:aws:iam::123456789012:oidc-provider/oidc/id/ABC")),
            ("extra-node-role", |s| {
                let arn = "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod".to_owned();
                s.extra_node_roles = vec![ExtraNodeRole { arn, platform: Platform::Linux }];
            }),
        ];
        for (field, break_it) in cases {
            let mut settings = settings();
            break_it(&mut settings);
            let wrong = settings.validate();
            assert_eq!(wrong.iter().map(|w| w.field).collect::<Vec<_>>(), [field]);
        }
    }
}
