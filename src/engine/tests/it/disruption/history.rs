//! Disruption over time, in a cluster that changes under its hands: at the start of every command the budgets hold, no
//! pod is evicted that must not be, and no machine goes twice. The audit judges, not the planner.

use std::collections::BTreeSet;
use std::sync::Arc;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{Memory, Standing, confirm, decide};
use karpenter_model::{
    Command, DoNotDisrupt, Node, NodeId, Plan, Pod, PodDisruptionBudget, PodKey, Snapshot,
};
use karpenter_testkit::disruptable;

use super::properties::seeds;

/// Looks per history, five seconds apart.
const LOOKS: u64 = 24;

/// The cluster, and what is under way in it.
struct History {
    world: Snapshot,
    memory: Memory,
    proposed: Vec<Command>,
    running: BTreeSet<NodeId>,
    started: usize,
    refused: usize,
}

impl History {
    fn of(seed: u64) -> Self {
        let world = disruptable::cluster(seed);
        let memory = Memory::default();
        Self { world, memory, proposed: Vec::new(), running: BTreeSet::new(), started: 0, refused: 0 }
    }

    /// Something happens to some machine.
    fn happens(&mut self, rng: &mut Rng, step: u64) {
        self.world.now += SignedDuration::from_secs(5);
        self.world.revision += 1;
        let count = self.world.nodes.len();
        let node = Arc::make_mut(&mut self.world.nodes[rng.usize(0..count)]);
        match rng.u8(0..8) {
            0 => node.ready = !node.ready,
            1 => node.nominated_until = Some(self.world.now + SignedDuration::from_secs(20)),
            2 => node.pods.clear(),
            3 => node.pods.push(Arc::new(pod(node, step, self.world.now, rng))),
            4 => drop(node.annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into())),
            5 => drop(node.annotations.remove("karpenter.sh/do-not-disrupt")),
            6 => {
                let turned = |budget: &Arc<PodDisruptionBudget>| {
                    let disruptions_allowed = budget.disruptions_allowed ^ 1;
                    Arc::new(PodDisruptionBudget { disruptions_allowed, ..(**budget).clone() })
                };
                self.world.budgets = self.world.budgets.iter().map(turned).collect();
            }
            _ => {}
        }
    }

    /// One pass, as the controller makes it.
    fn pass(&mut self, seed: u64) {
        let now = self.world.now;
        let waiting = std::mem::take(&mut self.proposed);
        let (due, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|command| command.not_before <= now);
        self.proposed = later;
        self.start(seed, due);
        let standing = Standing { proposed: &self.proposed, running: &self.running };
        let decided = decide(&self.world, &mut self.memory, &standing).commands.clone();
        let (at_once, later): (Vec<_>, Vec<_>) =
            decided.into_iter().partition(|command| command.not_before <= now);
        self.proposed.extend(later);
        self.start(seed, at_once);
    }

    /// Starts what a second look has nothing against.
    fn start(&mut self, seed: u64, commands: Vec<Command>) {
        let mut started: Vec<Command> = Vec::new();
        let standing = Standing { proposed: &[], running: &self.running };
        let answers = confirm(&self.world, &commands, &standing);
        for (command, answer) in commands.into_iter().zip(answers) {
            match answer {
                Ok(command) => started.push(command),
                Err(rejection) => {
                    self.refused += 1;
                    self.memory.rejected(&command, &rejection, self.world.now);
                }
            }
        }
        let plan = Plan { revision: self.world.revision, commands: started.clone(), ..Plan::default() };
        let findings = audit(&self.world, &plan);
        let broken: Vec<_> =
            findings.iter().filter(|finding| matches!(finding.rule, Rule::Budget | Rule::Removal)).collect();
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}\n{plan:#?}");
        for command in &started {
            self.memory.started(command, &[], self.world.now);
            for id in command.nodes() {
                assert!(self.running.insert(id.clone()), "seed {seed}: {id} goes twice");
            }
        }
        for node in self.world.nodes.iter_mut().filter(|node| self.running.contains(&node.id)) {
            Arc::make_mut(node).marked_for_deletion = true;
        }
        self.started += started.len();
    }
}

/// A pod that has just been placed on `node`.
fn pod(node: &Node, number: u64, now: Timestamp, rng: &mut Rng) -> Pod {
    let uid = format!("late-{number}");
    let base = Pod::pending(PodKey::new("default", &uid), &uid, now);
    let protected = [DoNotDisrupt::No, DoNotDisrupt::Always, DoNotDisrupt::No][rng.usize(0..3)].clone();
    let labels = [("app".into(), ["a", "b"][rng.usize(0..2)].into())].into_iter().collect();
    let node_name = node.name.clone();
    base.with(|pod| {
        pod.node_name = node_name;
        pod.unschedulable = false;
        pod.started_at = Some(now);
        pod.do_not_disrupt = protected;
        pod.labels = labels;
    })
}

#[test]
fn budgets_and_pods_are_respected_at_every_start_whatever_happens_meanwhile() {
    let (mut started, mut refused) = (0, 0);
    for seed in 0..seeds() / 3 {
        let mut history = History::of(seed);
        let rng = &mut Rng::with_seed(seed);
        for step in 0..LOOKS {
            history.pass(seed);
            history.happens(rng, step);
        }
        started += history.started;
        refused += history.refused;
    }
    assert!(started > 50 && refused > 10, "{started} started, {refused} refused");
}
