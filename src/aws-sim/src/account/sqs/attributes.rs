//! Attributes of a queue: which exist, which values they take, what they are when they are not set.

use std::time::Duration;

use crate::policy;
use karpenter_aws_api::sqs::Attributes;
use karpenter_aws_api::{Error, Result};

/// Returns the attributes that SQS reports for a queue without configuration.
pub(super) fn defaults() -> Attributes {
    [
        ("DelaySeconds", "0"),
        ("MaximumMessageSize", "262144"),
        ("MessageRetentionPeriod", "345600"),
        ("ReceiveMessageWaitTimeSeconds", "0"),
        ("SqsManagedSseEnabled", "true"),
        ("VisibilityTimeout", "30"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

/// Refuses what SQS refuses.
pub(super) fn check(operation: &'static str, subject: &str, attributes: &Attributes) -> Result<()> {
    for (name, value) in attributes {
        let bad_value = || {
            let text = format!("Invalid value for the parameter {name}.");
            Err(Error::answered(operation, subject, "InvalidAttributeValue", text))
        };
        let within =
            |low: u32, high: u32| value.parse::<u32>().is_ok_and(|number| (low..=high).contains(&number));
        let good = match name.as_str() {
            "MessageRetentionPeriod" => within(60, 1_209_600),
            "VisibilityTimeout" => within(0, 43_200),
            "DelaySeconds" => within(0, 900),
            "ReceiveMessageWaitTimeSeconds" => within(0, 20),
            "MaximumMessageSize" => within(1024, 1_048_576),
            "KmsDataKeyReusePeriodSeconds" => within(60, 86_400),
            "SqsManagedSseEnabled" => value == "true" || value == "false",
            "Policy" => value.is_empty() || policy::is_well_formed(value),
            "KmsMasterKeyId" | "RedrivePolicy" | "RedriveAllowPolicy" => true,
            _ => {
                let text = format!("Unknown Attribute {name}.");
                return Err(Error::answered(operation, subject, "InvalidAttributeName", text));
            }
        };
        if !good {
            return bad_value();
        }
    }
    Ok(())
}

/// Returns the time for which messages live.
pub(super) fn retention(attributes: &Attributes) -> Duration {
    let seconds = attributes.get("MessageRetentionPeriod").and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(345_600))
}
