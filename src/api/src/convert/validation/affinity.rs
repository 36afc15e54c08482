//! Constraints on where a pod goes: selectors, affinity, spread, tolerations.

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, PodSpec, Toleration,
    TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Found, names};

/// Everything of a pod that decides where it goes, but for amounts.
pub(super) fn placement(spec: &PodSpec, path: &str, found: &mut Found) {
    names::labels(spec.node_selector.as_ref(), &format!("{path}.nodeSelector"), found);
    tolerations(spec.tolerations.as_deref(), &format!("{path}.tolerations"), found);
    if let Some(affinity) = &spec.affinity {
        of_affinity(affinity, &format!("{path}.affinity"), found);
    }
    spread(spec.topology_spread_constraints.as_deref(), &format!("{path}.topologySpreadConstraints"), found);
}

/// Checks a selector of labels.
pub(super) fn label_selector(selector: &LabelSelector, path: &str, found: &mut Found) {
    names::labels(selector.match_labels.as_ref(), &format!("{path}.matchLabels"), found);
    for (index, one) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = one.values.as_deref().unwrap_or_default();
        match one.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => found
                .required(&format!("{path}.values"), "must be specified when `operator` is 'In' or 'NotIn'"),
            "Exists" | "DoesNotExist" if !values.is_empty() => found.forbidden(
                &format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => found.invalid(&format!("{path}.operator"), other, "not a valid selector operator"),
        }
        key(&one.key, &format!("{path}.key"), found);
        for (index, value) in values.iter().enumerate() {
            if let Some(why) = names::label_value(value) {
                found.invalid(&format!("{path}.values[{index}]"), value.as_str(), why);
            }
        }
    }
}

fn key(written: &str, field: &str, found: &mut Found) {
    if let Some(why) = names::qualified(written) {
        found.invalid(field, written, why);
    }
}

/// Checks the tolerations of a pod or a runtime class.
pub(super) fn tolerations(written: Option<&[Toleration]>, path: &str, found: &mut Found) {
    for (index, one) in written.into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (name, operator, effect) = (text(&one.key), text(&one.operator), text(&one.effect));
        if !name.is_empty() {
            key(&name, &format!("{path}.key"), found);
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            found.invalid(&format!("{path}.operator"), operator.as_str(), why);
        }
        if one.toleration_seconds.is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            found.invalid(&format!("{path}.effect"), effect.as_str(), why);
        }
        let value = text(&one.value);
        match operator.as_str() {
            "" | "Equal" => {
                if let Some(why) = names::label_value(&value) {
                    found.invalid(&format!("{path}.operator"), value, why);
                }
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                found.invalid(&format!("{path}.operator"), value, why);
            }
            "Exists" => {}
            other => found.unsupported(&format!("{path}.operator"), other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        found.one_of(&format!("{path}.effect"), one.effect.as_ref(), &effects);
    }
}

fn of_affinity(affinity: &Affinity, path: &str, found: &mut Found) {
    if let Some(node) = &affinity.node_affinity {
        let path = format!("{path}.nodeAffinity");
        if let Some(required) = &node.required_during_scheduling_ignored_during_execution {
            let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
            if required.node_selector_terms.is_empty() {
                found.required(&path, "must have at least one node selector term");
            }
            for (index, term) in required.node_selector_terms.iter().enumerate() {
                node_term(term, true, &format!("{path}[{index}]"), found);
            }
        }
        for (index, one) in
            node.preferred_during_scheduling_ignored_during_execution.iter().flatten().enumerate()
        {
            let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
            weight(one.weight, &path, found);
            node_term(&one.preference, false, &format!("{path}.preference"), found);
        }
    }
    if let Some(with) = &affinity.pod_affinity {
        let path = format!("{path}.podAffinity");
        let required = with.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = with.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, preferred, &path, found);
    }
    if let Some(without) = &affinity.pod_anti_affinity {
        let path = format!("{path}.podAntiAffinity");
        let required = without.required_during_scheduling_ignored_during_execution.as_deref();
        let preferred = without.preferred_during_scheduling_ignored_during_execution.as_deref();
        pod_terms(required, preferred, &path, found);
    }
}

fn weight(weight: i32, path: &str, found: &mut Found) {
    if !(1..=100).contains(&weight) {
        found.invalid(&format!("{path}.weight"), weight, "must be in the range 1-100");
    }
}

/// Checks a term about nodes. Values of preferences may be no labels: no node has them.
fn node_term(term: &NodeSelectorTerm, is_required: bool, path: &str, found: &mut Found) {
    for (index, one) in term.match_expressions.iter().flatten().enumerate() {
        node_expression(one, is_required, &format!("{path}.matchExpressions[{index}]"), found);
    }
    for (index, one) in term.match_fields.iter().flatten().enumerate() {
        let path = format!("{path}.matchFields[{index}]");
        if !["In", "NotIn"].contains(&one.operator.as_str()) {
            found.invalid(
                &format!("{path}.operator"),
                one.operator.as_str(),
                "not a valid selector operator",
            );
        } else if one.values.as_ref().is_none_or(|values| values.len() != 1) {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            found.required(&format!("{path}.values"), why);
        }
        if one.key != "metadata.name" {
            found.invalid(&format!("{path}.key"), one.key.as_str(), "not a valid field selector key");
        }
    }
}

