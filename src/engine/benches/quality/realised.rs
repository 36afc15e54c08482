//! Purchases until every pod of a plan is bound.
//!
//! The scheduler binds by its own scores, onto nodes that become ready in some order. The pods that are left over are planned for
//! beside the nodes that are there, and so on. The judge is the planner's own stand-in of the scheduler
//! (`karpenter_engine::bound`), which `src/judge` compares with the real one.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use karpenter_lifecycle::pods::nomination::nameable;
use karpenter_model::{Launch, Node, NodeId, Plan, Pod, PodKey, Snapshot, Target};
use karpenter_testkit::bought::{initialized, launched};

/// Plans after which no further one is made.
const PLANS: usize = 8;

/// Circumstances in which the scheduler binds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) name: &'static str,
    /// Pods name the node that they were launched for, as far as the controller may have them do so at once.
    named: bool,
    /// Parts in which the nodes of a plan become ready, in the order of the plan.
    parts: usize,
}

/// Circumstances that are tried.
pub(crate) const ALL: [Circumstances; 4] = [
    Circumstances { name: "named, together", named: true, parts: 1 },
    Circumstances { name: "named, in thirds", named: true, parts: 3 },
    Circumstances { name: "unnamed, together", named: false, parts: 1 },
    Circumstances { name: "unnamed, in thirds", named: false, parts: 3 },
];

/// Purchases until all pods are bound.
pub(crate) struct Bought {
    /// Their price as a share of that of the first plan.
    pub(crate) price: f64,
    pub(crate) machines: usize,
}

/// Plays the pods of `snapshot` until all are bound.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn bought(snapshot: &Snapshot, circumstances: Circumstances) -> Bought {
    let Circumstances { named, parts, .. } = circumstances;
    let mut world = snapshot.clone();
    bind(&mut world);
    let (mut first, mut price, mut machines) = (None, 0, 0);
    for round in 0..PLANS {
        let (plan, _) = karpenter_engine::plan(&world);
        if plan.launches.is_empty() {
            break;
        }
        let own = price_of(&plan);
        first.get_or_insert(own);
        price += own;
        machines += plan.launches.len();
        let name = |number: usize| format!("round-{round}-{number:05}");
        let promises = if named { names(&plan, &world, name) } else { BTreeMap::new() };
        world.promises = Arc::new(promises);
        let nodes: Vec<Arc<Node>> = plan
            .launches
            .iter()
            .enumerate()
            .map(|(number, launch)| Arc::new(ready(launch, &name(number), &world)))
            .collect();
        for part in nodes.chunks(nodes.len().div_ceil(parts)) {
            world.nodes.extend_from_slice(part);
            bind(&mut world);
        }
    }
    Bought { price: price as f64 / first.unwrap_or(1).max(1) as f64, machines }
}

fn price_of(plan: &Plan) -> i64 {
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
fn ready(launch: &Launch, name: &str, world: &Snapshot) -> Node {
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
        let pods = pods
            .iter()
            .map(|pod| Arc::new(Pod { node_name: name.clone(), unschedulable: false, ..(**pod).clone() }));
        Arc::make_mut(node).pods.extend(pods);
    }
}
