//! Pod disruption budgets: as they are read, and what the disruption controller makes of them.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget as ApiBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::{BudgetNodes, PodDisruptionBudget};
use serde_json::{Value, json};

use super::selector;

/// Reads a budget; one whose spec the disruption controller has not looked at yet allows nothing.
pub fn budget(written: &ApiBudget) -> PodDisruptionBudget {
    let spec = written.spec.clone().unwrap_or_default();
    let status = written.status.clone().unwrap_or_default();
    let is_current =
        status.observed_generation.unwrap_or_default() >= written.metadata.generation.unwrap_or_default();
    PodDisruptionBudget {
        namespace: written.metadata.namespace.as_deref().unwrap_or_default().into(),
        name: written.metadata.name.clone().unwrap_or_default(),
        selector: selector(spec.selector.as_ref()),
        max_unavailable: spec.max_unavailable.as_ref().map(amount),
        min_available: spec.min_available.as_ref().map(amount),
        disruptions_allowed: if is_current { status.disruptions_allowed } else { 0 },
        current_healthy: status.current_healthy,
        desired_healthy: status.desired_healthy,
        always_allow_unhealthy: spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow"),
    }
}

/// Disruptions that a budget allows at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Voluntary disruptions that are still allowed.
    pub disruptions: i64,
    /// Ready pods.
    pub healthy: i64,
    /// Ready pods that must remain.
    pub desired_healthy: i64,
    /// Pods that there should be.
    pub expected: i64,
}

impl Allowance {
    /// Status with it of a budget.
    pub fn status(&self, budget: &Value) -> Value {
        json!({
            "currentHealthy": self.healthy, "desiredHealthy": self.desired_healthy,
            "disruptionsAllowed": self.disruptions, "expectedPods": self.expected,
            "observedGeneration": budget["metadata"]["generation"].as_i64().unwrap_or(0),
        })
    }
}

/// Computes what kube-controller-manager writes into the status of a budget, of what is known of each pod that it covers and
/// that has not ended: whether it is healthy, and its controller with the replicas that are wanted.
pub fn allowance<W: Ord>(budget: &Value, pods: impl Iterator<Item = (bool, Option<(W, i64)>)>) -> Allowance {
    let (mut count, mut healthy, mut by_workload) = (0, 0, BTreeMap::new());
    for (is_healthy, workload) in pods {
        count += 1;
        healthy += i64::from(is_healthy);
        by_workload.extend(workload);
    }
    let written = |pointer: &str| budget.pointer(pointer).filter(|value| !value.is_null());
    let (most, least) = (written("/spec/maxUnavailable"), written("/spec/minAvailable"));
    // A number of pods to keep needs no controller's number of replicas.
    let is_counted = most.is_none() && least.is_some_and(Value::is_i64);
    let expected =
        if is_counted || by_workload.is_empty() { count } else { by_workload.values().sum::<i64>() };
    let desired_healthy = match (most, least) {
        (Some(most), _) => (expected - scaled(most, expected)).max(0),
        (None, Some(least)) => scaled(least, expected),
        (None, None) => expected - 1,
    };
    let disruptions = if expected > 0 { (healthy - desired_healthy).max(0) } else { 0 };
    Allowance { disruptions, healthy, desired_healthy, expected }
}

/// An int-or-percentage of `whole`, percentages rounded up as Kubernetes does for budgets.
fn scaled(value: &Value, whole: i64) -> i64 {
    let percent = || value.as_str()?.strip_suffix('%')?.parse::<i64>().ok();
    value.as_i64().or_else(|| Some((percent()? * whole + 99) / 100)).unwrap_or(0)
}

fn amount(written: &IntOrString) -> BudgetNodes {
    match written {
        IntOrString::Int(count) => BudgetNodes::parse(&count.to_string()),
        IntOrString::String(text) => BudgetNodes::parse(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_follows_from_the_pods_that_should_be_there() {
        // The spec, healthy and all pods of one workload, how many it wants; allowed, desired and expected.
        for (spec, healthy, pods, wanted, expected) in [
            (json!({"maxUnavailable": 1}), 3, 3, 3, (1, 2, 3)),
            (json!({"maxUnavailable": "34%"}), 3, 3, 3, (2, 1, 3)),
            (json!({"maxUnavailable": "0%"}), 3, 3, 3, (0, 3, 3)),
            (json!({"maxUnavailable": 5}), 3, 3, 3, (3, 0, 3)),
            (json!({"maxUnavailable": 1}), 3, 3, 5, (0, 4, 5)),
            (json!({"minAvailable": 2}), 3, 3, 5, (1, 2, 3)),
            (json!({"minAvailable": "50%"}), 3, 3, 5, (0, 3, 5)),
            (json!({"minAvailable": "50%", "maxUnavailable": null}), 4, 4, 5, (1, 3, 5)),
            (json!({"minAvailable": 2}), 1, 3, 3, (0, 2, 3)),
            (json!({"minAvailable": 0}), 0, 0, 0, (0, 0, 0)),
        ] {
            let workload = (pods > 0).then_some(("a", wanted));
            let pods = (0..pods).map(|number| (number < healthy, workload));
            let allowed = allowance(&json!({"spec": spec}), pods);
            let found = (allowed.disruptions, allowed.desired_healthy, allowed.expected);
            assert_eq!(found, expected, "{spec}");
        }
    }

    #[test]
    fn reads_numbers_and_percentages() {
        let text = r#"{"metadata": {"namespace": "web", "name": "api"},
            "spec": {"maxUnavailable": 0, "minAvailable": "100%", "unhealthyPodEvictionPolicy": "AlwaysAllow",
                     "selector": {"matchLabels": {"app": "api"}}}}"#;
        let read = budget(&serde_json::from_str(text).unwrap());
        assert_eq!(read.max_unavailable, Some(BudgetNodes::Count(0)));
        assert_eq!(read.min_available, Some(BudgetNodes::Percent(100)));
        assert_eq!((read.namespace.as_str(), read.name.as_str()), ("web", "api"));
        assert!(read.selector.is_some() && read.always_allow_unhealthy);
        assert_eq!(read.disruptions_allowed, 0, "no status yet");
    }
}
