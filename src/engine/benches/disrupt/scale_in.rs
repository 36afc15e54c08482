//! Consolidation after a scale-in, played to its end: what is left, beside one plan for the pods that are left, and how much was
//! moved for it.
//!
//! The stand-in of the scheduler binds pods that were evicted, large ones first, as a drain evicts them. What it leaves over is
//! planned for and bought. Times are those of the rules: passes every ten seconds, second looks, windows without pod events, and
//! a fixed time for a command.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use jiff::SignedDuration;
use karpenter_engine::disrupt::{Memory, Standing, confirm, decide};
use karpenter_model::names::label;
use karpenter_model::{ClaimName, Command, Node, NodeId, Pod, PodKey, Price, Snapshot, resources};
use karpenter_testkit::world::wide::wide;

use crate::filled::{Circumstances, fill, price_of, ready};

/// Choices of the pods that go.
const SEEDS: u64 = 5;
/// Passes without a command after which the cluster counts as settled: longer than any window of a rule.
const QUIET_PASSES: u32 = 120;
/// Time from one pass to the next.
const BETWEEN_PASSES: SignedDuration = SignedDuration::from_secs(10);
/// Time from the start of a command until its pods are bound elsewhere.
const COMMAND: SignedDuration = SignedDuration::from_secs(30);
/// Nodes of a plan are ready together, and its pods name them.
const TOGETHER: Circumstances = Circumstances { named: true, parts: 1 };

/// Prints what is left after seven tenths of the pods of `wide` stay.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn scale_in() {
    println!(
        "{:<6} {:>9} {:>9} {:>9} {:>7} {:>7} {:>9} {:>7} {:>7} {:>8}",
        "seed", "before", "planned", "left", "ratio", "waves", "commands", "moved", "bought", "minutes"
    );
    for seed in 0..SEEDS {
        let mut played = Played::new(seed);
        let before = price(&played.world);
        let planned = planned(&played.world);
        let minutes = played.settle();
        let dollars = |nanos: i64| nanos as f64 / 1e9;
        let left = price(&played.world);
        let Played { waves, commands, moved, bought, .. } = played;
        println!(
            "{seed:<6} {:>9.2} {:>9.2} {:>9.2} {:>7.3} {waves:>7} {commands:>9} {moved:>7} {bought:>7} {minutes:>8}",
            dollars(before),
            dollars(planned),
            dollars(left),
            left as f64 / planned as f64
        );
    }
}

/// A cluster after its scale-in.
struct Played {
    world: Snapshot,
    memory: Memory,
    /// Passes whose commands were carried out.
    waves: usize,
    commands: usize,
    /// Pods that were evicted.
    moved: usize,
    /// Nodes that were bought because the scheduler left pods over.
    bought: usize,
}

impl Played {
    fn new(seed: u64) -> Self {
        let mut world = wide();
        fill(&mut world, TOGETHER);
        world.now += SignedDuration::from_hours(1);
        let memory = Memory::starting_at(world.now - SignedDuration::from_hours(1));
        changing(&mut world, |world| scale(world, &mut Rng::with_seed(seed)));
        Self { world, memory, waves: 0, commands: 0, moved: 0, bought: 0 }
    }

    /// Plays passes until nothing is proposed any more; returns the minutes until the last command was over.
    fn settle(&mut self) -> i64 {
        let start = self.world.now;
        let (mut quiet, mut last) = (0, start);
        while quiet < QUIET_PASSES {
            self.world.now += BETWEEN_PASSES;
            let none = Standing { proposed: &[], running: &BTreeSet::new() };
            let commands = decide(&self.world, &mut self.memory, &none).commands.clone();
            quiet += 1;
            if let Some(second_look) = commands.iter().map(|command| command.not_before).max() {
                self.world.now = self.world.now.max(second_look);
            }
            let confirmed: Vec<Command> =
                confirm(&self.world, &commands, &none).into_iter().flatten().collect();
            self.waves += usize::from(!confirmed.is_empty());
            for command in &confirmed {
                self.carry_out(command);
                (quiet, last) = (0, self.world.now);
            }
        }
        last.duration_since(start).as_mins()
    }

