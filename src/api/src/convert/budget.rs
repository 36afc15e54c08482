//! Pod disruption budgets.

use k8s_openapi::api::policy::v1::PodDisruptionBudget as ApiBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_model::{BudgetNodes, PodDisruptionBudget};

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
