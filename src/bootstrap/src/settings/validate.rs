//! Validation of settings, and messages about those that cannot be used.

use std::collections::BTreeSet;

use karpenter_iam::is_name;
use karpenter_model::requirement::syntax::is_dns_subdomain;

use super::{Identity, LONGEST_RULE_SUFFIX, Settings};
use crate::names::{POLICY_NAME_MAX, POLICY_SUFFIX_MAX, QUEUE_NAME_MAX, ROLE_NAME_MAX, RULE_NAME_MAX};

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
        check(is_region(&self.region), "region", &self.region, "expected a region such as `eu-west-1`");
        check(
            self.namespace.len() <= 63 && is_dns_subdomain(&self.namespace) && !self.namespace.contains('.'),
            "namespace",
            &self.namespace,
            "expected at most 63 lower-case letters, digits and dashes, as Kubernetes has them",
        );
        check(
            is_dns_subdomain(&self.service_account),
            "service-account",
            &self.service_account,
            "expected lower-case letters, digits, dashes and dots, as Kubernetes has them",
        );
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

    /// Every ARN that is of another partition or region, and those of another account that no role here can use.
    pub fn misplaced(&self) -> Vec<Invalid> {
        let of_account = "expected one of this account and partition";
        let of_region = "expected one of this region and partition: a queue has no other keys";
        let readable = "expected one of this region and partition: the controller reads no other";
        let roles = self.extra_node_roles.iter().map(|role| &role.arn);
        let given = [
            ("permissions-boundary", self.permissions_boundary.iter().collect(), of_account),
            ("extra-node-policy", self.extra_node_policies.iter().collect(), of_account),
            ("node-role-arn", self.existing_node_role.iter().collect(), of_account),
            ("extra-node-role", roles.collect(), of_account),
            ("queue-kms-key", self.queue_kms_key.iter().collect(), of_region),
            ("extra-ssm-parameter", self.extra_ssm_parameters.iter().collect::<Vec<&String>>(), readable),
        ];
        let of = |(field, arns, allowed): (&'static str, Vec<&String>, &'static str)| {
            let elsewhere = arns.into_iter().filter(|arn| !self.is_here(arn));
            let invalid = move |arn: &String| Invalid { field, value: arn.clone(), allowed };
            elsewhere.map(invalid).collect::<Vec<_>>()
        };
        given.into_iter().flat_map(of).collect()
    }

    /// Things of IAM are of an account, or AWS's own, and of no region; the others may be shared by another account.
    fn is_here(&self, arn: &str) -> bool {
        let fields: Vec<&str> = arn.splitn(6, ':').collect();
        let [_, partition, service, region, account, resource] = fields.as_slice() else { return true };
        let of_aws = *account == "aws" && resource.starts_with("policy/");
        let placed =
            if *service == "iam" { *account == self.account || of_aws } else { *region == self.region };
        *partition == self.partition && placed
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
        for (field, name, longest, fits, allowed) in [
            ("node-role-name", &self.node_role_name, ROLE_NAME_MAX, is_name as IsName, role),
            ("windows-node-role-name", &self.windows_node_role_name, ROLE_NAME_MAX, is_name, role),
            ("controller-role-name", &self.controller_role_name, ROLE_NAME_MAX, is_name, role),
            (
                "instance-profile-name",
                &self.instance_profile_name,
                POLICY_NAME_MAX,
                is_name,
                "expected a name without path, of at most 128 letters, digits and `_+=,.@-`",
            ),
            (
                "policy-suffix",
                &self.policy_suffix,
                POLICY_SUFFIX_MAX,
                is_name,
                "expected at most 100 letters, digits and `_+=,.@-`, as many as a cluster's name has",
            ),
            (
                "rule-prefix",
                &self.rule_prefix,
                RULE_NAME_MAX - LONGEST_RULE_SUFFIX,
                |name, longest| is_of(name, longest, b"._-"),
                "expected at most 44 letters, digits and `.-_`: EventBridge allows 64, and the longest suffix takes 20",
            ),
            (
                "queue-name",
                &self.queue_name,
                QUEUE_NAME_MAX,
                |name, longest| is_of(name, longest, b"_-"),
                "expected at most 80 letters, digits, dashes and underscores",
            ),
        ] {
            if let Some(name) = name {
                check(fits(name, longest), field, name, allowed);
            }
        }
    }
}

