//! Node classes of manifests, which nothing has resolved: without an account every one is taken for ready, with subnets in
//! zones that are given.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::manifest::refusals;
use karpenter_cloud::ClassFault;
use karpenter_model::names::{condition, label, zone_id};
use serde_json::{Value, json};

use crate::objects::{is_foreign, text};

/// The region that objects of a cluster name, by their first zone in name order, or else by its own name; `None` when none
/// does.
pub fn region_of(objects: &[Value]) -> Option<String> {
    let of_zone = named(objects, label::ZONE).into_iter().find_map(region_of_zone);
    of_zone.or_else(|| named(objects, label::REGION).first().map(|region| (*region).to_owned()))
}

/// The zones of `region` that objects name, by name.
pub fn zones_named<'a>(objects: &'a [Value], region: &str) -> Vec<&'a str> {
    let mut zones = named(objects, label::ZONE);
    zones.retain(|zone| region_of_zone(zone).is_some_and(|of| of == region));
    zones.into_iter().collect()
}

/// The region of a zone: of `us-west-2a` as of the local zone `us-west-2-lax-1a` what ends with the first number.
fn region_of_zone(zone: &str) -> Option<String> {
    let digit = zone.find(|one: char| one.is_ascii_digit())?;
    let rest = &zone[digit..];
    let number = rest.find(|one: char| !one.is_ascii_digit())?;
    zone[..digit].ends_with('-').then(|| zone[..digit + number].to_owned())
}

/// The zones that nodes are in, by name.
pub fn zones_of_nodes(objects: &[Value]) -> Vec<String> {
    let nodes = objects.iter().filter(|object| object["kind"] == "Node" && !is_foreign(object));
    let zones = nodes.filter_map(|node| node.pointer("/metadata/labels")?[label::ZONE].as_str());
    zones.collect::<BTreeSet<&str>>().into_iter().map(str::to_owned).collect()
}

/// The values of a label that objects name anywhere: as their own, in selectors, or in requirements of pools, pods and volumes.
fn named<'a>(objects: &'a [Value], key: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Value> = objects.iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get(key).and_then(Value::as_str));
                if fields.get("key").is_some_and(|named| named == key) {
                    let values = fields.get("values").and_then(Value::as_array);
                    found.extend(values.into_iter().flatten().filter_map(Value::as_str));
                }
                open.extend(fields.values());
            }
            Value::Array(values) => open.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}

