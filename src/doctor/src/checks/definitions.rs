//! Definitions as they are in the cluster, compared whole with those of this release.
//!
//! A definition may know more than ours: fields and values that a newer release has added refuse nothing. All other differences
//! make the API server refuse what is written for this release, or keep what it should refuse.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

use super::{name, object};
use crate::check::{Evidence, Outcome};
use crate::facts::{Facts, Unseen};

/// Definitions that are not used unless a gate is on.
const OPTIONAL: [(&str, &str); 2] = [
    ("capacitybuffers.autoscaling.x-k8s.io", "CapacityBuffer=true"),
    ("nodeoverlays.karpenter.sh", "NodeOverlay=true"),
];

/// Keywords of a schema whose values decide what is taken, or what it becomes.
const KEYWORDS: [&str; 17] = [
    "type",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "nullable",
    "default",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
];

/// Most differences of a definition that are written out.
const SHOWN: usize = 3;

/// Longest part of a rule that is shown, in characters.
const RULE: usize = 80;

pub(super) fn is_not_deployed(facts: &Facts) -> Result<bool, Unseen> {
    Ok(facts.cluster.controller()?.is_none())
}

/// Returns whether definitions show that an installation of ours has begun. EKS Auto Mode brings some of the same names, which
/// AWS keeps, with a node class of its own: without ours they are none of our business.
pub(super) fn is_begun(installed: &[CustomResourceDefinition]) -> bool {
    let has = |wanted: &str| installed.iter().any(|crd| name(&crd.metadata) == wanted);
    has("ec2nodeclasses.karpenter.k8s.aws")
        || !has("nodeclasses.eks.amazonaws.com")
            && installed.iter().any(|crd| name(&crd.metadata).contains("karpenter"))
}

pub(super) fn old_definitions(facts: &Facts) -> Outcome {
    let installed = facts.cluster.definitions.get()?;
    if !is_begun(installed) && is_not_deployed(facts)? {
        return Ok(Vec::new());
    }
    let gates = facts.cluster.setting("FEATURE_GATES")?.unwrap_or_default();
    let is_needed = |name: &str| OPTIONAL.iter().all(|(crd, gate)| *crd != name || gates.contains(gate));
    let mut found = Vec::new();
    for wanted in karpenter_api::crds().into_iter().filter(|crd| is_needed(name(&crd.metadata))) {
        let present = installed.iter().find(|crd| name(&crd.metadata) == name(&wanted.metadata));
        let seen = present.map_or_else(
            || Some("is not installed".to_owned()),
            |present| said(&differences(&wanted, present)),
        );
        found.extend(
            seen.map(|seen| Evidence::new(object("CustomResourceDefinition", &wanted.metadata), seen)),
        );
    }
    Ok(found)
}

/// The first differences in one line; `None` when there are none.
fn said(differences: &[String]) -> Option<String> {
    let shown = differences.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    let more = differences.len().checked_sub(SHOWN).filter(|more| *more > 0);
    let more = more.map(|more| format!("; and {more} more differences")).unwrap_or_default();
    (!differences.is_empty()).then(|| shown + &more)
}

/// Returns the differences in `present`, in words that follow the name of the definition.
fn differences(wanted: &CustomResourceDefinition, present: &CustomResourceDefinition) -> Vec<String> {
    let mut lacking = Vec::new();
    let mut found = Vec::new();
    let mut versions = BTreeSet::new();
    for version in &wanted.spec.versions {
        versions.insert(version.name.as_str());
        match present.spec.versions.iter().find(|one| one.name == version.name) {
            Some(one) => {
                of_version(version, one, &mut found);
                let mut walk = Walk { lacking: &mut lacking, found: &mut found };
                walk.schema(&schema(version), &schema(one), &version.name);
            }
            None => found.push(format!("has no version {}", version.name)),
        }
    }
    if let Some(first) = lacking.first() {
        found.insert(0, format!("lacks {} fields, such as `{first}`", lacking.len()));
    }
    if present.spec.scope != wanted.spec.scope {
        found.push(format!("is {}, not {}", present.spec.scope, wanted.spec.scope));
    }
    found.extend(leftovers(present, &versions));
    found
}

