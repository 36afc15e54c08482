//! Keys of the account's own, and whether those who need them may use them (spec aws-operations 1.14).

use karpenter_api::EC2NodeClass;
use serde_json::Value;

use super::name;

use crate::check::{Check, Evidence, Look, Outcome, Scope, Severity};
use crate::facts::{Answer, Facts, Key, Right, Unseen};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "P-7",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "rules match, FailedInvocations rises, the queue stays empty",
        cause: "the queue is encrypted with a key whose policy does not let events.amazonaws.com use it",
        fix: "allow events.amazonaws.com kms:GenerateDataKey and kms:Decrypt, and the controller's role kms:Decrypt; or use SQS's own encryption",
        look: Look::At(deaf_queues),
    },
    Check {
        id: "P-30",
        also: &[],
        severity: Severity::Error,
        scope: Scope::Account,
        symptom: "instances terminate at once",
        cause: "EBS volumes are encrypted, by default or by their EC2NodeClass, with a key that the controller's role may not use",
        fix: "allow the key for EC2 (kms:ViaService), with grants for the controller's role",
        look: Look::At(locked_volumes),
    },
];

/// What `EventBridge` does with a queue's key.
const BY_EVENTS: [&str; 2] = ["kms:GenerateDataKey", "kms:Decrypt"];
/// What EC2 does with a volume's key.
const BY_LAUNCHES: [&str; 2] = ["kms:CreateGrant", "kms:Decrypt"];

/// What marks AWS's own keys.
const OWN_KEYS: &str = "alias/aws/";

/// Keys that a class names for the volumes of its nodes.
pub(crate) fn volume_keys(class: &EC2NodeClass) -> impl Iterator<Item = &str> {
    let volumes = class.spec.block_device_mappings.iter().flatten().filter_map(|found| found.ebs.as_ref());
    volumes.filter_map(|volume| volume.kms_key_id.as_deref())
}

/// A key by what it is named with; one that nobody asked about is as good as refused.
fn key<'a>(facts: &'a Facts, key: &str) -> Result<&'a Key, Unseen> {
    facts.account.keys.get()?.get(key).map_or_else(|| Err(Unseen("not asked".to_owned())), Answer::get)
}

fn deaf_queues(facts: &Facts) -> Outcome {
    let mut found = Vec::new();
    for (name, queue) in facts.account.queues.get()? {
        let Some(key) = queue.as_ref().and_then(|queue| queue.kms_key.as_ref()) else { continue };
        let object = format!("queue {name}");
        if key.contains(OWN_KEYS) {
            let seen = format!("is encrypted with {key}, which only lets SQS's own callers in");
            found.push(Evidence::new(object, seen));
        } else if !lets(
            &self::key(facts, key)?.policy,
            |principal| is_service(principal, "events."),
            &BY_EVENTS,
        ) {
            let seen =
                format!("is encrypted with {key}, whose policy does not let events.amazonaws.com use it");
            found.push(Evidence::new(object, seen));
        }
    }
    Ok(found)
}

fn locked_volumes(facts: &Facts) -> Outcome {
    let rights = facts.account.rights.get()?;
    let mut found = Vec::new();
    let volumes = facts.account.volumes.get()?;
    if volumes.encrypted && !is_usable(facts, rights, &volumes.key)? {
        let seen =
            "encrypts every new volume, and neither its policy nor IAM lets the controller's role use it";
        found.push(Evidence::new(format!("key {}", volumes.key), seen));
    }
    for class in facts.cluster.node_classes.if_asked()?.into_iter().flatten() {
        for key in volume_keys(class) {
            if !is_usable(facts, rights, key)? {
                let seen = format!(
                    "encrypts with {key}, and neither its policy nor IAM lets the controller's role use it"
                );
                found.push(Evidence::new(format!("EC2NodeClass {}", name(&class.metadata)), seen));
            }
        }
    }
    Ok(found)
}

/// The key's policy lets the controller's role in by itself, or leaves it to IAM, where the role has the right.
fn is_usable(facts: &Facts, rights: &[Right], named: &str) -> Result<bool, Unseen> {
    if named.contains(OWN_KEYS) {
        return Ok(true);
    }
    let Key { arn, policy } = key(facts, named)?;
    let role = rights.first().map_or("", |right| right.role.as_str());
    let directly = lets(policy, |principal| is_identity(principal, role), &BY_LAUNCHES);
    let by_iam = BY_LAUNCHES.iter().all(|action| {
        rights.iter().any(|right| right.resource == *arn && right.action == *action && right.allowed)
    });
    Ok(directly || by_iam && lets(policy, is_account, &BY_LAUNCHES))
}

/// Statements of a policy that allow something, each with its principals, every action on a key's policy being one
/// of the key. Conditions narrow what is allowed and are not weighed: `kms:ViaService` is how it should be.
fn lets(policy: &str, is_meant: impl Fn(&Value) -> bool, actions: &[&str]) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(policy) else { return false };
    let statements = list(&policy["Statement"]);
    actions.iter().all(|wanted| {
        statements.iter().any(|statement| {
            statement["Effect"] == "Allow"
                && is_meant(&statement["Principal"])
                && list(&statement["Action"])
                    .iter()
                    .filter_map(|text| text.as_str())
                    .any(|pattern| covers(&pattern.to_lowercase(), &wanted.to_lowercase()))
        })
    })
}

/// A pattern of actions ends with `*` if it is one.
fn covers(pattern: &str, action: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == action, |start| action.starts_with(start))
}

/// The members of a list, which policies may leave out the brackets of.
pub(super) fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Null => Vec::new(),
        single => vec![single],
    }
}

/// The principals of a kind.
pub(super) fn named<'a>(principal: &'a Value, kind: &str) -> Vec<&'a str> {
    match principal {
        Value::String(all) => vec![all],
        _ => list(&principal[kind]).into_iter().filter_map(Value::as_str).collect(),
    }
}

fn is_service(principal: &Value, start: &str) -> bool {
    named(principal, "Service").iter().any(|name| *name == "*" || name.starts_with(start))
}

fn is_identity(principal: &Value, role: &str) -> bool {
    named(principal, "AWS").iter().any(|name| *name == "*" || *name == role)
}

/// The whole account, which leaves it to IAM.
fn is_account(principal: &Value) -> bool {
    named(principal, "AWS").iter().any(|name| name.ends_with(":root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_by_principal_and_action() {
        let events = |principal: &Value| is_service(principal, "events.");
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
            assert_eq!(lets(policy, events, &BY_EVENTS), expected, "{policy}");
        }
    }
}
