//! Repair policies as people write them in a setting, in place of those of the provider for a condition and status.
//!
//! ```yaml
//! - {condition: AcceleratedHardwareReady, status: "False", toleration: 30m, terminationGracePeriod: 10m}
//! - {condition: AcceleratedHardwareReady, status: "False", reason: XID48, toleration: 1m, action: RebootNode}
//! - {condition: Ready, status: Unknown, toleration: Never}
//! ```

use std::time::Duration;

use karpenter_model::repair::{NEVER, RepairAction, WrittenPolicy};
use serde::Deserialize;
use serde_json::Value;

use crate::yaml;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    condition: String,
    status: Value,
    #[serde(default)]
    reason: Option<String>,
    toleration: String,
    #[serde(default)]
    termination_grace_period: Option<String>,
    #[serde(default)]
    priority: u8,
    #[serde(default)]
    action: Option<String>,
}

/// The policies in `text`, which is YAML or JSON; none when it is empty.
///
/// # Errors
/// What is wrong, with the number of the policy.
pub fn written(text: &str) -> Result<Vec<WrittenPolicy>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let policies: Vec<Policy> = serde_saphyr::from_str_with_options(text, yaml::options())
        .map_err(|error| format!("a list of repair policies: {error}"))?;
    let read =
        |(number, policy)| policy_of(policy).map_err(|problem| format!("policy {number} with {problem}"));
    (1_u32..).zip(policies).map(read).collect()
}

fn policy_of(policy: Policy) -> Result<WrittenPolicy, String> {
    // Without quotes YAML takes two of the three for truth values.
    let status = match policy.status {
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text,
        _ => return Err("a status that is True, False or Unknown".to_owned()),
    };
    let toleration = match policy.toleration.as_str() {
        "Never" => NEVER,
        text => duration(text).ok_or("a toleration such as 10m, or Never")?,
    };
    let grace = policy.termination_grace_period;
    let grace = grace.map(|text| duration(&text).ok_or("a terminationGracePeriod such as 5m")).transpose()?;
    let action = match policy.action.as_deref() {
        None => RepairAction::Replace,
        Some(text) => [RepairAction::Reboot, RepairAction::Replace]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or("an action that is ReplaceNode or RebootNode")?,
    };
    Ok(WrittenPolicy {
        condition: policy.condition,
        status,
        reason: policy.reason,
        toleration,
        termination_grace: grace,
        priority: policy.priority,
        action,
    })
}

fn duration(text: &str) -> Option<Duration> {
    crate::parse_go_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_with_what_they_leave_out() {
        let text = "
- {condition: Gpu, status: False, toleration: 1h30m}
- {condition: Gpu, status: 'Unknown', reason: XID48, toleration: Never, terminationGracePeriod: 0s, priority: 7, action: RebootNode}
";
        let read = written(text).unwrap();
        let plain = WrittenPolicy {
            condition: "Gpu".to_owned(),
            status: "False".to_owned(),
            reason: None,
            toleration: Duration::from_mins(90),
            termination_grace: None,
            priority: 0,
            action: RepairAction::Replace,
        };
        let listed = WrittenPolicy {
            status: "Unknown".to_owned(),
            reason: Some("XID48".to_owned()),
            toleration: NEVER,
            termination_grace: Some(Duration::ZERO),
            priority: 7,
            action: RepairAction::Reboot,
            ..plain.clone()
        };
        assert_eq!(read, [plain, listed]);
        for nothing in ["", " \n", "[]"] {
            assert_eq!(written(nothing), Ok(Vec::new()), "{nothing:?}");
        }
    }

    #[test]
    fn each_mistake_is_named() {
        let table = [
            ("{condition: Gpu}", "a list of repair policies"),
            ("[{condition: Gpu, status: False}]", "toleration"),
            ("[{condition: Gpu, status: False, toleration: soon}]", "policy 1 with a toleration"),
            ("[{condition: Gpu, status: False, toleration: -5m}]", "a toleration"),
            ("[{condition: Gpu, status: 1, toleration: 5m}]", "a status"),
            ("[{condition: Gpu, status: False, toleration: 5m, action: Reboot}]", "an action"),
            ("[{condition: Gpu, status: False, toleration: 5m, grace: 5m}]", "grace"),
            (
                "[{condition: Gpu, status: False, toleration: 5m, terminationGracePeriod: x}]",
                "a terminationGracePeriod",
            ),
        ];
        for (text, part) in table {
            let error = written(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
