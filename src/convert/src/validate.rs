//! Validates an object as an API server with our definitions would.
//!
//! The schema is checked as it is in the definitions. Their CEL rules need an interpreter, so the few that converted
//! objects could break are repeated here; a test compares both on everything the goldens emit.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::KubeletBlock;
use karpenter_api::{EC2NodeClass, NodePool, crd_values};
use regex::Regex;
use serde_json::Value;

use crate::names;

/// Everything that is wrong with an object of v1, each with its path; empty for kinds without a definition here.
pub(crate) fn problems(object: &Value) -> Vec<String> {
    let is_kind = |crd: &Value| crd["spec"]["names"]["kind"] == object["kind"];
    let Some(crd) = crd_values().into_iter().find(is_kind) else { return Vec::new() };
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut problems = Vec::new();
    for part in ["spec", "status"] {
        if let Some(value) = object.get(part) {
            structure(&schema["properties"][part], value, part, &mut problems);
        }
    }
    if problems.is_empty() {
        problems.extend(rules(object));
    }
    problems
}

/// Returns the ways in which a value breaks its schema.
pub(crate) fn against(schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        structure(&schema["properties"][name], field, name, &mut problems);
    }
    problems
}

fn structure(schema: &Value, value: &Value, path: &str, problems: &mut Vec<String>) {
    if let Some(what) = mismatch(schema, value) {
        problems.push(format!("`{path}`: {what}"));
        return;
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let has_default = schema["properties"][name].get("default").is_some();
        if value.get(name).is_none() && !has_default {
            problems.push(format!("`{path}.{name}` is missing"));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
                    Some(schema) => structure(schema, field, &path, problems),
                    // A schema without fields takes any.
                    None if schema.get("properties").is_none() => {}
                    None => problems.push(format!("`{path}` is not known there")),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                structure(&schema["items"], item, &format!("{path}[{index}]"), problems);
            }
        }
        _ => {}
    }
}

/// Returns the way in which the value itself breaks its schema, apart from its fields.
fn mismatch(schema: &Value, value: &Value) -> Option<String> {
    let is_amount = schema["x-kubernetes-int-or-string"] == true && (value.is_i64() || value.is_string());
    let has_type = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        _ => is_amount || schema["x-kubernetes-int-or-string"] != true,
    };
    if !has_type {
        return Some(format!("{value} has the wrong type"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return Some(format!("{value} is not one of {}", allowed.join(", ")));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && Regex::new(pattern).is_ok_and(|pattern| !pattern.is_match(text))
    {
        return Some(format!("{value} is not of the form `{pattern}`"));
    }
    let size = |least: &str, most: &str, size: usize| {
        let size = i64::try_from(size).unwrap_or(i64::MAX);
        bounds(schema, least, most, size)
    };
    match value {
        Value::String(text) => size("minLength", "maxLength", text.chars().count()),
        Value::Array(items) => size("minItems", "maxItems", items.len()),
        Value::Object(fields) => size("minProperties", "maxProperties", fields.len()),
        Value::Number(number) => bounds(schema, "minimum", "maximum", number.as_i64().unwrap_or_default()),
        _ => None,
    }
}

fn bounds(schema: &Value, least: &str, most: &str, size: i64) -> Option<String> {
    let (low, high) = (schema[least].as_i64(), schema[most].as_i64());
    let fits = low.is_none_or(|low| size >= low) && high.is_none_or(|high| size <= high);
    (!fits).then(|| {
        format!("{size} is out of bounds; the schema says {schema_bounds}", schema_bounds = said(low, high))
    })
}

fn said(low: Option<i64>, high: Option<i64>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("at least {low}"),
        (_, high) => format!("at most {}", high.unwrap_or(i64::MAX)),
    }
}

/// The rules that a schema cannot say.
fn rules(object: &Value) -> Vec<String> {
    if let Ok(pool) = serde_json::from_value::<NodePool>(object.clone()) {
        let problems = pool.problems(&names::registry());
        return problems.iter().map(ToString::to_string).chain(schedules(&pool)).collect();
    }
    let Ok(class) = serde_json::from_value::<EC2NodeClass>(object.clone()) else { return Vec::new() };
    let spec = &class.spec;
    let mut problems = Vec::new();
    let mut rule = |holds: bool, text: &str| {
        if !holds {
            problems.push(text.to_owned());
        }
    };
    rule(
        spec.role.is_some() != spec.instance_profile.is_some(),
        "`spec` needs either `role` or `instanceProfile`",
    );
    let alias = spec.ami_selector_terms.iter().any(|term| term.alias.is_some());
    rule(spec.ami_family.is_some() || alias, "`spec.amiFamily` is missing, and no alias stands for it");
    rule(!spec.subnet_selector_terms.is_empty(), "`spec.subnetSelectorTerms` is empty");
    rule(!spec.security_group_selector_terms.is_empty(), "`spec.securityGroupSelectorTerms` is empty");
    let kubelet = spec.kubelet.as_ref().map(KubeletBlock::settings).unwrap_or_default();
    let soft = keys(kubelet.eviction_soft.as_ref());
    let grace = keys(kubelet.eviction_soft_grace_period.as_ref());
    rule(soft == grace, "`spec.kubelet.evictionSoft` and `evictionSoftGracePeriod` name different signals");
    for reserved in [&kubelet.kube_reserved, &kubelet.system_reserved] {
        let known = |key: &String| ["cpu", "memory", "ephemeral-storage", "pid"].contains(&key.as_str());
        rule(
            reserved.as_ref().is_none_or(|map: &BTreeMap<_, _>| map.keys().all(known)),
            "`spec.kubelet`: only cpu, memory, ephemeral-storage and pid can be reserved",
        );
    }
    let (high, low) = (kubelet.image_gc_high_threshold_percent, kubelet.image_gc_low_threshold_percent);
    rule(
        high.zip(low).is_none_or(|(high, low)| high > low),
        "`spec.kubelet.imageGCHighThresholdPercent` must be above the low one",
    );
    for (index, mapping) in spec.block_device_mappings.iter().flatten().enumerate() {
        let is_sized =
            mapping.ebs.as_ref().is_none_or(|ebs| ebs.snapshot_id.is_some() || ebs.volume_size.is_some());
        rule(
            is_sized,
            &format!("`spec.blockDeviceMappings[{index}].ebs` needs `snapshotID` or `volumeSize`"),
        );
    }
    problems
}

fn keys<V>(map: Option<&BTreeMap<String, V>>) -> Vec<&String> {
    map.into_iter().flat_map(BTreeMap::keys).collect()
}

fn schedules(pool: &NodePool) -> impl Iterator<Item = String> {
    let budgets = pool.spec.disruption.budgets.iter().enumerate();
    let halves = budgets.filter(|(_, budget)| budget.schedule.is_some() != budget.duration.is_some());
    halves
        .map(|(index, _)| format!("`spec.disruption.budgets[{index}]` needs both `schedule` and `duration`"))
}
