//! Two workloads in turn, which machines of two types hold at the same price: over a hundred hours no machine
//! is bought or removed for that.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use jiff::SignedDuration;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_engine::plan;
use karpenter_model::{Command, Pod, PodKey, Snapshot, Target};
use karpenter_testkit::snapshot;

use super::convergence::{bought, carried_out};
use crate::promises::names;

const HOURS: u32 = 100;
/// Between two looks, and between two changes of the pods.
const LOOK_MINUTES: u32 = 15;
const CHANGE_MINUTES: u32 = 30;

/// A cluster whose pods are replaced by others again and again, all at once.
struct Cluster {
    world: Snapshot,
    memory: Memory,
    workloads: [Vec<Arc<Pod>>; 2],
    rng: Rng,
    launched: usize,
    removed: usize,
}

impl Cluster {
    /// Creates the cluster of `text`, with the pods of two workloads in turn; the first begins.
    fn new(text: &str, workloads: [&str; 2], seed: u64) -> Self {
        let world = snapshot(text);
        let workloads = workloads.map(|pods| snapshot(&format!("{text}{pods}")).pending);
        Self {
            world,
            memory: Memory::default(),
            workloads,
            rng: Rng::with_seed(seed),
            launched: 0,
            removed: 0,
        }
    }

    fn live(&mut self, hours: u32) {
        for look in 0..hours * 60 / LOOK_MINUTES {
            let minutes = look * LOOK_MINUTES;
            if minutes.is_multiple_of(CHANGE_MINUTES) {
                self.change((minutes / CHANGE_MINUTES) as usize % 2);
            }
            self.place(look);
            self.consolidate(look);
            self.world.now += SignedDuration::from_mins(LOOK_MINUTES.into());
            self.world.revision += 1;
        }
    }

    /// The pods of this workload instead of all others.
    fn change(&mut self, workload: usize) {
        for node in &mut self.world.nodes {
            Arc::make_mut(node).pods.clear();
        }
        self.world.pending.clone_from(&self.workloads[workload]);
        self.rng.shuffle(&mut self.world.pending);
    }

    /// Plans, buys what is to be launched, and binds every pod where it is to go.
    fn place(&mut self, look: u32) {
        let (plan, _) = plan(&self.world);
        let mut places: Vec<(PodKey, Target)> =
            plan.nominations.iter().map(|one| (one.pod.clone(), one.target.clone())).collect();
        for (number, launch) in plan.launches.iter().enumerate() {
            let node = bought(launch, &format!("m{look}-{number}"), &self.world);
            let target = Target::Node(node.name.clone().expect("it is a Node"));
            places.extend(launch.pods.iter().map(|pod| (pod.clone(), target.clone())));
            self.world.nodes.push(Arc::new(node));
            self.launched += 1;
        }
        for (key, target) in places {
            let Some(at) = self.world.pending.iter().position(|pod| pod.key == key) else { continue };
            let pod = self.world.pending.remove(at);
            let node = self.world.nodes.iter_mut().find(|node| names(node, &target));
            let node = node.expect("the place exists");
            let bound = Pod { node_name: node.name.clone(), unschedulable: false, ..(*pod).clone() };
            Arc::make_mut(node).pods.push(Arc::new(bound));
        }
        assert_eq!(self.world.pending, [], "look {look}: every pod has a place");
    }

    fn consolidate(&mut self, look: u32) {
        let standing = Standing { proposed: &[], running: &BTreeSet::new() };
        let decision = decide(&self.world, &mut self.memory, &standing);
        self.removed += decision.commands.iter().flat_map(Command::nodes).count();
        self.launched += decision.commands.iter().map(|command| command.replacements.len()).sum::<usize>();
        for command in &decision.commands {
            self.memory.started(command, &[], self.world.now);
        }
        self.world = carried_out(&self.world, &decision.commands, look as usize);
    }
}

/// One machine of 8 cores costs as much as two of 4.
const EQUAL: &str =
    "type narrow cpu=4 mem=8Gi pods=20 od=0.10 zones=a\ntype wide cpu=8 mem=16Gi pods=40 od=0.20 zones=a\n";
/// Instance types of which one machine of 8 cores costs nearly half as much as two of 4.
const CHEAPER: &str =
    "type narrow cpu=4 mem=8Gi pods=20 od=0.10 zones=a\ntype wide cpu=8 mem=16Gi pods=40 od=0.11 zones=a\n";
const POOL: &str = "pool web types=* budget=100%\n";
const TWO_NARROW: &str = "node a pool=web type=narrow zone=a capacity=on-demand\nnode b pool=web type=narrow zone=a capacity=on-demand\n";
const ONE_WIDE: &str = "node a pool=web type=wide zone=a capacity=on-demand\n";
/// Each fills 8 cores, and both fit either packing.
const WORKLOADS: [&str; 2] = ["pod small-{1..8} cpu=950m mem=1Gi\n", "pod large-{1..2} cpu=3800m mem=7Gi\n"];

#[test]
fn pods_that_alternate_between_packings_of_equal_price_move_no_machine() {
    for many_to_many in ["off", "on"] {
        for (seed, nodes) in (0..).zip([TWO_NARROW, ONE_WIDE]) {
            let text = format!("set many-to-many={many_to_many}\n{EQUAL}{POOL}{nodes}");
            let mut cluster = Cluster::new(&text, WORKLOADS, seed);
            cluster.live(HOURS);
            assert_eq!(
                (cluster.launched, cluster.removed),
                (0, 0),
                "many-to-many {many_to_many}, from {nodes}"
            );
        }
    }
}

/// The same watch sees a machine that is worth replacing, once.
#[test]
fn pods_that_alternate_get_the_cheaper_packing_once_and_keep_it() {
    let text = format!("{CHEAPER}{POOL}{TWO_NARROW}");
    let mut cluster = Cluster::new(&text, WORKLOADS, 0);
    cluster.live(HOURS);
    assert_eq!((cluster.launched, cluster.removed), (1, 2));
}
