//! Pools: one that takes all pods, and perhaps others beside it that are narrower, tainted or preferred.

use fastrand::Rng;
use karpenter_model::names::label;
use serde_json::{Value, json};

use super::{happens, one};
use crate::catalogue::{ZONES, pool};

/// The taint of the pool that only some pods tolerate, and of nodes like its own.
pub(super) const TEAM: &str = "team";

pub(super) fn draw(rng: &mut Rng) -> Vec<Value> {
    let mut first = pool("general", &json!({"requirements": requirements(rng)}));
    first["spec"]["template"]["metadata"]["labels"] = json!({"tier": "general"});
    if happens(rng, 10) {
        first["spec"]["limits"] = json!({"cpu": rng.u32(4..16)});
    }
    let mut pools = vec![first];
    if happens(rng, 40) {
        let mut second = pool("team", &json!({"requirements": requirements(rng)}));
        second["spec"]["template"]["metadata"]["labels"] = json!({"tier": "team"});
        if happens(rng, 60) {
            let effect = if happens(rng, 80) { "NoSchedule" } else { "PreferNoSchedule" };
            second["spec"]["template"]["spec"]["taints"] =
                json!([{"key": TEAM, "value": "red", "effect": effect}]);
        }
        if happens(rng, 50) {
            second["spec"]["weight"] = json!(rng.u32(1..=100));
        }
        if happens(rng, 20) {
            second["spec"]["template"]["spec"]["startupTaints"] =
                json!([{"key": "example.com/agent", "effect": "NoSchedule"}]);
        }
        pools.push(second);
    }
    if happens(rng, 20) {
        let mut third = pool("first-choice", &json!({"requirements": requirements(rng)}));
        third["spec"]["template"]["metadata"]["labels"] = json!({"tier": one(rng, &["general", "team"])});
        third["spec"]["weight"] = json!(rng.u32(1..=100));
        if happens(rng, 50) {
            third["spec"]["template"]["spec"]["taints"] =
                json!([{"key": "first-choice", "effect": "PreferNoSchedule"}]);
        }
        pools.push(third);
    }
    pools
}

fn requirements(rng: &mut Rng) -> Value {
    let mut requirements = Vec::new();
    let mut ask = |key: &str, operator: &str, values: Vec<&str>| {
        requirements.push(json!({"key": key, "operator": operator, "values": values}));
    };
    match rng.u32(0..4) {
        0 => ask(label::ZONE, "In", ZONES[..2].to_vec()),
        1 => ask(label::ZONE, "NotIn", vec![*one(rng, &ZONES)]),
        _ => {}
    }
    if happens(rng, 60) {
        ask(label::ARCH, "In", vec!["amd64"]);
    }
    match rng.u32(0..3) {
        0 => ask(label::CAPACITY_TYPE, "In", vec!["on-demand"]),
        1 => ask(label::CAPACITY_TYPE, "In", vec!["spot", "on-demand"]),
        _ => {}
    }
    if happens(rng, 30) {
        ask(label::aws::INSTANCE_CPU, "Lt", vec!["5"]);
    }
    if happens(rng, 20) {
        ask("example.com/rack", "In", vec!["r1", "r2"]);
    }
    if happens(rng, 10) {
        let family = json!({"key": label::aws::INSTANCE_FAMILY, "operator": "In", "values": ["m5", "c5", "r5"],
            "minValues": rng.u32(1..=3)});
        return json!(requirements.into_iter().chain([family]).collect::<Vec<_>>());
    }
    json!(requirements)
}
