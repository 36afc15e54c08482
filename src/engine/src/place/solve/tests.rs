//! Counts kept while pods get their places equal those made afterwards, and changes to the plan after that cost no
//! pod its place.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Node, Pod, Quantity, Snapshot, Target};
use karpenter_testkit::world::{self, Mix};
use karpenter_testkit::{crowd, small};

use super::Solver;

/// Worlds of each kind, unless the environment asks for more.
const SEEDS: u64 = 60;

/// Returns `snapshot` with every pod where the plan places it. Only existing nodes may take pods.
fn settled(snapshot: &Snapshot) -> Snapshot {
    let mut world = snapshot.clone();
    let (plan, _) = crate::plan(snapshot);
    for nomination in &plan.nominations {
        let everywhere = snapshot.pending.iter().chain(snapshot.nodes.iter().flat_map(|node| &node.pods));
        let pod = everywhere.into_iter().find(|pod| pod.key == nomination.pod);
        let pod = pod.expect("invariant: nominated pods exist");
        world.pending.retain(|pending| pending.key != pod.key);
        for node in world.nodes.iter_mut().map(Arc::make_mut) {
            node.pods.retain(|bound| bound.key != pod.key);
            if is_target(node, &nomination.target) {
                let name = Some(node.display_name().into());
                node.pods.push(Arc::new(Pod { node_name: name, unschedulable: false, ..(**pod).clone() }));
            }
        }
    }
    // The others stay as they are: next to pods that run there may be a place that is none next to pods that the scheduler
    // may bind last.
    for pod in world.pending.iter_mut().map(Arc::make_mut) {
        pod.requests.set("cpu", Quantity::from_units(1 << 20));
    }
    world
}

fn is_target(node: &Node, target: &Target) -> bool {
    match target {
        Target::Node(name) => node.name.as_ref() == Some(name),
        Target::Claim(name) => node.claim.as_ref().is_some_and(|claim| claim.name == *name),
    }
}

/// Counts of every group once the pods that wait have their places.
fn counted(snapshot: &Snapshot) -> BTreeSet<String> {
    let nodes: Vec<&Node> = snapshot.nodes.iter().map(AsRef::as_ref).collect();
    Solver::reversible(snapshot, &nodes, |_| false).0.filling.topology.counted()
}

#[test]
fn counts_are_those_of_the_places_pods_have_got() {
    let mut placed = 0;
    for (seed, mut snapshot) in (0..karpenter_testkit::seeds(SEEDS))
        .flat_map(|seed| [(seed, small::world(seed)), (seed, small::social(seed))])
    {
        snapshot.pools.clear();
        let after = settled(&snapshot);
        placed += snapshot.pending.len() - after.pending.len();
        assert_eq!(counted(&snapshot), counted(&after), "seed {seed}");
    }
    assert!(placed > 20, "only {placed} pods got a place");
}

/// A solver with every pod of `snapshot` where first-fit puts it.
fn placed(snapshot: &Snapshot) -> Solver<'_> {
    let mut solver = Solver::new(snapshot);
    let waiting = solver.keep_promises(solver.compiled.queue.positions().collect());
    solver.place_all(waiting);
    solver.repack();
    solver
}

/// Returns whether `snapshot` has a pool with limits.
fn is_limited(snapshot: &Snapshot) -> bool {
    snapshot.pools.iter().any(|pool| pool.limits.is_some())
}

#[test]
fn mixing_pods_costs_no_pod_its_place_and_is_never_more_expensive() {
    let kinds = [crowd::crowd, small::world, small::social, small::attached];
    let (mut cheaper, mut cheaper_within_limits) = (0, 0);
    for (seed, kind) in (0..karpenter_testkit::seeds(SEEDS)).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let snapshot = kind(seed);
        let mut solver = placed(&snapshot);
        let pods = solver.compiled.queue.len();
        let (before, whereabouts) = (solver.price(), solver.filling.whereabouts(pods));
        solver.mix();
        assert_eq!(solver.filling.whereabouts(pods), whereabouts, "seed {seed}");
        let on_nodes = solver.filling.in_flight.iter().map(|node| node.pods.len()).sum::<usize>();
        assert_eq!(on_nodes, whereabouts.1.len(), "seed {seed}: each pod is on one node");
        let after = solver.price();
        assert!(after <= before, "seed {seed}: {after:?} is more than {before:?}");
        cheaper += u32::from(after < before);
        cheaper_within_limits += u32::from(after < before && is_limited(&snapshot));
    }
    assert!(cheaper >= 10 && cheaper_within_limits >= 3, "cheaper in {cheaper}, {cheaper_within_limits}");
}

#[test]
fn keeping_apart_costs_no_pod_its_place_and_is_never_more_expensive() {
    let (mut cheaper, mut cheaper_within_limits) = (0, 0);
    for seed in 0..karpenter_testkit::seeds(SEEDS) * 2 {
        let snapshot = crowd::crowd(seed);
        let mut solver = placed(&snapshot);
        let pods = solver.compiled.queue.len();
        let (before, (whereabouts, _)) = (solver.price(), solver.filling.whereabouts(pods));
        solver.keep_apart(&Solver::new(&snapshot).filling);
        let (after, (whereabouts_after, _)) = (solver.price(), solver.filling.whereabouts(pods));
        assert!(whereabouts.is_within(&whereabouts_after), "seed {seed}: a pod has lost its place");
        assert!(after <= before, "seed {seed}: {after:?} is more than {before:?}");
        cheaper += u32::from(after < before);
        cheaper_within_limits += u32::from(after < before && is_limited(&snapshot));
    }
    assert!(cheaper > 5 && cheaper_within_limits > 1, "cheaper in {cheaper}, {cheaper_within_limits}");
}

#[test]
fn rearranging_costs_no_pod_its_place_and_is_never_more_expensive() {
    let kinds: [fn(u64) -> Snapshot; 4] = [
        small::social,
        crowd::crowd,
        |seed| world::pending(120, 20, Mix::Topology, seed),
        |seed| world::pending(120, 20, Mix::Diverse, seed),
    ];
    let (mut cheaper, mut asked) = (0, 0);
    for (seed, kind) in
        (0..karpenter_testkit::seeds(SEEDS) / 5).flat_map(|seed| kinds.map(|kind| (seed, kind)))
    {
        let snapshot = kind(seed);
        let empty = Solver::new(&snapshot);
        if !empty.may_rearrange() {
            continue;
        }
        let mut solver = placed(&snapshot);
        let pods = solver.compiled.queue.len();
        let (before, (whereabouts, _)) = (solver.price(), solver.filling.whereabouts(pods));
        solver.rearrange(&empty.filling);
        let (after, (whereabouts_after, _)) = (solver.price(), solver.filling.whereabouts(pods));
        assert!(whereabouts.is_within(&whereabouts_after), "seed {seed}: a pod has lost its place");
        let on_nodes = solver.filling.in_flight.iter().map(|node| node.pods.len()).sum::<usize>();
        let joined = solver.filling.joined.len();
        assert_eq!(on_nodes + joined, solver.filling.placed, "seed {seed}: each pod is in one place");
        assert!(after <= before, "seed {seed}: {after:?} is more than {before:?}");
        asked += 1;
        cheaper += u32::from(after < before);
    }
    assert!(cheaper >= 8, "cheaper in {cheaper} of {asked}");
}
