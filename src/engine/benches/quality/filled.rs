//! A cluster to which plans are applied until the scheduler has bound all its pods.
//!
//! The scheduler binds by its own scores, onto nodes that become ready in some order. The pods that are left over are planned for
//! beside the nodes that are there, and so on. The judge is the planner's own stand-in of the scheduler
//! (`karpenter_engine::bound`), which `src/judge` compares with the real one.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_lifecycle::pods::nomination::nameable;
use karpenter_model::{Launch, Node, NodeId, Plan, Pod, PodKey, PodPhase, Snapshot, Target};
use karpenter_testkit::bought::{initialized, launched};

/// Plans after which no further one is made.
const PLANS: usize = 8;

/// Circumstances in which the scheduler binds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    /// Pods name the node that they were launched for, as far as the controller may have them do so at once.
    pub(crate) named: bool,
    /// Parts in which the nodes of a plan become ready, in the order of the plan.
    pub(crate) parts: usize,
}

/// Binds the pods of `world`, and buys what they need, until all are bound; returns the plans.
pub(crate) fn fill(world: &mut Snapshot, circumstances: Circumstances) -> Vec<Plan> {
    let Circumstances { named, parts, .. } = circumstances;
    bind(world);
    let mut plans = Vec::new();
    for round in 0..PLANS {
        let (plan, _) = karpenter_engine::plan(world);
        if plan.launches.is_empty() {
            break;
        }
        let name = |number: usize| format!("at-{}-{round}-{number:05}", world.now.as_second());
        let promises = if named { names(&plan, world, name) } else { BTreeMap::new() };
        let launches = plan.launches.iter().enumerate();
        let nodes: Vec<Arc<Node>> =
            launches.map(|(number, launch)| Arc::new(ready(launch, &name(number), world))).collect();
        world.promises = Arc::new(promises);
        for part in nodes.chunks(nodes.len().div_ceil(parts)) {
            world.nodes.extend_from_slice(part);
            bind(world);
        }
        plans.push(plan);
    }
    plans
}

/// Returns the price of what `plan` launches, in billionths of a dollar an hour.
pub(crate) fn price_of(plan: &Plan) -> i64 {
    plan.launches.iter().filter_map(|launch| Some(launch.cheapest.as_ref()?.price.nanos())).sum()
}

/// The nodes that pods name, as far as they may be named at once.
fn names(plan: &Plan, world: &Snapshot, name: impl Fn(usize) -> String) -> BTreeMap<PodKey, Target> {
    let pods: BTreeMap<&PodKey, &Pod> = world.pending.iter().map(|pod| (&pod.key, &**pod)).collect();
    let launches = plan.launches.iter().enumerate();
    let named = launches.flat_map(|(number, launch)| {
        let target = Target::Node(name(number).as_str().into());
        let own = launch.pods.iter().filter_map(|key| pods.get(key).copied());
        nameable(own).into_iter().map(move |pod| (pod.key.clone(), target.clone()))
    });
    named.collect()
}

/// The node that `launch` becomes, of its cheapest type.
pub(crate) fn ready(launch: &Launch, name: &str, world: &Snapshot) -> Node {
    let cheapest = launch.cheapest.iter().map(|offering| offering.instance_type.clone());
    let launch = Launch { instance_types: cheapest.collect(), ..launch.clone() };
    initialized(&launched(&launch, name, world, &mut Rng::with_seed(1)), world)
}

/// Binds the pods that wait as far as nodes take them.
fn bind(world: &mut Snapshot) {
    let bound: BTreeMap<PodKey, NodeId> = karpenter_engine::bound(world).into_iter().collect();
    let mut arrived: BTreeMap<NodeId, Vec<Arc<Pod>>> = BTreeMap::new();
    world.pending.retain(|pod| {
        let node = bound.get(&pod.key);
        if let Some(node) = node {
            arrived.entry(node.clone()).or_default().push(Arc::clone(pod));
        }
        node.is_none()
    });
    for node in &mut world.nodes {
        let Some(pods) = arrived.remove(&node.id) else { continue };
        let name = Some(node.display_name().into());
        let running = |pod: &Arc<Pod>| {
            let (node_name, phase) = (name.clone(), PodPhase::Running);
            Arc::new(Pod { node_name, phase, unschedulable: false, ..(**pod).clone() })
        };
        Arc::make_mut(node).pods.extend(pods.iter().map(running));
    }
}
