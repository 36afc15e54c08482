//! Which settings can be used, and what to say about those that cannot.

use super::{LONGEST_RULE_SUFFIX, Settings};
use crate::names::{POLICY_NAME_MAX, QUEUE_NAME_MAX, ROLE_NAME_MAX, RULE_NAME_MAX};

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
        for (field, arn) in [
            ("permissions-boundary", &self.permissions_boundary),
            ("queue-kms-key", &self.queue_kms_key),
            ("node-role-arn", &self.existing_node_role),
        ] {
            if let Some(arn) = arn {
                check(arn.starts_with("arn:"), field, arn, "expected an ARN");
            }
        }
        let extra_roles: Vec<String> = self.extra_node_roles.iter().map(|role| role.arn.clone()).collect();
        for (field, arns) in [
            ("extra-node-role", &extra_roles),
            ("extra-node-policy", &self.extra_node_policies),
            ("extra-ssm-parameter", &self.extra_ssm_parameters),
        ] {
            for arn in arns {
                check(arn.starts_with("arn:"), field, arn, "expected an ARN");
            }
        }
        for (field, name, max) in [
            ("node-role-name", &self.node_role_name, ROLE_NAME_MAX),
            ("windows-node-role-name", &self.windows_node_role_name, ROLE_NAME_MAX),
            ("instance-profile-name", &self.instance_profile_name, POLICY_NAME_MAX),
            ("rule-prefix", &self.rule_prefix, RULE_NAME_MAX - LONGEST_RULE_SUFFIX),
            ("controller-role-name", &self.controller_role_name, ROLE_NAME_MAX),
            ("queue-name", &self.queue_name, QUEUE_NAME_MAX),
        ] {
            if let Some(name) = name {
                check(
                    !name.is_empty() && name.len() <= max && !name.contains('/'),
                    field,
                    name,
                    "expected a bare name within the limit of AWS: 64 characters for roles, 80 for queues, 128 for \
                     profiles, 44 for the prefix of rules",
                );
            }
        }
        wrong
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
mod tests {
    use crate::settings::tests::{settings, settings_for_cluster};
    use crate::settings::{ExtraNodeRole, Platform, Settings};

    #[test]
    fn defaults_are_valid_for_every_legal_cluster_name() {
        for cluster in ["p", "prod", "Prod_1-a", &"c".repeat(100)] {
            assert_eq!(settings_for_cluster(cluster).validate(), [], "{cluster}");
        }
    }

    #[test]
    fn each_bad_value_is_named_with_what_is_allowed() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 10] = [
            ("cluster-name", |s| s.cluster = String::new()),
            ("cluster-name", |s| s.cluster = "c".repeat(101)),
            ("cluster-name", |s| s.cluster = "-prod".to_owned()),
            ("account", |s| s.account = "12345678901x".to_owned()),
            ("iam-path", |s| s.iam_path = "platform".to_owned()),
            ("permissions-boundary", |s| s.permissions_boundary = Some("boundary".to_owned())),
            ("queue-kms-key", |s| s.queue_kms_key = Some("alias/k".to_owned())),
            ("extra-node-role", |s| {
                s.extra_node_roles =
                    vec![ExtraNodeRole { arn: "role".to_owned(), platform: Platform::Linux }];
            }),
            ("node-role-arn", |s| s.existing_node_role = Some("role".to_owned())),
            ("node-role-name", |s| s.node_role_name = Some("path/role".to_owned())),
        ];
        for (field, break_it) in cases {
            let mut settings = settings();
            break_it(&mut settings);
            let wrong = settings.validate();
            assert_eq!(wrong.iter().map(|w| w.field).collect::<Vec<_>>(), [field]);
        }
    }
}
