//! Machines that a cloud would make of the launches of a plan, for tests of what the next pass does.

use std::sync::Arc;

use fastrand::Rng;
use karpenter_model::names::label;
use karpenter_model::{
    Claim, Condition, ConditionStatus, ConditionType, InstanceType, Labels, Launch, Node, Offering,
    Requirements, Snapshot,
};

/// The machine that `launch` becomes, of any type and through any offering it allows: launched, without a Node yet.
pub fn launched(launch: &Launch, name: &str, snapshot: &Snapshot, rng: &mut Rng) -> Node {
    let (kind, offering) = sold(launch, snapshot, rng);
    let mut labels = launch.labels.clone();
    for requirements in [&launch.requirements, &kind.requirements, &offering.requirements] {
        labels.extend(certain(requirements));
    }
    labels.insert(label::HOSTNAME.into(), name.into());
    let mut claim = Claim {
        pool: Some(launch.pool.clone()),
        node_class: launch.node_class.clone(),
        labels,
        annotations: launch.annotations.clone(),
        requirements: launch.requirements.clone(),
        taints: launch.taints.clone(),
        startup_taints: launch.startup_taints.clone(),
        requests: launch.requests.clone(),
        provider_id: Some(name.into()),
        capacity: kind.capacity.replaced_by(&offering.capacity_override),
        allocatable: kind.allocatable_through(offering),
        ..Claim::bare(name, snapshot.now)
    };
    reach(&mut claim, ConditionType::Launched, snapshot);
    Node { claim: Some(Arc::new(claim)), ..Node::new(name.into(), snapshot.now) }
}

/// Returns the machine with its Node, which is ready for pods.
pub fn initialized(machine: &Node, snapshot: &Snapshot) -> Node {
    let Some(claim) = &machine.claim else { return machine.clone() };
    let mut claim = (**claim).clone();
    let mut labels = claim.labels.clone();
    for (key, kind) in
        [(label::REGISTERED, ConditionType::Registered), (label::INITIALIZED, ConditionType::Initialized)]
    {
        labels.insert(key.into(), "true".into());
        reach(&mut claim, kind, snapshot);
    }
    Node {
        name: Some(machine.id.as_str().into()),
        provider_id: claim.provider_id.clone(),
        labels,
        taints: claim.taints.clone(),
        capacity: claim.capacity.clone(),
        allocatable: claim.allocatable.clone(),
        ready: true,
        claim: Some(Arc::new(claim)),
        ..machine.clone()
    }
}

/// A type and an offering of it that `launch` allows.
fn sold<'s>(launch: &'s Launch, snapshot: &'s Snapshot, rng: &mut Rng) -> (&'s InstanceType, &'s Offering) {
    let types = snapshot.instance_types.get(&launch.pool).into_iter().flat_map(|types| types.iter());
    let allowed = types.filter(|kind| launch.instance_types.contains(&kind.name));
    let offerings: Vec<(&InstanceType, &Offering)> = allowed
        .flat_map(|kind| {
            let sold = kind.compatible_offerings(&launch.requirements, &snapshot.registry);
            sold.map(|offering| (&**kind, offering))
        })
        .filter(|(kind, offering)| launch.requests.fits(&kind.allocatable_through(offering)))
        .collect();
    assert!(!offerings.is_empty(), "nothing that {} allows is for sale", launch.bin);
    offerings[rng.usize(0..offerings.len())]
}

/// Labels that `requirements` leave no choice about.
fn certain(requirements: &Requirements) -> Labels {
    let only = requirements.iter().filter_map(|requirement| {
        let values = requirement.concrete().filter(|values| values.len() == 1)?;
        Some((requirement.key().clone(), values.first()?.clone()))
    });
    only.collect()
}

fn reach(claim: &mut Claim, kind: ConditionType, snapshot: &Snapshot) {
    claim.conditions.insert(kind, Condition::since(snapshot.now, ConditionStatus::True, kind.as_str()));
}
