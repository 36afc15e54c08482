//! Node affinity, pod affinity and topology spread of pods.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use karpenter_model::{
    AffinityTerm, Expression, NodeInclusion, NodeTerm, Operator, PodAffinity, SpreadConstraint,
    WeightedAffinityTerm, WhenUnsatisfiable,
};

use super::FieldError;
use super::selector;

const NODE_REQUIRED: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution";
const NODE_PREFERRED: &str = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution";

/// Required terms of the node affinity, in order.
pub(super) fn required_terms(spec: &PodSpec) -> Result<Vec<NodeTerm>, FieldError> {
    let required = node_affinity(spec)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    let read = |(index, term): (usize, &NodeSelectorTerm)| {
        node_term(&format!("{NODE_REQUIRED}.nodeSelectorTerms[{index}]"), term)
    };
    let mut terms = terms.iter().enumerate().map(read).collect::<Result<Vec<NodeTerm>, _>>()?;
    // An empty term matches no node, so it is no alternative to the others.
    if terms.iter().any(|term| !term.is_empty()) {
        terms.retain(|term| !term.is_empty());
    }
    Ok(terms)
}

/// Preferred terms of the node affinity with their weights, in order.
pub(super) fn preferred_terms(spec: &PodSpec) -> Result<Vec<(i32, NodeTerm)>, FieldError> {
    let preferred = node_affinity(spec)
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let terms = preferred.into_iter().flatten().enumerate();
    terms
        .map(|(index, term)| {
            let read = node_term(&format!("{NODE_PREFERRED}[{index}].preference"), &term.preference)?;
            Ok((term.weight, read))
        })
        .collect()
}

fn node_affinity(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}

fn node_term(field: &str, written: &NodeSelectorTerm) -> Result<NodeTerm, FieldError> {
    let all = |list: &str, written: Option<&Vec<NodeSelectorRequirement>>| {
        let written = written.into_iter().flatten().enumerate();
        let read = written.map(|(index, one)| expression(&format!("{field}.{list}[{index}]"), one));
        read.collect::<Result<Vec<_>, _>>()
    };
    Ok(NodeTerm {
        expressions: all("matchExpressions", written.match_expressions.as_ref())?,
        fields: all("matchFields", written.match_fields.as_ref())?,
    })
}

fn expression(field: &str, written: &NodeSelectorRequirement) -> Result<Expression, FieldError> {
    let operator = Operator::parse(&written.operator)
        .ok_or_else(|| FieldError::unknown(&format!("{field}.operator"), &written.operator))?;
    Ok(Expression {
        key: written.key.as_str().into(),
        operator,
        values: written.values.iter().flatten().map(|value| value.as_str().into()).collect(),
        min_values: None,
    })
}

/// Pod affinity.
pub(super) fn pod_affinity(spec: &PodSpec) -> PodAffinity {
    let written = spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
    written.map_or_else(PodAffinity::default, |written| {
        both(
            written.required_during_scheduling_ignored_during_execution.as_ref(),
            written.preferred_during_scheduling_ignored_during_execution.as_ref(),
        )
    })
}

/// Pod anti-affinity.
pub(super) fn pod_anti_affinity(spec: &PodSpec) -> PodAffinity {
    let written = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    written.map_or_else(PodAffinity::default, |written| {
        both(
            written.required_during_scheduling_ignored_during_execution.as_ref(),
            written.preferred_during_scheduling_ignored_during_execution.as_ref(),
        )
    })
}

fn both(
    required: Option<&Vec<PodAffinityTerm>>,
    preferred: Option<&Vec<WeightedPodAffinityTerm>>,
) -> PodAffinity {
    let weighted = |written: &WeightedPodAffinityTerm| WeightedAffinityTerm {
        weight: written.weight,
        term: pod_term(&written.pod_affinity_term),
    };
    PodAffinity {
        required: required.into_iter().flatten().map(pod_term).collect(),
        preferred: preferred.into_iter().flatten().map(weighted).collect(),
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` are part of the selector once a pod is admitted.
fn pod_term(written: &PodAffinityTerm) -> AffinityTerm {
    AffinityTerm {
        topology_key: written.topology_key.as_str().into(),
        selector: selector(written.label_selector.as_ref()),
        namespaces: written.namespaces.iter().flatten().map(|name| name.as_str().into()).collect(),
        namespace_selector: selector(written.namespace_selector.as_ref()),
    }
}

/// Topology spread constraints, in order.
pub(super) fn spread(spec: &PodSpec) -> Result<Vec<SpreadConstraint>, FieldError> {
    let constraints = spec.topology_spread_constraints.iter().flatten().enumerate();
    constraints
        .map(|(index, written)| {
            constraint(written)
                .map_err(|error| error.below(&format!("spec.topologySpreadConstraints[{index}]")))
        })
        .collect()
}

fn constraint(written: &TopologySpreadConstraint) -> Result<SpreadConstraint, FieldError> {
    let inclusion = |field: &str, text: Option<&String>, default| match text.map(String::as_str) {
        None => Ok(default),
        Some("Honor") => Ok(NodeInclusion::Honor),
        Some("Ignore") => Ok(NodeInclusion::Ignore),
        Some(other) => Err(FieldError::unknown(field, other)),
    };
    let positive = |field: &str, value: i32| {
        let read = u32::try_from(value).ok().filter(|value| *value > 0);
        read.ok_or_else(|| FieldError::new(field, format_args!("{value} is not positive")))
    };
    Ok(SpreadConstraint {
        max_skew: positive("maxSkew", written.max_skew)?,
        topology_key: written.topology_key.as_str().into(),
        when_unsatisfiable: match written.when_unsatisfiable.as_str() {
            "DoNotSchedule" => WhenUnsatisfiable::DoNotSchedule,
            "ScheduleAnyway" => WhenUnsatisfiable::ScheduleAnyway,
            other => return Err(FieldError::unknown("whenUnsatisfiable", other)),
        },
        selector: selector(written.label_selector.as_ref()),
        min_domains: written.min_domains.map(|domains| positive("minDomains", domains)).transpose()?,
        node_affinity_policy: inclusion(
            "nodeAffinityPolicy",
            written.node_affinity_policy.as_ref(),
            NodeInclusion::Honor,
        )?,
        node_taints_policy: inclusion(
            "nodeTaintsPolicy",
            written.node_taints_policy.as_ref(),
            NodeInclusion::Ignore,
        )?,
        match_label_keys: written.match_label_keys.iter().flatten().map(|key| key.as_str().into()).collect(),
    })
}
