//! Rules for the contents of a kubelet block, beyond the names and types of its fields.

use std::collections::BTreeSet;

use karpenter_model::Quantity;
use serde_json::{Map, Value};

use crate::duration::parse_go_duration;

/// The signals that evict pods.
const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];

/// The resources that can be reserved.
const RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];

/// Maps of resources, whose values may be expressions.
pub(super) const RESERVED: [&str; 2] = ["kubeReserved", "systemReserved"];

/// Problems of a block whose fields can be read.
pub(super) fn broken(block: &Map<String, Value>) -> Vec<String> {
    let mut problems = Vec::new();
    if block.get("registerWithTaints").is_some_and(|taints| !taints.is_null()) {
        problems.push("registerWithTaints is set by Karpenter, from the taints of the NodePool".to_owned());
    }
    for field in ["evictionHard", "evictionMinimumReclaim", "evictionSoft"] {
        for (signal, amount) in entries(block, field) {
            signals(field, signal, &mut problems);
            if !is_threshold(amount) {
                let wanted = "a percentage from 0% to 100% or a quantity that is not negative";
                problems.push(format!("{field}.{signal} is \"{amount}\" and must be {wanted}"));
            }
        }
    }
    for (signal, span) in entries(block, "evictionSoftGracePeriod") {
        signals("evictionSoftGracePeriod", signal, &mut problems);
        if parse_go_duration(span).is_err() {
            let wanted = "a duration that is not negative, such as 1m30s";
            problems.push(format!("evictionSoftGracePeriod.{signal} is \"{span}\" and must be {wanted}"));
        }
    }
    let keys = |field: &str| entries(block, field).map(|(key, _)| key).collect::<BTreeSet<_>>();
    let (soft, grace) = (keys("evictionSoft"), keys("evictionSoftGracePeriod"));
    for (one, other, name, missing) in [
        (&soft, &grace, "evictionSoft", "evictionSoftGracePeriod"),
        (&grace, &soft, "evictionSoftGracePeriod", "evictionSoft"),
    ] {
        let unmatched = one.difference(other);
        problems.extend(unmatched.map(|signal| format!("{name}.{signal} has no matching {missing}")));
    }
    for field in RESERVED {
        for (resource, amount) in entries(block, field) {
            if !RESOURCES.contains(&resource) {
                problems
                    .push(format!("{field}.{resource} is unknown, valid keys are {}", RESOURCES.join(", ")));
            }
            if amount.starts_with('-') {
                problems.push(format!("{field}.{resource} is \"{amount}\" and must not be negative"));
            }
        }
    }
    let number = |field: &str| block.get(field).and_then(Value::as_i64);
    let percents = ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"];
    for field in percents {
        if number(field).is_some_and(|percent| !(0..=100).contains(&percent)) {
            problems.push(format!("{field} must be from 0 to 100"));
        }
    }
    let [high, low] = percents.map(number);
    if high.zip(low).is_some_and(|(high, low)| high <= low) {
        problems.push(format!("{} must be greater than {}", percents[0], percents[1]));
    }
    for field in ["evictionMaxPodGracePeriod", "maxPods", "podsPerCore"] {
        if number(field).is_some_and(i64::is_negative) {
            problems.push(format!("{field} must not be negative"));
        }
    }
    problems
}

fn entries<'a>(block: &'a Map<String, Value>, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let fields = block.get(field).and_then(Value::as_object);
    let texts = fields.into_iter().flatten();
    texts.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn signals(field: &str, signal: &str, problems: &mut Vec<String>) {
    if !SIGNALS.contains(&signal) {
        problems.push(format!("{field}.{signal} is unknown, valid keys are {}", SIGNALS.join(", ")));
    }
}

