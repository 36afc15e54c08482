//! Checks of a NodePool that its schema cannot make and the controller must (spec scheduling 3.2), and the faults that a
//! field of the objects users write can have.
//!
//! The result feeds the condition `ValidationSucceeded`: every problem at once, each with its field, so that
//! a user corrects the object in one go.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Taint;
use karpenter_model::instance_type::overlay::PriceChangeError;
use karpenter_model::names::label;
use karpenter_model::requirement::syntax::{self, ExpressionError, is_label_value, is_qualified_name};
use karpenter_model::resources::quantity::QuantityError;
use karpenter_model::{Effect, Expression, LabelRegistry};

use super::NodePool;
use crate::duration::InvalidDuration;

/// One thing that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {problem}")]
pub struct Invalid {
    /// Path of the field, for example `spec.template.spec.taints[0].key`.
    pub field: String,
    pub problem: Problem,
}

/// Fault of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("label `{0}` is set by the controller; remove it")]
    OwnLabel(String),
    #[error("label `{0}` is restricted; use a well-known label or one of your own domain")]
    Restricted(String),
    #[error(
        "`{0}` is not a qualified name: at most 63 letters, digits, `-`, `_` and `.`, with an optional DNS prefix"
    )]
    NotAName(String),
    #[error("`{0}` is not a label value: at most 63 letters, digits, `-`, `_` and `.`")]
    NotAValue(String),
    #[error("a taint needs a key")]
    NoKey,
    #[error("`{0}` is not an effect; use NoSchedule, PreferNoSchedule or NoExecute")]
    NotAnEffect(String),
    #[error(
        "taint `{key}` with effect `{effect}` is there twice; remove one of them from taints or startupTaints"
    )]
    Duplicate { key: String, effect: String },
    #[error(transparent)]
    Requirement(ExpressionError),
    #[error(transparent)]
    Duration(InvalidDuration),
    #[error(transparent)]
    Price(PriceChangeError),
    #[error("resource `{0}` is the cloud's to say; name an extended resource")]
    KnownResource(String),
    #[error(transparent)]
    Quantity(QuantityError),
}

impl NodePool {
    /// Everything that is wrong with the pool, in the order of its fields; empty when it is right.
    pub fn problems(&self, registry: &LabelRegistry) -> Vec<Invalid> {
        let mut found = Vec::new();
        self.label_problems(registry, &mut found);
        self.taint_problems(&mut found);
        self.requirement_problems(registry, &mut found);
        self.duration_problems(&mut found);
        found
    }

    fn label_problems(&self, registry: &LabelRegistry, found: &mut Vec<Invalid>) {
        let labels = self.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        for (key, value) in labels.into_iter().flatten() {
            let mut report = report_at(format!("spec.template.metadata.labels.{key}"), found);
            if key == label::NODE_POOL {
                report(Problem::OwnLabel(key.clone()));
            }
            if !is_qualified_name(key) {
                report(Problem::NotAName(key.clone()));
            }
            if !is_label_value(value) {
                report(Problem::NotAValue(value.clone()));
            }
            if registry.is_restricted(key) {
                report(Problem::Restricted(key.clone()));
            }
        }
    }

    /// A key and effect may be in both lists together only once.
    fn taint_problems(&self, found: &mut Vec<Invalid>) {
        let spec = &self.spec.template.spec;
        let mut seen = BTreeSet::new();
        for (list, taints) in [("taints", &spec.taints), ("startupTaints", &spec.startup_taints)] {
            for (index, taint) in taints.iter().flatten().enumerate() {
                let field = format!("spec.template.spec.{list}[{index}]");
                one_taint(taint, &field, found);
                if !seen.insert((&taint.key, &taint.effect)) {
                    let problem = Problem::Duplicate { key: taint.key.clone(), effect: taint.effect.clone() };
                    found.push(Invalid { field, problem });
                }
            }
        }
    }

    fn requirement_problems(&self, registry: &LabelRegistry, found: &mut Vec<Invalid>) {
        for (index, requirement) in self.spec.template.spec.requirements.iter().enumerate() {
            let mut report = report_at(format!("spec.template.spec.requirements[{index}]"), found);
            let expression = Expression::from(requirement);
            if registry.normalize_key(&expression.key) == label::NODE_POOL {
                report(Problem::OwnLabel(requirement.key.clone()));
            }
            if let Err(error) = syntax::check(registry, &expression) {
                report(Problem::Requirement(error));
            }
        }
    }

    /// Finds durations that cannot be read; the decoder of the reference fails for all pools instead.
    fn duration_problems(&self, found: &mut Vec<Invalid>) {
        let (spec, disruption) = (&self.spec.template.spec, &self.spec.disruption);
        let grace = spec.termination_grace_period.as_ref().map_or(Ok(()), |grace| grace.span().map(drop));
        let checks = [
            ("spec.disruption.consolidateAfter", disruption.consolidate_after.span().map(drop)),
            ("spec.template.spec.expireAfter", spec.expire_after.span().map(drop)),
            ("spec.template.spec.terminationGracePeriod", grace),
        ];
        for (field, check) in checks {
            if let Err(error) = check {
                found.push(Invalid { field: field.to_owned(), problem: Problem::Duration(error) });
            }
        }
    }
}

fn one_taint(taint: &Taint, field: &str, found: &mut Vec<Invalid>) {
    let key = format!("{field}.key");
    if taint.key.is_empty() {
        found.push(Invalid { field: key, problem: Problem::NoKey });
    } else if !is_qualified_name(&taint.key) {
        found.push(Invalid { field: key, problem: Problem::NotAName(taint.key.clone()) });
    }
    if let Some(value) = taint.value.as_ref().filter(|value| !value.is_empty() && !is_qualified_name(value)) {
        found.push(Invalid { field: format!("{field}.value"), problem: Problem::NotAName(value.clone()) });
    }
    if !taint.effect.is_empty() && Effect::parse(&taint.effect).is_none() {
        let problem = Problem::NotAnEffect(taint.effect.clone());
        found.push(Invalid { field: format!("{field}.effect"), problem });
    }
}

