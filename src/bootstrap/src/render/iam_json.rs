//! Every document of one cluster, filled in, as one JSON object: for people with tools of their own.

use serde_json::{Map, Value, json};

use crate::desired::desired;
use crate::settings::Settings;

/// Policies, roles with their trust documents, the queue's policy, and what a customer's key must allow.
pub fn document(settings: &Settings) -> Value {
    let desired = desired(settings);
    let policies = desired.policies.iter().map(|policy| (policy.name.clone(), policy.document.to_value()));
    let roles = desired.roles.iter().map(|role| {
        let mut value = json!({
            "path": role.path,
            "trust": role.trust.to_value(),
            "attach": role.attached,
        });
        if let Some(boundary) = &role.boundary {
            value["permissionsBoundary"] = json!(boundary);
        }
        (role.name.clone(), value)
    });
    let mut queue = json!({
        "attributes": desired.queue.attributes,
        "policy": desired.queue.policy.to_value(),
    });
    if settings.queue_kms_key.is_some() {
        queue["keyPolicyStatement"] = key_statement(settings);
    }
    let rules = desired.rules.iter().map(|rule| (rule.name.clone(), rule.pattern.clone()));
    json!({
        "policies": policies.collect::<Map<_, _>>(),
        "roles": roles.collect::<Map<_, _>>(),
        "queue": { (desired.queue.name.as_str()): queue },
        "rules": rules.collect::<Map<_, _>>(),
        "accessEntries": desired.access_entries.iter()
            .map(|entry| (entry.principal.clone(), json!(entry.kind)))
            .collect::<Map<_, _>>(),
    })
}

/// Returns the statement that the policy of a customer's key needs, or rules match and nothing arrives (spec aws-operations
/// 1.14, P-7).
fn key_statement(settings: &Settings) -> Value {
    json!({
        "Sid": "AllowEventsToUseTheKeyOfTheQueue",
        "Effect": "Allow",
        "Principal": { "Service": "events.amazonaws.com" },
        "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Resource": "*",
        "Condition": { "StringEquals": { "aws:SourceAccount": settings.account } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    #[test]
    fn holds_every_document_under_its_name() {
        let value = document(&settings());
        assert_eq!(value["policies"].as_object().unwrap().len(), 2);
        assert_eq!(value["roles"]["prod-karpenter"]["trust"]["Version"], "2012-10-17");
        assert_eq!(value["queue"]["prod"]["attributes"]["MessageRetentionPeriod"], "300");
        assert_eq!(
            value["accessEntries"]["arn:aws:iam::123456789012:role/KarpenterNodeRole-prod"],
            "EC2_LINUX"
        );
        assert_eq!(value["queue"]["prod"].get("keyPolicyStatement"), None);
    }

    #[test]
    fn a_customers_key_comes_with_the_statement_it_needs() {
        let mut settings = settings();
        settings.queue_kms_key = Some("arn:aws:kms:eu-west-1:123456789012:key/k".to_owned());
        let value = document(&settings);
        assert_eq!(
            value["queue"]["prod"]["keyPolicyStatement"]["Principal"]["Service"],
            "events.amazonaws.com"
        );
    }
}