fn is_threshold(text: &str) -> bool {
    match text.strip_suffix('%') {
        // A percentage is a plain decimal: neither `1e1%` nor `inf%`.
        Some(percent) => {
            let is_decimal = percent.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            is_decimal && percent.parse().is_ok_and(|percent: f64| percent <= 100.0)
        }
        // An empty threshold, which older definitions let in, is left to the kubelet.
        None => text.is_empty() || (!text.starts_with('-') && text.parse::<Quantity>().is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_rule_names_its_field() {
        let table: Vec<(Value, &[&str])> = vec![
            (json!({"maxPods": 0, "podsPerCore": 0, "evictionMaxPodGracePeriod": 0}), &[]),
            (json!({"maxPods": -1}), &["maxPods must not be negative"]),
            (json!({"podsPerCore": -1}), &["podsPerCore must not be negative"]),
            (json!({"evictionMaxPodGracePeriod": -1}), &["evictionMaxPodGracePeriod must not be negative"]),
            (json!({"imageGCHighThresholdPercent": 10}), &[]),
            (json!({"imageGCHighThresholdPercent": 81, "imageGCLowThresholdPercent": 80}), &[]),
            (
                json!({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 80}),
                &["imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent"],
            ),
            (
                json!({"imageGCHighThresholdPercent": 101}),
                &["imageGCHighThresholdPercent must be from 0 to 100"],
            ),
            (
                json!({"imageGCLowThresholdPercent": -1}),
                &["imageGCLowThresholdPercent must be from 0 to 100"],
            ),
            (
                json!({"systemReserved": {"cpu": "100m", "memory": "vcpus * 2", "ephemeral-storage": "1Gi", "pid": "5"}}),
                &[],
            ),
            (
                json!({"systemReserved": {"gpu": "1"}}),
                &["systemReserved.gpu is unknown, valid keys are cpu, memory, ephemeral-storage, pid"],
            ),
            (
                json!({"kubeReserved": {"cpu": "-1"}}),
                &["kubeReserved.cpu is \"-1\" and must not be negative"],
            ),
            (
                json!({"registerWithTaints": []}),
                &["registerWithTaints is set by Karpenter, from the taints of the NodePool"],
            ),
            (json!({"registerWithTaints": null}), &[]),
        ];
        for (block, problems) in table {
            assert_eq!(broken(block.as_object().unwrap()), problems, "{block}");
        }
    }

    #[test]
    fn every_rule_of_eviction_names_its_field() {
        let soft =
            |soft: Value, grace: Value| json!({"evictionSoft": soft, "evictionSoftGracePeriod": grace});
        let table: Vec<(Value, &[&str])> = vec![
            (
                json!({"evictionHard": {"memory.available": "5%", "pid.available": "100%", "nodefs.available": "1Gi", "imagefs.available": ""}}),
                &[],
            ),
            (
                json!({"evictionHard": {"memory": "5%"}}),
                &[
                    "evictionHard.memory is unknown, valid keys are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available",
                ],
            ),
            (
                json!({"evictionHard": {"memory.available": "110%"}}),
                &[
                    "evictionHard.memory.available is \"110%\" and must be a percentage from 0% to 100% or a quantity that is not negative",
                ],
            ),
            (
                json!({"evictionMinimumReclaim": {"memory.available": "-1Gi"}}),
                &[
                    "evictionMinimumReclaim.memory.available is \"-1Gi\" and must be a percentage from 0% to 100% or a quantity that is not negative",
                ],
            ),
            (
                json!({"evictionHard": {"memory.available": "inf%"}}),
                &[
                    "evictionHard.memory.available is \"inf%\" and must be a percentage from 0% to 100% or a quantity that is not negative",
                ],
            ),
            (soft(json!({"memory.available": "5%"}), json!({"memory.available": "1m"})), &[]),
            (
                soft(json!({"memory.available": "5%"}), json!({"memory.available": "-1m"})),
                &[
                    "evictionSoftGracePeriod.memory.available is \"-1m\" and must be a duration that is not negative, such as 1m30s",
                ],
            ),
            (
                json!({"evictionSoft": {"memory.available": "5%"}}),
                &["evictionSoft.memory.available has no matching evictionSoftGracePeriod"],
            ),
            (
                soft(json!({}), json!({"pid.available": "1m"})),
                &["evictionSoftGracePeriod.pid.available has no matching evictionSoft"],
            ),
        ];
        for (block, problems) in table {
            assert_eq!(broken(block.as_object().unwrap()), problems, "{block}");
        }
    }
}
