//! Explanations of why a node stays, a pod waits or a pool takes no part: the last decisions, kept in memory.
//!
//! `GET /explain?node=NAME`, `?pod=NAMESPACE/NAME`, `?nodepool=NAME`, or without a parameter for everything. Answers name
//! objects and reasons. They hold no secrets, but show what runs in the cluster, so only the process's own machine is
//! answered: in a cluster through a port-forward, as `karpenter explain` makes one.

mod answer;
mod launches;
mod question;
mod refused;
mod route;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_engine::disrupt::{BudgetState, Decision};
use karpenter_lifecycle::command;
use karpenter_model::{
    ClaimName, DisruptionReason, NodeId, NodeName, NodeOutcome, PodKey, PodOutcome, PoolName, PoolOutcome,
    Report, Snapshot,
};
use parking_lot::Mutex;

pub use answer::{Answer, Fact, Why};
use launches::Launches;
pub(crate) use launches::Step;
pub use question::{Question, QuestionError};
use refused::Refused;
pub use route::routes;

/// The last decisions. Cheap to clone; shared by the passes that decide and the requests that ask.
#[derive(Clone, Debug, Default)]
pub struct Explanations(Arc<Mutex<Known>>);

/// Recorded decisions; none before the first pass, and never any in a process that does not lead.
#[derive(Debug, Default)]
struct Known {
    disruption: Option<Disruption>,
    provisioning: Option<Provisioning>,
    launches: Launches,
    refused: Refused,
}

/// Decisions of a pass over machines.
#[derive(Debug)]
struct Disruption {
    at: Timestamp,
    machines: BTreeMap<NodeId, Machine>,
    nodes: BTreeMap<NodeName, NodeId>,
    claims: BTreeMap<ClaimName, NodeId>,
    budgets: BTreeMap<(PoolName, DisruptionReason), BudgetState>,
    /// Commands it proposed, each in one line.
    commands: Vec<String>,
}

#[derive(Debug)]
struct Machine {
    node: Option<NodeName>,
    claim: Option<ClaimName>,
    pool: Option<PoolName>,
    outcome: NodeOutcome,
    /// The command it is in, in one line.
    command: Option<String>,
}

/// Decisions of a pass over pods.
#[derive(Debug)]
struct Provisioning {
    at: Timestamp,
    pods: BTreeMap<PodKey, PodOutcome>,
    pools: BTreeMap<PoolName, PoolOutcome>,
}

impl Explanations {
    /// Keeps what a pass over machines decided.
    pub(crate) fn disrupted(&self, snapshot: &Snapshot, decision: &Decision) {
        let mut kept = Disruption {
            at: snapshot.now,
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            budgets: decision.budgets.clone(),
            commands: decision.commands.iter().map(command::short).collect(),
        };
        let commands = decision.commands.iter();
        let commands: BTreeMap<&NodeId, String> = commands
            .flat_map(|command| command.nodes().map(move |node| (node, command::short(command))))
            .collect();
        for node in &snapshot.nodes {
            let Some(outcome) = decision.nodes.get(&node.id).cloned() else { continue };
            let claim = node.claim.as_ref().map(|claim| claim.name.clone());
            kept.nodes.extend(node.name.clone().map(|name| (name, node.id.clone())));
            kept.claims.extend(claim.clone().map(|name| (name, node.id.clone())));
            let command = commands.get(&node.id).cloned();
            let machine = Machine { node: node.name.clone(), claim, pool: node.pool(), outcome, command };
            kept.machines.insert(node.id.clone(), machine);
        }
        self.0.lock().disruption = Some(kept);
    }

    /// The last pass over machines was looked at again and is still right.
    pub(crate) fn looked_again(&self, at: Timestamp) {
        if let Some(known) = &mut self.0.lock().disruption {
            known.at = at;
        }
    }

    /// Keeps what a pass over pods decided.
    pub(crate) fn planned(&self, at: Timestamp, report: Report) {
        let Report { pods, pools, nodes: _ } = report;
        self.0.lock().provisioning = Some(Provisioning { at, pods, pools });
    }

    /// Records that the launch of `claim` has reached `step`.
    pub(crate) fn reached(&self, claim: &ClaimName, step: Step, at: Timestamp) {
        self.0.lock().launches.reached(claim, step, at);
    }

    /// Records a rule that a plan broke; returns whether it is to be logged now.
    pub(crate) fn refused(&self, finding: &str, now: Timestamp) -> bool {
        self.0.lock().refused.note(finding, now)
    }

    /// The answer to `question`.
    pub fn answer(&self, question: &Question) -> Answer {
        answer::answer(&self.0.lock(), question)
    }
}
