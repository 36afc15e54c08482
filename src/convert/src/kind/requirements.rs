//! Requirements, labels and taints of pools and claims: what every generation has in common.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use karpenter_api::{Operator, Requirement};
use karpenter_model::names::label;

use crate::fields::{Fields, Found, read, scalar};
use crate::log::{Kind, Log};
use crate::names::{self, Fate};
use karpenter_api::yaml::Node;

/// Owner of requirements: a claim names its pool, a pool does not name itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Pool,
    Claim,
}

/// The requirements of field `requirements`, with the names labels have today.
pub(crate) fn requirements(fields: &mut Fields, to: &str, owner: Owner, log: &Log) -> Vec<Requirement> {
    let Some(list) = fields.list("requirements") else { return Vec::new() };
    let made = list.value.into_iter().filter_map(|item| requirement(item, owner, log)).collect();
    log.at(Kind::Mapped, &list.path, list.line, format!("-> {to}"));
    made
}

fn requirement(found: Found<Node>, owner: Owner, log: &Log) -> Option<Requirement> {
    let (path, line) = (found.path.clone(), found.line);
    let mut fields = Fields::of(found, log);
    let key = fields.read::<String>("key");
    let operator = fields.read::<Operator>("operator");
    let values = fields.list("values");
    let min_values = fields.read::<i64>("minValues").map(|found| found.value);
    fields.finish();
    let (Some(key), Some(operator)) = (key, operator) else {
        log.at(Kind::Dropped, &path, line, "has no key or no operator that can be read; write both");
        return None;
    };
    let key = match names::fate(&key.value, owner == Owner::Claim) {
        Fate::Kept => key.value,
        Fate::Renamed(name) => {
            log.at(Kind::Mapped, &key.path, key.line, format!("`{}` is `{name}` today", key.value));
            name.to_owned()
        }
        Fate::Gone(why) => {
            log.at(Kind::Dropped, &path, line, format!("requirement on `{}`: {why}", key.value));
            return None;
        }
    };
    let values = values.map(|values| {
        let texts = values.value.into_iter().map(|item| (scalar(&item.value), item));
        texts.filter_map(|(text, item)| readable(text, &item, log)).collect()
    });
    Some(Requirement { key, operator: operator.value, values, min_values })
}

fn readable(text: Option<String>, item: &Found<Node>, log: &Log) -> Option<String> {
    if text.is_none() {
        let text = "is no text; write one label value for each item";
        log.at(Kind::Dropped, &item.path, item.line, text);
    }
    text
}

/// The labels of field `labels`, as far as a node template may have them.
pub(crate) fn labels(fields: &mut Fields, to: &str, log: &Log) -> Option<BTreeMap<String, String>> {
    let found = fields.texts("labels")?;
    let mut labels = BTreeMap::new();
    for (key, value) in found.value {
        match names::fate(&key, false) {
            Fate::Kept => _ = labels.insert(key, value.value),
            Fate::Renamed(name) => {
                log.at(Kind::Mapped, &value.path, value.line, format!("`{key}` is `{name}` today"));
                labels.insert(name.to_owned(), value.value);
            }
            Fate::Gone(why) => {
                // Nodes have this label again, under its name of today.
                let kind = if key == label::PROVISIONER_NAME { Kind::Noted } else { Kind::Dropped };
                log.at(kind, &value.path, value.line, why);
            }
        }
    }
    if labels.is_empty() {
        return None;
    }
    log.at(Kind::Mapped, &found.path, found.line, format!("-> {to}"));
    Some(labels)
}

/// The annotations of field `annotations`, without what controllers write for themselves.
pub(crate) fn annotations(fields: &mut Fields, to: &str, log: &Log) -> Option<BTreeMap<String, String>> {
    let found = fields.texts("annotations")?;
    let mut annotations = BTreeMap::new();
    for (key, value) in found.value {
        if names::is_bookkeeping(&key) {
            log.at(Kind::Noted, &value.path, value.line, "left out: a controller or client writes it again");
        } else if let Some(name) = names::annotation_today(&key) {
            log.at(Kind::Mapped, &value.path, value.line, format!("`{key}` is `{name}` today"));
            annotations.insert(name.to_owned(), value.value);
        } else {
            annotations.insert(key, value.value);
        }
    }
    if annotations.is_empty() {
        return None;
    }
    log.at(Kind::Mapped, &found.path, found.line, format!("-> {to}"));
    Some(annotations)
}

/// The taints of a field. An empty value is left out: it is the same, and the schema of v1 refuses it.
pub(crate) fn taints(fields: &mut Fields, name: &'static str, to: &str, log: &Log) -> Option<Vec<Taint>> {
    let list = fields.list(name)?;
    let mut taints = Vec::new();
    for found in list.value {
        let Some(mut taint) = read::<Taint>(&found, log).map(|read| read.value) else { continue };
        taint.value = taint.value.filter(|value| !value.is_empty());
        if taint.effect.is_empty() {
            let text = "a taint without effect; v1 wants NoSchedule, PreferNoSchedule or NoExecute";
            log.at(Kind::Dropped, &found.path, found.line, text);
            continue;
        }
        taints.push(taint);
    }
    log.at(Kind::Mapped, &list.path, list.line, format!("-> {to}"));
    Some(taints)
}

/// Adds the defaults of v1alpha5 for what a Provisioner leaves out (spec aws-operations 4.3).
pub(crate) fn add_defaults(
    requirements: &mut Vec<Requirement>,
    labels: Option<&BTreeMap<String, String>>,
    to: &str,
    log: &Log,
) {
    let says = |key: &str, requirements: &[Requirement]| {
        requirements.iter().any(|requirement| requirement.key == key)
            || labels.is_some_and(|labels| labels.contains_key(key))
    };
    let add = |requirement: Requirement, requirements: &mut Vec<Requirement>| {
        let Requirement { key, operator, .. } = &requirement;
        let values = requirement.values().join(", ");
        let text = format!(
            "`{key}` {} {values}: v1alpha5 filled it in, v1 would allow anything; remove it to allow more",
            operator.as_str()
        );
        log.say(Kind::Added, to, text);
        requirements.push(requirement);
    };
    for (key, value) in [(label::OS, "linux"), (label::ARCH, "amd64"), (label::CAPACITY_TYPE, "on-demand")] {
        if !says(key, requirements) {
            add(Requirement::new(key, Operator::In, [value]), requirements);
        }
    }
    let of_type = [
        label::INSTANCE_TYPE,
        label::aws::INSTANCE_FAMILY,
        label::aws::INSTANCE_CATEGORY,
        label::aws::INSTANCE_GENERATION,
    ];
    if !of_type.iter().any(|key| says(key, requirements)) {
        add(Requirement::new(label::aws::INSTANCE_CATEGORY, Operator::In, ["c", "m", "r"]), requirements);
        add(Requirement::new(label::aws::INSTANCE_GENERATION, Operator::Gt, ["2"]), requirements);
    }
}