/// Returns whether a text is a name of at most so many characters.
type IsName = fn(&str, usize) -> bool;

/// Returns whether a text has 1 to `longest` letters, digits and `others`.
fn is_of(text: &str, longest: usize, others: &[u8]) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    (1..=longest).contains(&text.len()) && text.bytes().all(known)
}

/// EKS: 100 characters, `^[0-9A-Za-z][A-Za-z0-9\-_]*$`.
fn is_cluster_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && is_of(name, 100, b"_-")
}

/// Words and a number: `us-gov-west-1`, but neither a zone, `eu-west-1a`, nor `EU-WEST-1`.
fn is_region(region: &str) -> bool {
    let Some((words, number)) = region.rsplit_once('-') else { return false };
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.contains('-')
        && words.split('-').all(is_word)
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
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
        let cases: [(&str, Spoil); 27] = [
            ("cluster-name", |s| s.cluster = String::new()),
            ("cluster-name", |s| s.cluster = "c".repeat(101)),
            ("cluster-name", |s| s.cluster = "-prod".to_owned()),
            ("account", |s| s.account = "12345678901x".to_owned()),
            ("region", |s| s.region = "eu-west-1a".to_owned()),
            ("region", |s| s.region = "EU-WEST-1".to_owned()),
            ("namespace", |s| s.namespace = String::new()),
            ("namespace", |s| s.namespace = "kube_system".to_owned()),
            ("service-account", |s| s.service_account = "*".to_owned()),
            ("service-account", |s| s.service_account = "karpenter-".to_owned()),
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

    #[test]
    fn regions_are_those_of_every_partition() {
        for region in ["eu-west-1", "us-gov-west-1", "us-iso-east-1", "eusc-de-east-1", "ap-southeast-7"] {
            let settings = Settings { region: region.to_owned(), ..settings() };
            assert_eq!(settings.validate(), [], "{region}");
        }
    }

    #[test]
    fn what_is_of_another_place_is_named() {
        type Change = fn(&mut Settings);
        let cases: [(Change, &[&str]); 7] = [
            (|s| s.permissions_boundary = Some("arn:aws:iam::123456789012:policy/b".to_owned()), &[]),
            (|s| s.permissions_boundary = Some("arn:aws:iam::aws:policy/PowerUserAccess".to_owned()), &[]),
            (
                |s| s.permissions_boundary = Some("arn:aws-cn:iam::123456789012:policy/b".to_owned()),
                &["permissions-boundary"],
            ),
            (
                |s| s.existing_node_role = Some("arn:aws:iam::444455556666:role/nodes".to_owned()),
                &["node-role-arn"],
            ),
            (
                |s| s.queue_kms_key = Some("arn:aws:kms:us-east-1:444455556666:key/k".to_owned()),
                &["queue-kms-key"],
            ),
            (
                |s| {
                    let (region, key) = (&s.region, "444455556666:key/k");
                    s.queue_kms_key = Some(format!("arn:aws:kms:{region}:{key}"));
                    s.extra_ssm_parameters = vec![format!("arn:aws:ssm:{region}::parameter/aws/service/ami")];
                },
                &[],
            ),
            (
                |s| s.extra_ssm_parameters = vec!["arn:aws:ssm:us-east-1::parameter/ami".to_owned()],
                &["extra-ssm-parameter"],
            ),
        ];
        for (change, expected) in cases {
            let mut settings = settings();
            change(&mut settings);
            assert_eq!(settings.validate(), []);
            let fields: Vec<_> = settings.misplaced().iter().map(|one| one.field).collect();
            assert_eq!(fields, expected, "{settings:?}");
        }
    }
}
