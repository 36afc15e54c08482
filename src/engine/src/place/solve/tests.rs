//! What is counted while pods get their places is what one would count afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{Node, Pod, Snapshot, Target};
use karpenter_testkit::small;

use super::Solver;

/// Worlds of each kind, unless the environment asks for more.
const SEEDS: u64 = 60;

/// `snapshot` as it is once every pod is where the plan says. Only existing nodes may take pods.
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
