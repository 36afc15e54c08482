//! Rules of pods about each other and about nodes.

use fastrand::Rng;
use karpenter_model::names::label;
use serde_json::{Value, json};

use super::{NAMESPACES, happens, one};
use crate::catalogue::ZONES;

/// A label that pods of one app may differ in; selectors name it by label keys alone.
pub(super) const REVISION: &str = "revision";

const HOST: &str = label::HOSTNAME;
const ZONE: &str = label::ZONE;
const CAPACITY_TYPE: &str = label::CAPACITY_TYPE;

/// A selector of pods: mostly of the own app, else of another one, of several, or by a label they share.
fn selector(app: usize, apps: usize, rng: &mut Rng) -> Value {
    let other = rng.usize(0..apps);
    match rng.u32(0..10) {
        0..=4 => json!({"matchLabels": {"app": format!("a{app}")}}),
        5..=6 => json!({"matchLabels": {"app": format!("a{other}")}}),
        7 => json!({"matchLabels": {"tier": one(rng, &["p", "q"])}}),
        8 => json!({"matchExpressions": [{"key": "app", "operator": "In",
            "values": [format!("a{app}"), format!("a{other}")]}]}),
        _ => json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [format!("a{app}")]},
            {"key": "tier", "operator": "Exists"}]}),
    }
}

/// Spread constraints.
pub(super) fn spreads(app: usize, apps: usize, rng: &mut Rng) -> Vec<Value> {
    let mut keys = vec![ZONE, HOST, CAPACITY_TYPE];
    let count = *one(rng, &[0, 0, 1, 1, 2]);
    let drawn = (0..count).map(|_| {
        let usual = if happens(rng, 85) { 2.min(keys.len()) } else { keys.len() };
        let key = keys.remove(rng.usize(0..usual));
        let hard = happens(rng, 85);
        let mut spread = json!({
            "maxSkew": rng.u32(1..=2), "topologyKey": key, "labelSelector": selector(app, apps, rng),
            "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" },
        });
        if hard && happens(rng, 15) {
            spread["minDomains"] = json!(rng.u32(1..=4));
        }
        if happens(rng, 15) {
            spread["nodeAffinityPolicy"] = json!(one(rng, &["Ignore", "Honor"]));
        }
        if happens(rng, 15) {
            spread["nodeTaintsPolicy"] = json!(one(rng, &["Ignore", "Honor"]));
        }
        if happens(rng, 15) {
            spread["matchLabelKeys"] = json!([REVISION]);
        }
        spread
    });
    drawn.collect()
}

/// Affinity of every kind; `None` for most pods.
pub(super) fn affinity(app: usize, apps: usize, rng: &mut Rng) -> Option<Value> {
    let mut affinity = json!({});
    if happens(rng, 15) {
        let (field, term) = weighted(pod_term(app, apps, rng), "podAffinityTerm", 75, rng);
        affinity["podAffinity"] = json!({field: [term]});
    }
    if happens(rng, 20) {
        let (field, term) = weighted(pod_term(app, apps, rng), "podAffinityTerm", 75, rng);
        affinity["podAntiAffinity"] = json!({field: [term]});
    }
    if happens(rng, 20) {
        affinity["nodeAffinity"] = if happens(rng, 75) {
            let terms: Vec<Value> = (0..rng.usize(1..=2)).map(|_| node_term(rng)).collect();
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
        } else {
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": node_term(rng)}]})
        };
    }
    (affinity != json!({})).then_some(affinity)
}

/// Returns the term as a required one, in `percent` of a hundred cases, or as a preferred one.
fn weighted(term: Value, field: &str, percent: u32, rng: &mut Rng) -> (&'static str, Value) {
    if happens(rng, percent) {
        ("requiredDuringSchedulingIgnoredDuringExecution", term)
    } else {
        ("preferredDuringSchedulingIgnoredDuringExecution", json!({"weight": 10, field: term}))
    }
}

fn pod_term(app: usize, apps: usize, rng: &mut Rng) -> Value {
    let key = one(rng, &[ZONE, HOST, HOST, ZONE, CAPACITY_TYPE]);
    let mut term = json!({"topologyKey": key, "labelSelector": selector(app, apps, rng)});
    match rng.u32(0..10) {
        0 => term["namespaces"] = json!(NAMESPACES.map(|(name, _)| name)),
        1 => term["namespaceSelector"] = json!({}),
        2 => term["namespaceSelector"] = json!({"matchLabels": {"color": "blue"}}),
        3 => term["matchLabelKeys"] = json!([REVISION]),
        4 => term["mismatchLabelKeys"] = json!([REVISION]),
        _ => {}
    }
    term
}

fn node_term(rng: &mut Rng) -> Value {
    let expressions: Vec<Value> = (0..rng.usize(1..=2)).map(|_| expression(rng)).collect();
    json!({"matchExpressions": expressions})
}

fn expression(rng: &mut Rng) -> Value {
    match rng.u32(0..7) {
        0 => json!({"key": ZONE, "operator": "In", "values": ZONES[1..]}),
        1 => json!({"key": ZONE, "operator": "NotIn", "values": [one(rng, &ZONES)]}),
        2 => json!({"key": CAPACITY_TYPE, "operator": "In", "values": [one(rng, &["spot", "on-demand"])]}),
        3 => json!({"key": label::aws::INSTANCE_CPU, "operator": "Gt", "values": ["2"]}),
        4 => json!({"key": "example.com/rack", "operator": one(rng, &["Exists", "DoesNotExist"])}),
        5 => json!({"key": "tier", "operator": "In", "values": [one(rng, &["general", "team"])]}),
        _ => {
            json!({"key": label::ARCH, "operator": "In", "values": [one(rng, &["amd64", "arm64"])]})
        }
    }
}

/// Labels of the node; none for most pods.
pub(super) fn node_selector(rng: &mut Rng) -> Option<Value> {
    happens(rng, 20).then(|| match rng.u32(0..5) {
        0 | 1 => json!({ZONE: one(rng, &ZONES)}),
        2 => json!({(label::ARCH): one(rng, &["amd64", "arm64"])}),
        3 => json!({CAPACITY_TYPE: one(rng, &["spot", "on-demand"])}),
        _ => json!({"example.com/rack": one(rng, &["r1", "r2"])}),
    })
}
