//! The interruption queue and what `EventBridge` sends to it (spec aws-operations 1.4).

use std::collections::BTreeMap;

use serde_json::json;

use super::{Queue, Rule, Tags};
use crate::policy::queue::queue_policy;
use crate::settings::Settings;

/// SQS's name for the customer-managed key of a queue.
pub(crate) const KEY_ATTRIBUTE: &str = "KmsMasterKeyId";
/// SQS's name for encryption with a key of its own.
pub(crate) const SQS_KEY_ATTRIBUTE: &str = "SqsManagedSseEnabled";

/// The rules: what is appended to the prefix, a sentence, the event's source and its detail-type.
const RULES: [(&str, &str, &str, &str); 5] = [
    ("-HealthEvent", "Scheduled changes announced by AWS Health", "aws.health", "AWS Health Event"),
    (
        "-SpotInterrupt",
        "Spot capacity is about to be reclaimed",
        "aws.ec2",
        "EC2 Spot Instance Interruption Warning",
    ),
    (
        "-InstanceRebalance",
        "Spot capacity is at elevated risk",
        "aws.ec2",
        "EC2 Instance Rebalance Recommendation",
    ),
    (
        "-InstanceStateChange",
        "An instance stopped or was terminated",
        "aws.ec2",
        "EC2 Instance State-change Notification",
    ),
    (
        "-CRInterruption",
        "Reserved capacity is about to be reclaimed",
        "aws.ec2",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ),
];

/// The queue, encrypted, with a policy that lets exactly the cluster's rules send.
pub(super) fn queue(settings: &Settings, tags: &Tags) -> Queue {
    let rules: Vec<String> = RULES.iter().map(|rule| settings.rule_arn(&name(settings, rule.0))).collect();
    Queue {
        name: settings.queue(),
        arn: settings.queue_arn(),
        attributes: attributes(settings),
        policy: queue_policy(settings, &rules),
        tags: tags.clone(),
    }
}

/// The five rules.
pub(super) fn rules(settings: &Settings, tags: &Tags) -> Vec<Rule> {
    let rule = |&(suffix, description, source, detail_type): &(&str, _, &str, &str)| Rule {
        name: name(settings, suffix),
        description,
        pattern: json!({ "source": [source], "detail-type": [detail_type] }),
        target: settings.queue_arn(),
        tags: tags.clone(),
    };
    RULES.iter().map(rule).collect()
}

fn name(settings: &Settings, suffix: &str) -> String {
    format!("{}{suffix}", settings.rule_prefix())
}

fn attributes(settings: &Settings) -> BTreeMap<String, String> {
    // SQS-managed encryption and a customer key exclude each other (spec aws-operations 1.11).
    let encryption = match &settings.queue_kms_key {
        Some(key) => (KEY_ATTRIBUTE, key.clone()),
        None => (SQS_KEY_ATTRIBUTE, "true".to_owned()),
    };
    [("MessageRetentionPeriod", "300".to_owned()), encryption]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::{settings, settings_for_cluster};

    #[test]
    fn a_customer_key_replaces_sqs_managed_encryption() {
        let mut settings = settings();
        settings.queue_kms_key = Some("arn:aws:kms:eu-west-1:123456789012:key/k".to_owned());
        let attributes = attributes(&settings);
        assert!(attributes.contains_key("KmsMasterKeyId"));
        assert!(!attributes.contains_key("SqsManagedSseEnabled"));
    }

    #[test]
    fn the_rules_of_the_longest_cluster_name_fit_and_are_those_the_queue_accepts() {
        let settings = settings_for_cluster(&"c".repeat(100));
        let rules = rules(&settings, &Tags::new());
        assert!(rules.iter().all(|rule| rule.name.len() <= crate::names::RULE_NAME_MAX));
        let mut arns: Vec<_> = rules.iter().map(|rule| settings.rule_arn(&rule.name)).collect();
        arns.sort();
        let queue = queue(&settings, &Tags::new());
        assert_eq!(queue.policy.statements[0].conditions["ArnEquals"]["aws:SourceArn"], arns);
    }
}
