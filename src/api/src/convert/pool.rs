//! `NodePool` to the model's pool.

use std::time::Duration;

use karpenter_model::names;
use karpenter_model::pool::BudgetWindow;
use karpenter_model::{Budget, BudgetNodes, Disruption, LabelRegistry, Pool, Template};

use super::annotations;
use super::labels;
use super::requirements;
use super::resources;
use super::taints;
use super::{Error, FieldError};
use crate::ConditionStatus;
use crate::duration::{self, NillableDuration};
use crate::nodepool::{self, NodePool};

/// Reads a pool. A budget's cron expression is taken over as text and judged where it is used.
pub fn pool(object: &NodePool, registry: &LabelRegistry) -> Result<Pool, Error> {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    read(object, name, registry).map_err(|error| error.of("NodePool", name))
}

fn read(object: &NodePool, name: &str, registry: &LabelRegistry) -> Result<Pool, FieldError> {
    let spec = &object.spec;
    let limits = match &spec.limits {
        Some(limits) => Some(resources("spec.limits", Some(limits))?),
        None => None,
    };
    let status = object.status.as_ref();
    let condition = |kind: &str| {
        let conditions = &status?.conditions;
        conditions.iter().find(|condition| condition.kind == kind).map(|condition| condition.status)
    };
    let registration_healthy = match condition(names::condition::NODE_REGISTRATION_HEALTHY) {
        Some(ConditionStatus::True) => Some(true),
        Some(ConditionStatus::False) => Some(false),
        Some(ConditionStatus::Unknown) | None => None,
    };
    Ok(Pool {
        name: name.into(),
        uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
        weight: spec.weight.unwrap_or_default(),
        limits,
        replicas: spec.replicas,
        template: template(&spec.template, registry).map_err(|error| error.below("spec.template"))?,
        disruption: disruption(&spec.disruption).map_err(|error| error.below("spec.disruption"))?,
        hash: object.hash(),
        ready: condition(names::condition::READY) == Some(ConditionStatus::True),
        registration_healthy,
        deleting: object.metadata.deletion_timestamp.is_some(),
    })
}

fn template(written: &nodepool::NodeClaimTemplate, registry: &LabelRegistry) -> Result<Template, FieldError> {
    let metadata = written.metadata.as_ref();
    let spec = &written.spec;
    Ok(Template {
        labels: labels(metadata.and_then(|metadata| metadata.labels.as_ref())),
        annotations: annotations(metadata.and_then(|metadata| metadata.annotations.as_ref())),
        requirements: requirements(registry, &spec.requirements),
        taints: taints("spec.taints", spec.taints.as_ref())?,
        startup_taints: taints("spec.startupTaints", spec.startup_taints.as_ref())?,
        node_class: spec.node_class_ref.clone(),
        expire_after: span_or_never("spec.expireAfter", &spec.expire_after)?,
        termination_grace_period: span(
            "spec.terminationGracePeriod",
            spec.termination_grace_period.as_ref(),
        )?,
    })
}

fn disruption(written: &nodepool::Disruption) -> Result<Disruption, FieldError> {
    let read = |(index, written): (usize, &nodepool::Budget)| {
        budget(written).map_err(|error| error.below(&format!("budgets[{index}]")))
    };
    Ok(Disruption {
        consolidate_after: span_or_never("consolidateAfter", &written.consolidate_after)?,
        policy: written.consolidation_policy,
        budgets: written.budgets.iter().enumerate().map(read).collect::<Result<_, _>>()?,
    })
}

fn budget(written: &nodepool::Budget) -> Result<Budget, FieldError> {
    let window = match (&written.schedule, span("duration", written.duration.as_ref())?) {
        (None, None) => None,
        (Some(schedule), Some(duration)) => Some(BudgetWindow { schedule: schedule.clone(), duration }),
        _ => return Err(FieldError::new("schedule", "schedule and duration go together")),
    };
    Ok(Budget {
        nodes: BudgetNodes::parse(&written.nodes),
        reasons: written.reasons.as_ref().map(|reasons| reasons.iter().copied().collect()),
        window,
    })
}