/// Returns what an upgrade by way of an older version leaves behind.
fn leftovers(present: &CustomResourceDefinition, versions: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let conversion = present.spec.conversion.as_ref().filter(|conversion| conversion.strategy != "None");
    if let Some(conversion) = conversion {
        let webhook = conversion.webhook.as_ref().and_then(|webhook| webhook.client_config.as_ref());
        let service = webhook.and_then(|config| config.service.as_ref());
        let asked = service.map(|service| format!(" of service {}/{}", service.namespace, service.name));
        found.push(format!(
            "converts by a webhook{}, which no controller of this release serves",
            asked.unwrap_or_default()
        ));
    }
    let stored = present.status.as_ref().and_then(|status| status.stored_versions.as_ref());
    let served = present.spec.versions.iter().map(|version| &version.name);
    let old = |names: Vec<&String>| {
        let old = names.into_iter().filter(|name| !versions.contains(name.as_str()));
        old.cloned().collect::<Vec<_>>().join(", ")
    };
    let (stored, served) = (old(stored.into_iter().flatten().collect()), old(served.collect()));
    if !served.is_empty() {
        found.push(format!("has version {served}, which this release does not know"));
    }
    if !stored.is_empty() {
        found.push(format!(
            "may have objects stored as {stored}, so that the version cannot be taken out of it"
        ));
    }
    found
}

fn of_version(
    wanted: &CustomResourceDefinitionVersion,
    present: &CustomResourceDefinitionVersion,
    found: &mut Vec<String>,
) {
    let has_status = |version: &CustomResourceDefinitionVersion| {
        version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
    };
    for (is, should, what) in [
        (present.served, wanted.served, "serve"),
        (present.storage, wanted.storage, "store"),
        (has_status(present), has_status(wanted), "keep the status apart in"),
    ] {
        if should && !is {
            found.push(format!("does not {what} version {}", wanted.name));
        }
    }
}

fn schema(version: &CustomResourceDefinitionVersion) -> Value {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    schema.map_or(Value::Null, |schema| serde_json::to_value(schema).unwrap_or_default())
}

/// The way through two schemas.
struct Walk<'a> {
    /// Fields that are not there.
    lacking: &'a mut Vec<String>,
    /// All other differences.
    found: &'a mut Vec<String>,
}

impl Walk<'_> {
    fn schema(&mut self, wanted: &Value, present: &Value, path: &str) {
        for keyword in KEYWORDS {
            if wanted[keyword] != present[keyword] {
                let (is, should) = (shown(&present[keyword]), shown(&wanted[keyword]));
                self.found.push(format!("`{path}` has {keyword} {is}, not {should}"));
            }
        }
        self.sets(wanted, present, path);
        self.rules(wanted, present, path);
        for (field, inner) in wanted["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{field}");
            match present["properties"].get(field) {
                Some(present) => self.schema(inner, present, &path),
                None => self.missing(inner, path),
            }
        }
        for (below, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if wanted[below].is_object() {
                self.schema(&wanted[below], &present[below], &format!("{path}{mark}"));
            }
        }
    }

    /// A field that is not there, and those in it.
    fn missing(&mut self, schema: &Value, path: String) {
        for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
            self.missing(inner, format!("{path}.{field}"));
        }
        self.lacking.push(path);
    }

    fn sets(&mut self, wanted: &Value, present: &Value, path: &str) {
        let lacks = |of: &Value, other: &Value, keyword: &str| {
            let other = other[keyword].as_array();
            let has = |value: &&Value| other.is_some_and(|other| other.contains(value));
            let lacking = of[keyword].as_array().into_iter().flatten().filter(|value| !has(value));
            lacking.map(shown).collect::<Vec<_>>().join(", ")
        };
        // A schema without a list of values takes any.
        if present["enum"].is_array() {
            self.say(path, "does not allow", &lacks(wanted, present, "enum"));
        }
        self.say(path, "does not require", &lacks(wanted, present, "required"));
        self.say(path, "requires", &lacks(present, wanted, "required"));
    }

    fn rules(&mut self, wanted: &Value, present: &Value, path: &str) {
        let (wanted, present) = (rules_of(wanted), rules_of(present));
        for (verb, rules) in
            [("lacks rule", wanted.difference(&present)), ("has another rule", present.difference(&wanted))]
        {
            for rule in rules {
                let cut: String = rule.chars().take(RULE).collect();
                self.found.push(format!("`{path}` {verb} `{cut}`"));
            }
        }
    }

    fn say(&mut self, path: &str, verb: &str, what: &str) {
        if !what.is_empty() {
            self.found.push(format!("`{path}` {verb} {what}"));
        }
    }
}