fn report_at(field: String, found: &mut Vec<Invalid>) -> impl FnMut(Problem) {
    move |problem| found.push(Invalid { field: field.clone(), problem })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(patch: &Value) -> Vec<String> {
        let mut value = json!({"spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
        }}}});
        crate::cases::merge(&mut value, patch);
        let pool: NodePool = serde_json::from_value(value).unwrap();
        pool.problems(&LabelRegistry::core())
            .into_iter()
            .map(|invalid| {
                let problem = format!("{:?}", invalid.problem);
                let word = problem.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                format!("{} {word}", invalid.field)
            })
            .collect()
    }

    fn of_label(key: &str, value: &str) -> Vec<String> {
        problems(&json!({"spec": {"template": {"metadata": {"labels": {key: value}}}}}))
            .iter()
            .filter_map(|text| text.rsplit_once(' ').map(|(_, word)| word.to_owned()))
            .collect()
    }

    fn of_spec(spec: &Value) -> Vec<String> {
        problems(&json!({"spec": {"template": {"spec": spec}}}))
            .iter()
            .map(|text| text.trim_start_matches("spec.template.spec.").to_owned())
            .collect()
    }

    fn of_requirement(requirement: &Value) -> bool {
        of_spec(&json!({"requirements": [requirement]})).is_empty()
    }

    #[test]
    fn labels_table() {
        let long = "a".repeat(64);
        let cases: [(&str, &str, &[&str]); 10] = [
            ("team", "a", &[]),
            ("kops.k8s.io/instancegroup", "x", &[]),
            ("mykarpenter.sh/x", "a", &[]),
            ("karpenter.sh/capacity-type", "spot", &[]),
            ("karpenter.sh/nodepool", "a", &["OwnLabel"]),
            ("kubernetes.io/hostname", "a", &["Restricted"]),
            ("sub.karpenter.sh/x", "a", &["Restricted"]),
            (long.as_str(), "a", &["NotAName"]),
            ("Spaces are / not", "a b", &["NotAName", "NotAValue"]),
            ("team", long.as_str(), &["NotAValue"]),
        ];
        for (key, value, expected) in cases {
            assert_eq!(of_label(key, value), expected, "{key}={value}");
        }
    }

    #[test]
    fn taints_table() {
        let cases: [(Value, &[&str]); 7] = [
            (
                json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}),
                &[],
            ),
            (json!({"taints": [{"key": "", "effect": "NoSchedule"}]}), &["taints[0].key NoKey"]),
            (json!({"taints": [{"key": "a b", "effect": "NoSchedule"}]}), &["taints[0].key NotAName"]),
            (
                json!({"startupTaints": [{"key": "a", "value": "?", "effect": ""}]}),
                &["startupTaints[0].value NotAName"],
            ),
            (json!({"taints": [{"key": "a", "effect": "Maybe"}]}), &["taints[0].effect NotAnEffect"]),
            (
                json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]}),
                &["taints[1] Duplicate"],
            ),
            (
                json!({
                    "taints": [{"key": "a", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "a", "effect": "NoSchedule"}],
                }),
                &["startupTaints[0] Duplicate"],
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(of_spec(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn requirements_table() {
        let long = "a".repeat(64);
        let accepted = [
            json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}),
            json!({"key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists"}),
            json!({"key": "a", "operator": "NotIn"}),
            json!({"key": "a", "operator": "Gt", "values": ["0"]}),
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "nonsense"]}),
            json!({"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["nonsense"]}),
            json!({"key": "a", "operator": "In", "values": ["b", "c"], "minValues": 2}),
        ];
        for requirement in accepted {
            assert!(of_requirement(&requirement), "{requirement}");
        }
        let refused = [
            json!({"key": "karpenter.sh/nodepool", "operator": "Exists"}),
            json!({"key": "kubernetes.io/hostname", "operator": "Exists"}),
            json!({"key": "sub.karpenter.sh/x", "operator": "Exists"}),
            json!({"key": long, "operator": "Exists"}),
            json!({"key": "a", "operator": "In", "values": [long]}),
            json!({"key": "a", "operator": "In", "values": []}),
            json!({"key": "a", "operator": "In", "values": ["b"], "minValues": 2}),
            json!({"key": "a", "operator": "Lte", "values": ["-1"]}),
            json!({"key": "a", "operator": "Lt", "values": ["1", "2"]}),
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["nonsense"]}),
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "x"], "minValues": 2}),
        ];
        for requirement in refused {
            assert!(!of_requirement(&requirement), "{requirement}");
        }
    }

    #[test]
    fn every_problem_is_reported_with_its_field() {
        let found = problems(&json!({"spec": {
            "disruption": {"consolidateAfter": "soon"},
            "template": {
                "metadata": {"labels": {"karpenter.sh/nodepool": "a"}},
                "spec": {
                    "taints": [{"key": "?", "effect": "NoSchedule"}],
                    "requirements": [{"key": "a", "operator": "In"}],
                    "terminationGracePeriod": "Never",
                },
            },
        }}));
        assert_eq!(
            found,
            [
                "spec.template.metadata.labels.karpenter.sh/nodepool OwnLabel",
                "spec.template.spec.taints[0].key NotAName",
                "spec.template.spec.requirements[0] Requirement",
                "spec.disruption.consolidateAfter Duration",
                "spec.template.spec.terminationGracePeriod Duration",
            ]
        );
    }
}
