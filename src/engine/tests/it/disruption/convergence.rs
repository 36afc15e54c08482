//! Left alone, disruption comes to an end: carrying out what it decides again and again loses no pod, never makes the
//! cluster more expensive except to replace what drifted, and soon finds nothing more to do.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::names::label;
use karpenter_model::{
    Claim, Command, Condition, ConditionStatus, ConditionType, DisruptionReason, Launch, Node, NodeId, Pod,
    PodKey, Snapshot,
};
use karpenter_testkit::disruptable;

use crate::promises::names;

/// More steps than any of the generated clusters needs.
const STEPS: usize = 20;

/// Pods that would have to move somewhere if their machine went.
fn running(snapshot: &Snapshot) -> BTreeSet<PodKey> {
    let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
    pods.filter(|pod| snapshot.currently_reschedulable(pod)).map(|pod| pod.key.clone()).collect()
}

/// The machine `launch` becomes when it is bought the cheapest way.
pub(super) fn bought(launch: &Launch, name: &str, snapshot: &Snapshot) -> Node {
    let types = &snapshot.instance_types[&launch.pool];
    let cheapest = launch.cheapest.as_ref();
    let wanted = cheapest.map(|offering| &offering.instance_type);
    let known = types.iter().find(|known| Some(&known.name) == wanted).unwrap_or(&types[0]);
    let mut labels = launch.labels.clone();
    labels.insert(label::HOSTNAME.into(), name.into());
    labels.insert(label::INSTANCE_TYPE.into(), known.name.as_str().into());
    for key in [label::REGISTERED, label::INITIALIZED] {
        labels.insert(key.into(), "true".into());
    }
    if let Some(offering) = cheapest {
        labels.insert(label::ZONE.into(), offering.zone.as_str().into());
        labels.insert(label::CAPACITY_TYPE.into(), offering.capacity_type.as_str().into());
    }
    let since = snapshot.now - SignedDuration::from_hours(1);
    let template =
        snapshot.nodes.iter().find_map(|node| node.claim.as_deref()).expect("invariant: one is managed");
    let condition = |kind: ConditionType| Condition {
        status: ConditionStatus::True,
        reason: kind.to_string(),
        message: String::new(),
        last_transition: since,
        observed_generation: 1,
    };
    let claim = Claim {
        name: format!("{}-{name}", launch.pool).into(),
        pool: Some(launch.pool.clone()),
        labels: labels.clone(),
        requirements: launch.requirements.clone(),
        taints: launch.taints.clone(),
        termination_grace_period: launch.termination_grace_period,
        conditions: [ConditionType::Launched, ConditionType::Registered, ConditionType::Initialized]
            .map(|kind| (kind, condition(kind)))
            .into(),
        ..template.clone()
    };
    Node {
        name: Some(name.into()),
        claim: Some(Arc::new(claim)),
        labels,
        taints: launch.taints.clone(),
        capacity: known.capacity.clone(),
        allocatable: known.allocatable(),
        ready: true,
        ..Node::new(name.into(), since)
    }
}

/// `snapshot` once `commands` have been carried out; new machines are named after `step`.
pub(super) fn carried_out(snapshot: &Snapshot, commands: &[Command], step: usize) -> Snapshot {
    let mut after = snapshot.clone();
    let gone: BTreeSet<&NodeId> = commands.iter().flat_map(Command::nodes).collect();
    let leaving = snapshot.nodes.iter().filter(|node| gone.contains(&node.id));
    let homeless: Vec<&Arc<Pod>> =
        leaving.flat_map(|node| &node.pods).filter(|pod| snapshot.currently_reschedulable(pod)).collect();
    after.nodes.retain(|node| !gone.contains(&node.id));
    for (number, launch) in commands.iter().flat_map(|command| &command.replacements).enumerate() {
        let mut node = bought(launch, &format!("new-{step}-{number}"), snapshot);
        let waiting = after.pending.iter().chain(homeless.iter().copied());
        node.pods = waiting.filter(|pod| launch.pods.contains(&pod.key)).cloned().collect();
        after.pending.retain(|pod| !launch.pods.contains(&pod.key));
        after.nodes.push(Arc::new(node));
    }
    for nomination in commands.iter().flat_map(|command| &command.nominations) {
        let node = after.nodes.iter_mut().find(|node| names(node, &nomination.target));
        let pod = homeless.iter().find(|pod| pod.key == nomination.pod);
        if let (Some(node), Some(pod)) = (node, pod) {
            Arc::make_mut(node).pods.push(Arc::clone(pod));
        }
    }
    for node in &mut after.nodes {
        let node = Arc::make_mut(node);
        let name = node.name.clone();
        for pod in &mut node.pods {
            *pod = Arc::new(Pod { node_name: name.clone(), unschedulable: false, ..(**pod).clone() });
        }
    }
    after.revision += 1;
    after
}

#[test]
fn disruption_comes_to_an_end_and_loses_nobody() {
    for seed in 0..300 {
        let mut snapshot = disruptable::cluster(seed);
        Arc::make_mut(&mut snapshot.settings).disruption.brakes.commands_per_minute = 0;
        let memory = &mut Memory::default();
        let before = running(&snapshot);
        let mut trail = Vec::new();
        for step in 0..STEPS {
            let standing = Standing { proposed: &[], running: &BTreeSet::new() };
            let commands = decide(&snapshot, memory, &standing).commands.clone();
            if commands.is_empty() {
                break;
            }
            for command in commands.iter().filter(|command| command.reason != DisruptionReason::Drifted) {
                assert!(command.savings.nanos() >= 0, "seed {seed}: {command:#?}");
            }
            // Static machines move no pods by themselves, and empty ones have no pods that count.
            snapshot = carried_out(&snapshot, &commands, step);
            trail.push(commands.iter().map(|command| format!("{:?}", command.method)).collect::<Vec<_>>());
        }
        assert!(trail.len() < STEPS, "seed {seed}: {trail:#?}\n{}", disruptable::text(seed));
        let quiet = |method: &str| trail.iter().flatten().all(|one| one != method);
        if quiet("StaticDrift") && quiet("Emptiness") {
            let after = running(&snapshot);
            let lost: Vec<_> = before.difference(&after).collect();
            assert!(lost.is_empty(), "seed {seed}: {lost:?} {trail:?}\n{}", disruptable::text(seed));
        }
    }
}
