//! Limits of pools: all machines of a pool together have no more cores than the pool may have.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::Instance;
use karpenter_kube_sim::apiserver::object;
use karpenter_model::names::label;
use serde_json::Value;

use super::{Found, Scene, claim_of};

/// Looks at every pool.
pub(super) fn look(scene: &Scene, cores: &BTreeMap<String, u32>, found: &mut Found) {
    for pool in scene.pools.values() {
        let Some(limit) = limit(pool) else { continue };
        let name = object::name(pool);
        // A machine that leaves may be replaced before it is gone; one without claim is the collector's.
        let counted = scene.alive().filter(|instance| {
            instance.tags.get(label::NODE_POOL).is_some_and(|pool| pool == name)
                && scene.claim(claim_of(instance)).is_some_and(|claim| !object::is_deleting(claim))
                && !leaves(scene, instance)
        });
        let used: u32 =
            counted.map(|instance| cores.get(instance.instance_type.as_str()).copied().unwrap_or(0)).sum();
        if used > limit {
            found.push(("limit", format!("pool {name} may have {limit} cores and has {used}")));
        }
    }
}

/// Returns whether the Node of an instance was chosen for disruption, even if it stays after all: what was launched in its
/// place before that stays too.
fn leaves(scene: &Scene, instance: &Instance) -> bool {
    scene.chosen.iter().any(|provider_id| provider_id.ends_with(instance.id.as_str()))
}

fn limit(pool: &Value) -> Option<u32> {
    let cpu = pool.pointer("/spec/limits/cpu")?;
    cpu.as_str().map_or_else(|| cpu.as_u64().and_then(|n| u32::try_from(n).ok()), |text| text.parse().ok())
}