fn node_expression(one: &NodeSelectorRequirement, is_required: bool, path: &str, found: &mut Found) {
    let values = one.values.as_deref().unwrap_or_default();
    let field = format!("{path}.values");
    match one.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => {
            found.required(&field, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            found.forbidden(&field, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            found.required(&field, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => found.invalid(&format!("{path}.operator"), other, "not a valid selector operator"),
    }
    key(&one.key, &format!("{path}.key"), found);
    for (index, value) in values.iter().enumerate().filter(|_| is_required) {
        if let Some(why) = names::label_value(value) {
            found.invalid(&format!("{field}[{index}]"), value.as_str(), why);
        }
    }
}

fn pod_terms(
    required: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
    path: &str,
    found: &mut Found,
) {
    for (index, term) in required.into_iter().flatten().enumerate() {
        let path = format!("{path}.requiredDuringSchedulingIgnoredDuringExecution[{index}]");
        pod_term(term, &path, found);
    }
    for (index, one) in preferred.into_iter().flatten().enumerate() {
        let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{index}]");
        weight(one.weight, &path, found);
        pod_term(&one.pod_affinity_term, &format!("{path}.podAffinityTerm"), found);
    }
}

fn pod_term(term: &PodAffinityTerm, path: &str, found: &mut Found) {
    let selectors =
        [(&term.label_selector, "labelSelector"), (&term.namespace_selector, "namespaceSelector")];
    for (selector, name) in selectors {
        if let Some(selector) = selector {
            label_selector(selector, &format!("{path}.{name}"), found);
        }
    }
    for (index, namespace) in term.namespaces.iter().flatten().enumerate() {
        if let Some(why) = names::label(namespace) {
            found.invalid(&format!("{path}.namespaces[{index}]"), namespace.as_str(), why);
        }
    }
    let selector = term.label_selector.as_ref();
    label_keys(term.match_label_keys.as_deref(), selector, &format!("{path}.matchLabelKeys"), found);
    label_keys(term.mismatch_label_keys.as_deref(), selector, &format!("{path}.mismatchLabelKeys"), found);
    let mismatched = term.mismatch_label_keys.as_deref().unwrap_or_default();
    for (index, both) in term.match_label_keys.iter().flatten().enumerate() {
        if mismatched.contains(both) {
            let why = "exists in both matchLabelKeys and mismatchLabelKeys";
            found.invalid(&format!("{path}.matchLabelKeys[{index}]"), both.as_str(), why);
        }
    }
    if term.topology_key.is_empty() {
        found.required(&format!("{path}.topologyKey"), "can not be empty");
    } else {
        key(&term.topology_key, &format!("{path}.topologyKey"), found);
    }
}

/// Checks keys whose values are taken from the pod. That a selector has one of them by itself is judged by admission, of a pod
/// that has the label.
fn label_keys(keys: Option<&[String]>, selector: Option<&LabelSelector>, path: &str, found: &mut Found) {
    let keys = keys.unwrap_or_default();
    if keys.is_empty() {
        return;
    }
    let Some(selector) = selector else {
        found.forbidden(path, "must not be specified when labelSelector is not set");
        return;
    };
    for (index, one) in keys.iter().enumerate() {
        let field = format!("{path}[{index}]");
        key(one, &field, found);
        let expressions =
            selector.match_expressions.iter().flatten().filter(|other| other.key == *one).count();
        let is_label = selector.match_labels.as_ref().is_some_and(|labels| labels.contains_key(one));
        if expressions + usize::from(is_label) > 1 && path.ends_with(".matchLabelKeys") {
            found.invalid(&field, one.as_str(), "exists in both matchLabelKeys and labelSelector");
        }
    }
}

fn spread(written: Option<&[TopologySpreadConstraint]>, path: &str, found: &mut Found) {
    let all = written.unwrap_or_default();
    for (index, one) in all.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if one.max_skew <= 0 {
            found.invalid(&format!("{path}.maxSkew"), one.max_skew, "must be greater than zero");
        }
        if one.topology_key.is_empty() {
            found.required(&format!("{path}.topologyKey"), "can not be empty");
        }
        let when = ["DoNotSchedule", "ScheduleAnyway"];
        if !when.contains(&one.when_unsatisfiable.as_str()) {
            found.unsupported(&format!("{path}.whenUnsatisfiable"), &one.when_unsatisfiable, &when);
        }
        if let Some(least) = one.min_domains {
            let field = format!("{path}.minDomains");
            if least <= 0 {
                found.invalid(&field, least, "must be greater than zero");
            }
            if one.when_unsatisfiable != when[0] {
                let why = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway";
                found.invalid(&field, least, why);
            }
        }
        let same = |other: &TopologySpreadConstraint| {
            (&other.topology_key, &other.when_unsatisfiable) == (&one.topology_key, &one.when_unsatisfiable)
        };
        if all[..index].iter().any(same) {
            let both = format!("{{{}, {}}}", one.topology_key, one.when_unsatisfiable);
            found.duplicate(&format!("{path}.{{topologyKey, whenUnsatisfiable}}"), both);
        }
        found.one_of(
            &format!("{path}.nodeAffinityPolicy"),
            one.node_affinity_policy.as_ref(),
            &["Ignore", "Honor"],
        );
        found.one_of(
            &format!("{path}.nodeTaintsPolicy"),
            one.node_taints_policy.as_ref(),
            &["Ignore", "Honor"],
        );
        let selector = one.label_selector.as_ref();
        label_keys(one.match_label_keys.as_deref(), selector, &format!("{path}.matchLabelKeys"), found);
        if let Some(selector) = selector {
            label_selector(selector, &format!("{path}.labelSelector"), found);
        }
    }
}