pub(super) fn span(
    field: &str,
    written: Option<&duration::Duration>,
) -> Result<Option<Duration>, FieldError> {
    written.map(|text| text.span().map_err(|error| FieldError::new(field, error))).transpose()
}

pub(super) fn span_or_never(field: &str, written: &NillableDuration) -> Result<Option<Duration>, FieldError> {
    written.span().map_err(|error| FieldError::new(field, error))
}

#[cfg(test)]
mod tests {
    use karpenter_model::{DisruptionReason, Quantity};
    use serde_json::{Value, json};

    use super::*;

    fn object(patch: &Value) -> NodePool {
        let mut value = json!({
            "metadata": {"name": "web", "uid": "u"},
            "spec": {"template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}},
        });
        crate::cases::merge(&mut value, patch);
        serde_json::from_value(value).unwrap()
    }

    fn read(patch: &Value) -> Result<Pool, Error> {
        pool(&object(patch), &LabelRegistry::core())
    }

    #[test]
    fn defaults_are_those_of_the_schema() {
        let pool = read(&json!({})).unwrap();
        assert_eq!(pool.disruption, Disruption::default());
        assert_eq!(pool.template.expire_after, Some(Duration::from_hours(720)));
        assert_eq!((pool.weight, pool.limits, pool.replicas, pool.ready), (0, None, None, false));
        assert_eq!(pool.hash, object(&json!({})).hash());
    }

    #[test]
    fn takes_everything_over() {
        let pool = read(&json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "weight": 7,
                "limits": {"cpu": 10, "nodes": "3"},
                "disruption": {
                    "consolidateAfter": "Never",
                    "consolidationPolicy": "WhenEmpty",
                    "budgets": [{"nodes": "5", "schedule": "@daily", "duration": "1h", "reasons": ["Empty"]}],
                },
                "template": {
                    "metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}},
                    "spec": {
                        "taints": [{"key": "t", "effect": "NoSchedule"}],
                        "startupTaints": [{"key": "s", "value": "v", "effect": "NoExecute"}],
                        "expireAfter": "Never",
                        "terminationGracePeriod": "30s",
                        "requirements": [{"key": "a", "operator": "Exists"}],
                    },
                },
            },
            "status": {"nodes": 0, "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        }))
        .unwrap();
        assert_eq!(pool.limits.unwrap().get("cpu"), Some(Quantity::from_units(10)));
        assert_eq!(pool.disruption.consolidate_after, None);
        let budget = &pool.disruption.budgets[0];
        assert_eq!(budget.nodes, BudgetNodes::Count(5));
        assert_eq!(budget.reasons, Some([DisruptionReason::Empty].into()));
        assert_eq!(budget.window.as_ref().map(|w| w.duration), Some(Duration::from_hours(1)));
        let template = &pool.template;
        assert_eq!(template.taints[0].to_string(), "t:NoSchedule");
        assert_eq!(template.startup_taints[0].to_string(), "s=v:NoExecute");
        assert_eq!(
            (template.expire_after, template.termination_grace_period),
            (None, Some(Duration::from_secs(30)))
        );
        assert_eq!(template.node_class.label_key(), "karpenter.k8s.aws/ec2nodeclass");
        assert!(pool.ready && pool.deleting && template.requirements.contains("a"));
    }

    #[test]
    fn errors_name_object_and_field() {
        let cases = [
            (json!({"spec": {"limits": {"cpu": "many"}}}), "spec.limits.cpu"),
            (
                json!({"spec": {"template": {"spec": {"taints": [{"key": "a", "effect": "Maybe"}]}}}}),
                "spec.template.spec.taints[0].effect",
            ),
            (
                json!({"spec": {"template": {"spec": {"expireAfter": "soon"}}}}),
                "spec.template.spec.expireAfter",
            ),
            (
                json!({"spec": {"disruption": {"budgets": [{"duration": "1h"}]}}}),
                "spec.disruption.budgets[0].schedule",
            ),
        ];
        for (patch, field) in cases {
            let error = read(&patch).unwrap_err();
            assert_eq!((error.object.as_str(), error.field.as_str()), ("NodePool `web`", field));
        }
    }
}
