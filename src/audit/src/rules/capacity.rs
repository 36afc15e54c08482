//! Pods and daemons fit on every instance type a claim may become, through an offering it may be launched with.

use karpenter_model::{InstanceType, Launch, Resources};

use crate::finding::{Finding, Rule};
use crate::world::World;

pub(crate) fn check_launch(world: &World<'_>, launch: &Launch, findings: &mut Vec<Finding>) {
    if world.pool(&launch.pool).is_none() {
        return;
    }
    let pods: Resources = world.pods_of(launch).iter().map(|pod| &pod.requests).sum();
    let types = world.types_with_daemons(launch);
    // What devices stand for is theirs to limit.
    let counted = |of: &InstanceType| world.snapshot.devices.counted(&pods, &of.allocatable());
    for (instance_type, daemons) in &types {
        let total = counted(instance_type).merge(&daemons.requests);
        let mut offerings = instance_type.compatible_offerings(&launch.requirements, world.registry());
        if !offerings.any(|offering| total.fits(&instance_type.allocatable_through(offering))) {
            let detail = format!("{total} does not fit on type `{}`", instance_type.name);
            findings.push(Finding::new(Rule::Capacity, launch.bin, detail));
        }
    }
    let pods = types.first().map_or_else(|| pods.clone(), |(first, _)| counted(first));
    // Types may have been cut from the list, so the overhead may be less than the least that is left.
    let most = pods.merge(&Resources::min(types.iter().map(|(_, daemons)| &daemons.requests)));
    let enough = pods.iter().all(|(name, quantity)| launch.requests.amount(name.as_str()) >= *quantity);
    let too_much = launch.requests.iter().any(|(name, quantity)| *quantity > most.amount(name.as_str()));
    if !enough || too_much {
        let detail = format!("requests {} do not lie between {pods} and {most}", launch.requests);
        findings.push(Finding::new(Rule::Capacity, launch.bin, detail));
    }
}