/// Gives every EC2NodeClass without a status one, with a subnet in each of `zones`; returns the names of those that are ready by
/// it. One with a fault that the provider refuses is not.
pub fn resolve(
    objects: &mut [Value],
    zones: &[String],
    faults: impl Fn(&Value) -> Vec<ClassFault>,
) -> Vec<String> {
    let is_class = |one: &Value| one["kind"] == "EC2NodeClass" && !is_foreign(one);
    let is_resolved = |one: &Value| one.get("status").is_some_and(|status| !status.is_null());
    // One that an API server refuses is not there, so nothing resolves it.
    let is_open = |one: &Value| is_class(one) && !is_resolved(one) && refusals(one).is_empty();
    let ids = zone_ids(objects);
    let unresolved = objects.iter_mut().filter(|one| is_open(one));
    let resolve = |class: &mut Value| {
        let subnets = zones.iter().map(|zone| {
            let id = ids.get(zone).cloned().or_else(|| likely_id(zone));
            json!({"id": format!("subnet-{zone}"), "zone": zone, "zoneID": id})
        });
        let subnets: Vec<Value> = subnets.collect();
        let refused: Vec<String> = faults(class).iter().filter(|fault| fault.refused).map(said).collect();
        let ready = if refused.is_empty() { "True" } else { "False" };
        class["status"] = json!({
            "subnets": subnets,
            "conditions": [{"type": condition::READY, "status": ready, "reason": condition::READY,
                "message": refused.join("; "), "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        });
        refused.is_empty().then(|| text(class, "/metadata/name").to_owned())
    };
    unresolved.filter_map(resolve).collect()
}

/// The ids of the zones that nodes are in, as their labels tell.
fn zone_ids(objects: &[Value]) -> BTreeMap<String, String> {
    let nodes = objects.iter().filter(|object| object["kind"] == "Node" && !is_foreign(object));
    let labels = nodes.filter_map(|node| node.pointer("/metadata/labels"));
    let both = labels.filter_map(|labels| {
        Some((labels[label::ZONE].as_str()?.to_owned(), labels[label::aws::ZONE_ID].as_str()?.to_owned()))
    });
    both.collect()
}

/// An id that the zone may have: accounts number their zones in orders of their own, here it is that of the letters.
fn likely_id(zone: &str) -> Option<String> {
    let region = region_of_zone(zone)?;
    let letter = zone.strip_prefix(&region)?.bytes().next().filter(u8::is_ascii_lowercase)?;
    Some(zone_id(&region, u32::from(letter - b'a') + 1))
}

fn said(fault: &ClassFault) -> String {
    format!("`{}`: {}; {}", fault.field, fault.problem, fault.remedy)
}

#[cfg(test)]
mod tests {
    use karpenter_testkit::objects::node_class;

    use super::*;

    fn class(name: &str) -> Value {
        node_class(name, "demo", &json!({}))
    }

    #[test]
    fn the_region_is_that_of_the_zones_objects_name() {
        let node = json!({"kind": "Node", "metadata": {"labels": {label::ZONE: "eu-west-1b"}}});
        assert_eq!(region_of(std::slice::from_ref(&node)).as_deref(), Some("eu-west-1"));
        assert_eq!(zones_of_nodes(&[node]), ["eu-west-1b"]);
        let pool = json!({"kind": "NodePool", "spec": {"template": {"spec": {"requirements": [
            {"key": label::ZONE, "operator": "In", "values": ["us-east-2a"]},
        ]}}}});
        assert_eq!(region_of(&[pool]).as_deref(), Some("us-east-2"));
        let pod = json!({"kind": "Pod", "spec": {"nodeSelector": {label::ZONE: "eu-north-1a"}}});
        assert_eq!(zones_named(std::slice::from_ref(&pod), "eu-north-1"), ["eu-north-1a"]);
        assert_eq!(zones_named(std::slice::from_ref(&pod), "eu-north-2"), [""; 0]);
        assert_eq!(region_of(&[pod]).as_deref(), Some("eu-north-1"));
        let of_region = json!({"kind": "NodePool", "spec": {"template": {"metadata": {"labels": {label::REGION: "sa-east-1"}}}}});
        assert_eq!(region_of(&[of_region]).as_deref(), Some("sa-east-1"));
        assert_eq!(region_of(&[json!({"kind": "Pod"})]), None);
        let zones =
            [("us-west-2-lax-1a", "us-west-2"), ("us-gov-west-1a", "us-gov-west-1"), ("use1-az1", "")];
        for (zone, region) in zones {
            assert_eq!(region_of_zone(zone).unwrap_or_default(), region, "{zone}");
        }
    }

    #[test]
    fn only_classes_without_status_are_resolved() {
        let mut objects = [class("a"), class("b"), class("refused")];
        objects[2]["spec"]["instanceProfile"] = json!("nodes");
        objects[1]["status"] = json!({"conditions": []});
        assert_eq!(resolve(&mut objects, &["z-1a".to_owned()], |_| Vec::new()), ["a"]);
        assert_eq!(objects[0]["status"]["subnets"][0]["zone"], "z-1a");
        assert_eq!(objects[1]["status"], json!({"conditions": []}));
        assert!(objects[2]["status"].is_null());
    }

    #[test]
    fn zones_have_the_ids_of_their_nodes_and_likely_ones_elsewhere() {
        let labels = json!({label::ZONE: "us-west-2a", label::aws::ZONE_ID: "usw2-az2"});
        let mut objects = [class("a"), json!({"kind": "Node", "metadata": {"labels": labels}})];
        let zones = ["us-west-2a", "us-west-2c", "us-west-2-lax-1a"].map(str::to_owned);
        resolve(&mut objects, &zones, |_| Vec::new());
        let subnets = objects[0]["status"]["subnets"].as_array().unwrap();
        let ids: Vec<&Value> = subnets.iter().map(|subnet| &subnet["zoneID"]).collect();
        assert_eq!(ids, [&json!("usw2-az2"), &json!("usw2-az3"), &Value::Null]);
    }

    #[test]
    fn a_class_that_the_provider_refuses_is_not_ready() {
        let class = class("a");
        for (refused, ready) in [(true, "False"), (false, "True")] {
            let fault = ClassFault {
                field: "spec.userData",
                problem: "no TOML".to_owned(),
                remedy: "correct it",
                refused,
            };
            let mut objects = [class.clone()];
            let resolved = resolve(&mut objects, &["z-1a".to_owned()], |_| vec![fault.clone()]);
            assert_eq!(resolved.is_empty(), refused);
            let condition = &objects[0]["status"]["conditions"][0];
            assert_eq!(condition["status"], ready);
            assert_eq!(
                condition["message"],
                if refused { "`spec.userData`: no TOML; correct it" } else { "" }
            );
        }
    }
}
