//! Nodes go before what takes their place only where nothing can be staged (core #3312).

use karpenter_model::{CapacityType, Command, DisruptionReason, InstanceType, Node, Pod, PodKey, resources};

use crate::world::World;

/// Returns the errors in a command that claims to have to remove its machines first.
pub(crate) fn check(world: &World<'_>, command: &Command) -> Vec<String> {
    if !command.terminate_first {
        return Vec::new();
    }
    let mut wrong = Vec::new();
    let gates = &world.snapshot.settings.gates;
    let allowed = match command.reason {
        DisruptionReason::Drifted => gates.terminate_first_drift,
        DisruptionReason::Unhealthy => gates.terminate_first_repair,
        DisruptionReason::Empty | DisruptionReason::Underutilized => false,
    };
    if !allowed {
        wrong.push("terminates first although that is switched off".to_owned());
    }
    if !command.replacements.is_empty() {
        wrong.push("terminates first and launches a replacement".to_owned());
    }
    let [gone] = &command.candidates[..] else { return wrong };
    let (Some(pool), Some(node)) = (world.pool(&gone.pool), world.machine(&gone.target.id)) else {
        return wrong;
    };
    if pool.replicas.is_some() {
        let limit = pool.limits.as_ref().and_then(|limits| limits.get(resources::NODES));
        let claims = world.snapshot.nodes.iter().filter_map(|node| node.claim.as_ref());
        let there = claims.filter(|claim| claim.pool.as_ref() == Some(&pool.name)).count();
        let room = limit.is_none_or(|limit| limit.as_units_ceil() > i64::try_from(there).unwrap_or(i64::MAX));
        if room {
            wrong.push("terminates first although the limit has room for a replacement".to_owned());
        }
        if !pool.ready || pool.deleting {
            wrong.push("terminates first although its pool cannot launch what takes its place".to_owned());
        }
    } else if !is_in_full_reservation(world, node) {
        wrong.push("terminates first although its node is in no full reservation".to_owned());
    }
    wrong
}

/// Returns whether `pod` could be on a node like the removed one, which its instance will be again.
pub(crate) fn fits(world: &World<'_>, command: &Command, pod: &PodKey) -> bool {
    command.candidates.iter().any(|gone| {
        let known = world.snapshot.instance_types.values().flat_map(|types| types.iter());
        let known: Option<&InstanceType> =
            known.map(AsRef::as_ref).find(|known| Some(&known.name) == gone.instance_type.as_ref());
        let pod: Option<&Pod> = world.pod(pod);
        known.zip(pod).is_some_and(|(known, pod)| pod.requests.fits(&known.allocatable()))
    })
}

fn is_in_full_reservation(world: &World<'_>, node: &Node) -> bool {
    let key = world.registry().reservation_id.as_ref();
    let id = key.and_then(|key| node.effective_labels().get(key).map(ToString::to_string));
    let types = world.snapshot.instance_types.values().flat_map(|types| types.iter());
    let mut own = types.flat_map(|known| &known.offerings).filter(|offering| {
        let reservation = offering.reservation.as_ref().map(|one| one.id.to_string());
        reservation.is_some() && reservation == id
    });
    node.capacity_type() == Some(CapacityType::Reserved)
        && own.any(|offering| {
            offering.available && offering.reservation.as_ref().is_some_and(|one| one.count == 0)
        })
}
