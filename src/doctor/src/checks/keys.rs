//! Customer managed keys, and whether the identities that need them may use them (spec aws-operations 1.14).

use karpenter_api::EC2NodeClass;
use karpenter_aws_api::Partition;
use karpenter_iam::Request;

use super::name;
use super::policies::{any, gathered, lets};
use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Answer, Facts, Key, Objects, Right, Unseen};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-7",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "rules match, FailedInvocations rises, the queue stays empty",
        cause: "the queue is encrypted with a key whose policy does not let events.amazonaws.com use it",
        fix: "allow events.amazonaws.com kms:GenerateDataKey and kms:Decrypt, and the controller's role kms:Decrypt: `aws kms get-key-policy --key-id <key> --policy-name default`, then put-key-policy; or use SQS's own encryption",
        look: Look::At(deaf_queues),
    },
    Check {
        id: "P-30",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "instances terminate at once",
        cause: "EBS volumes are encrypted, by default or by their EC2NodeClass, with a key that the controller's role may not use",
        fix: "allow the key for EC2 (kms:ViaService), with grants for the controller's role: `aws kms get-key-policy --key-id <key> --policy-name default`, then put-key-policy",
        look: Look::At(locked_volumes),
    },
];

/// Actions of `EventBridge` on a queue's key.
const BY_EVENTS: [&str; 2] = ["kms:GenerateDataKey", "kms:Decrypt"];
/// Actions of EC2 on a volume's key.
const BY_LAUNCHES: [&str; 2] = ["kms:CreateGrant", "kms:Decrypt"];

/// Prefix that marks AWS's own keys.
const OWN_KEYS: &str = "alias/aws/";

/// Keys that a class names for the volumes of its nodes.
pub(crate) fn volume_keys(class: &EC2NodeClass) -> impl Iterator<Item = &str> {
    let volumes = class.spec.block_device_mappings.iter().flatten().filter_map(|found| found.ebs.as_ref());
    volumes.filter_map(|volume| volume.kms_key_id.as_deref())
}

/// A key by what it is named with; one that was not asked about is not known.
fn key<'a>(facts: &'a Facts, key: &str) -> Result<&'a Key, Unseen> {
    facts.account.keys.get()?.get(key).map_or_else(|| Err(Unseen("not asked".to_owned())), Answer::get)
}

fn deaf_queues(facts: &Facts) -> Outcome {
    let suffix = Partition::of_region(facts.account.region.get()?).dns_suffix();
    let queues = facts.account.queues.get()?;
    let encrypted = queues.iter().filter_map(|(name, queue)| Some((name, queue.as_ref()?.kms_key.as_ref()?)));
    gathered(encrypted.map(|(name, key)| {
        let seen = if key.contains(OWN_KEYS) {
            format!("is encrypted with {key}, which only lets SQS's own callers in")
        } else if lets_events(self::key(facts, key)?, suffix)? {
            return Ok(None);
        } else {
            format!("is encrypted with {key}, whose policy does not let events.amazonaws.com use it")
        };
        Ok(Some(Evidence::new(format!("queue {name}"), seen)))
    }))
}

fn locked_volumes(facts: &Facts) -> Outcome {
    let rights = facts.account.rights.get()?;
    // Rights are those of the controller's role: without any there is no role yet that a key could refuse.
    let Some(role) = rights.first().map(|right| right.role.as_str()) else { return Ok(Vec::new()) };
    let volumes = facts.account.volumes.get()?;
    let look = |object: String, key: &str, seen: String| {
        Ok((!is_usable(facts, role, rights, key)?).then(|| Evidence::new(object, seen)))
    };
    let mut looks = Vec::new();
    if volumes.encrypted {
        let seen =
            "encrypts every new volume, and neither its policy nor IAM lets the controller's role use it";
        looks.push(look(format!("key {}", volumes.key), &volumes.key, seen.to_owned()));
    }
    for class in facts.cluster.node_classes.if_asked()?.into_iter().flat_map(Objects::decoded) {
        for key in volume_keys(class) {
            let seen = format!(
                "encrypts with {key}, and neither its policy nor IAM lets the controller's role use it"
            );
            looks.push(look(format!("EC2NodeClass {}", name(&class.metadata)), key, seen));
        }
    }
    gathered(looks)
}

/// The key's policy lets `EventBridge` in, under either spelling of its name in China.
fn lets_events(key: &Key, suffix: &str) -> Result<bool, Unseen> {
    any(["events.amazonaws.com", &format!("events.{suffix}")].map(|service| {
        let requests = BY_EVENTS.map(|action| {
            let request = Request::new(action, &key.arn).by("Service", service);
            // `arn:aws:kms:eu-west-1:123456789012:key/...`
            match key.arn.split(':').nth(4) {
                Some(account) => request.with("aws:SourceAccount", account),
                None => request,
            }
        });
        lets(&key.policy, requests)
    }))
}

/// The key's policy lets the controller's role in by itself, or leaves it to IAM, where the role has the right.
fn is_usable(facts: &Facts, role: &str, rights: &[Right], named: &str) -> Result<bool, Unseen> {
    if named.contains(OWN_KEYS) {
        return Ok(true);
    }
    let Key { arn, policy } = key(facts, named)?;
    let region = facts.account.region.get()?;
    let via = format!("ec2.{region}.{}", Partition::of_region(region).dns_suffix());
    let requests = BY_LAUNCHES.map(|action| {
        let request = Request::new(action, arn)
            .by("AWS", role)
            .with("kms:CallerAccount", role.split(':').nth(4).unwrap_or_default())
            .with("kms:GrantIsForAWSResource", "true")
            .with("kms:ViaService", &via);
        let is_right = |right: &Right| right.resource == *arn && right.action == action && right.allowed;
        if rights.iter().any(is_right) { request.allowed_by_account() } else { request }
    });
    lets(policy, requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_by_principal_and_action() {
        for (policy, expected) in [
            (
                r#"{"Statement":{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":["kms:Decrypt","kms:GenerateDataKey*"]}}"#,
                true,
            ),
            (
                r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":["a","events.amazonaws.com"]},"Action":"kms:*"}]}"#,
                true,
            ),
            (r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*"}]}"#, true),
            (
                r#"{"Statement":[{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"kms:Decrypt"}]}"#,
                false,
            ),
            (r#"{"Statement":[{"Effect":"Deny","Principal":"*","Action":"*"}]}"#, false),
            (
                r#"{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"kms:*"}]}"#,
                false,
            ),
            ("", false),
        ] {
            let key = Key { arn: "arn:aws:kms:us-west-2:1:key/1".to_owned(), policy: policy.to_owned() };
            assert_eq!(lets_events(&key, "amazonaws.com"), Ok(expected), "{policy}");
        }
    }
}