/// Rules as they are evaluated: how they are wrapped says nothing.
fn rules_of(schema: &Value) -> BTreeSet<String> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let plain = |rule: &str| rule.split_whitespace().collect::<Vec<_>>().join(" ");
    rules.filter_map(|rule| rule["rule"].as_str()).map(plain).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OPERATOR: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/requirements/items/properties/operator";

    fn claims() -> Value {
        let named = |crd: &Value| crd["metadata"]["name"] == "nodeclaims.karpenter.sh";
        karpenter_api::crd_values().into_iter().find(named).unwrap()
    }

    fn compared(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let wanted: CustomResourceDefinition = serde_json::from_value(claims()).unwrap();
        let mut present = claims();
        change(&mut present);
        differences(&wanted, &serde_json::from_value(present).unwrap())
    }

    fn set(crd: &mut Value, pointer: &str, value: Value) {
        let (above, field) = pointer.rsplit_once('/').unwrap();
        crd.pointer_mut(above).unwrap()[field] = value;
    }

    /// cztack#910, core#2876, core#1886
    #[test]
    fn differences_are_those_that_refuse_or_keep_something() {
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        let webhook = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
            "service": {"name": "karpenter", "namespace": "karpenter", "path": "/conversion", "port": 8443}}}});
        let table: Vec<(String, Value, Option<&str>)> = vec![
            ("/metadata/annotations".to_owned(), json!({"of": "helm"}), None),
            (format!("{OPERATOR}/description"), json!("another text"), None),
            (
                format!("{OPERATOR}/enum"),
                json!(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
                Some("does not allow `Gte`, `Lte`"),
            ),
            (format!("{OPERATOR}/maxLength"), json!(3), Some("has maxLength `3`, not none")),
            (format!("{OPERATOR}/pattern"), json!("^I"), Some("has pattern `^I`, not none")),
            (format!("{OPERATOR}/default"), json!("In"), Some("has default `In`, not none")),
            (format!("{spec}/required"), json!(["nodeClassRef"]), Some("does not require `requirements`")),
            (
                format!("{spec}/required"),
                json!(["nodeClassRef", "requirements", "expireAfter"]),
                Some("requires `expireAfter`"),
            ),
            (
                format!("{spec}/x-kubernetes-validations"),
                json!([{"rule": "self == oldSelf  ", "message": "another text"}, {"rule": "has(self.x)"}]),
                Some("has another rule `has(self.x)`"),
            ),
            (format!("{spec}/x-kubernetes-validations"), Value::Null, Some("lacks rule `self == oldSelf`")),
            (format!("{spec}/properties/newer"), json!({"type": "string"}), None),
            ("/spec/conversion".to_owned(), json!({"strategy": "None"}), None),
            (
                "/spec/conversion".to_owned(),
                webhook,
                Some("converts by a webhook of service karpenter/karpenter"),
            ),
            (
                "/spec/versions/0/subresources".to_owned(),
                json!({}),
                Some("does not keep the status apart in version v1"),
            ),
            (
                "/status".to_owned(),
                json!({"storedVersions": ["v1beta1", "v1"]}),
                Some("may have objects stored as v1beta1, "),
            ),
            ("/status".to_owned(), json!({"storedVersions": ["v1"]}), None),
        ];
        for (pointer, value, expected) in table {
            let found = compared(|crd| set(crd, &pointer, value.clone()));
            match expected {
                Some(text) => assert!(found.iter().any(|one| one.contains(text)), "{pointer}: {found:?}"),
                None => assert_eq!(found, Vec::<String>::new(), "{pointer} {value}"),
            }
        }
    }

    #[test]
    fn fields_that_are_not_there_are_counted_and_the_rest_is_cut() {
        let found = compared(|crd| {
            let spec = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec").unwrap();
            spec["properties"].as_object_mut().unwrap().remove("expireAfter");
        });
        assert_eq!(found, ["lacks 1 fields, such as `v1.spec.expireAfter`"]);
        let all: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(said(&all).unwrap(), "a; b; c; and 2 more differences");
        assert_eq!(said(&[]), None);
    }
}