    fn carry_out(&mut self, command: &Command) {
        self.commands += 1;
        self.world.now += COMMAND;
        let name = |number: usize| format!("command-{}-{number}", self.commands);
        let launches = command.replacements.iter().enumerate();
        let new: Vec<Node> = launches.map(|(number, one)| ready(one, &name(number), &self.world)).collect();
        let claims: Vec<ClaimName> =
            new.iter().filter_map(|node| Some(node.claim.as_ref()?.name.clone())).collect();
        self.memory.started(command, &claims, self.world.now);
        let gone: BTreeSet<&NodeId> = command.nodes().collect();
        let mut evicted: Vec<Arc<Pod>> = Vec::new();
        changing(&mut self.world, |world| {
            world.nodes.extend(new.into_iter().map(Arc::new));
            world.nodes.retain(|node| {
                let goes = gone.contains(&node.id);
                evicted.extend(node.pods.iter().filter(|_| goes).cloned());
                !goes
            });
            self.moved += evicted.len();
            let prefix = format!("moved-{}", self.commands);
            world.pending = successors(evicted, &prefix, world);
            self.bought += fill(world, TOGETHER).iter().map(|plan| plan.launches.len()).sum::<usize>();
        });
        self.memory.succeeded(command);
    }
}

/// The pods that come in place of the `evicted` ones, in the order of a drain.
fn successors(mut evicted: Vec<Arc<Pod>>, prefix: &str, world: &Snapshot) -> Vec<Arc<Pod>> {
    evicted.sort_by_key(|pod| {
        let amount = |name| pod.requests.amount(name);
        Reverse((amount(resources::CPU), amount(resources::MEMORY)))
    });
    let numbered = evicted.iter().zip(0..);
    let successor = |(pod, number): (&Arc<Pod>, i64)| {
        let name = format!("{prefix}-{number:05}");
        let key = PodKey::new(pod.key.namespace.as_str(), &name);
        let created_at = world.now + SignedDuration::from_millis(number);
        Arc::new(Pod { template: Arc::clone(&pod.template), ..Pod::pending(key, &name, created_at) })
    };
    numbered.map(successor).collect()
}

/// Deletes three tenths of the pods of each application as a `ReplicaSet` does: first where a node has several, at random otherwise.
fn scale(world: &mut Snapshot, rng: &mut Rng) {
    let mut apps: BTreeMap<String, Vec<(usize, PodKey)>> = BTreeMap::new();
    for node in &world.nodes {
        let app = |pod: &Pod| pod.owner_uid.as_ref().map(ToString::to_string).unwrap_or_default();
        for pod in &node.pods {
            let beside = node.pods.iter().filter(|other| app(other) == app(pod)).count();
            apps.entry(app(pod)).or_default().push((beside, pod.key.clone()));
        }
    }
    let mut going: BTreeSet<PodKey> = BTreeSet::new();
    for mut pods in apps.into_values() {
        let goes = pods.len() - (pods.len() * 7).div_ceil(10);
        rng.shuffle(&mut pods);
        pods.sort_by_key(|(beside, _)| Reverse(*beside));
        going.extend(pods.into_iter().take(goes).map(|(_, key)| key));
    }
    for node in &mut world.nodes {
        Arc::make_mut(node).pods.retain(|pod| !going.contains(&pod.key));
    }
}

/// Makes a change, and records on the claims of nodes whose pods are others afterwards that pods came or went.
fn changing(world: &mut Snapshot, change: impl FnOnce(&mut Snapshot)) {
    let before: BTreeMap<NodeId, usize> =
        world.nodes.iter().map(|node| (node.id.clone(), node.pods.len())).collect();
    change(world);
    let now = world.now;
    for node in &mut world.nodes {
        if before.get(&node.id) != Some(&node.pods.len())
            && let Some(claim) = &mut Arc::make_mut(node).claim
        {
            Arc::make_mut(claim).last_pod_event = Some(now);
        }
    }
}

/// Returns the price of one plan for all pods of `world`, in billionths of a dollar an hour.
fn planned(world: &Snapshot) -> i64 {
    let pods = world.nodes.iter().flat_map(|node| node.pods.iter());
    let waiting = pods
        .map(|pod| {
            Arc::new(Pod {
                template: Arc::clone(&pod.template),
                ..Pod::pending(pod.key.clone(), pod.uid.as_str(), pod.created_at)
            })
        })
        .collect();
    let (plan, _) =
        karpenter_engine::plan(&Snapshot { nodes: Vec::new(), pending: waiting, ..world.clone() });
    price_of(&plan)
}

/// Returns the price of the nodes, in billionths of a dollar an hour.
fn price(world: &Snapshot) -> i64 {
    let types: Vec<_> = world.instance_types.values().flat_map(|types| types.iter()).collect();
    let of = |node: &Arc<Node>| -> Price {
        let name = node.labels.get(label::INSTANCE_TYPE);
        let known = types.iter().find(|known| name.is_some_and(|name| name.as_str() == known.name.as_str()));
        known.and_then(|known| known.offerings.first()).map_or(Price::ZERO, |offering| offering.price)
    };
    world.nodes.iter().map(|node| of(node).nanos()).sum()
}
