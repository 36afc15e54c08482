//! The second look (spec core-disruption 3.14): whether a command may still start, judged by what is true now.

use std::fmt;

use karpenter_model::{Command, Method, NodeId, Price, Snapshot};

use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::{Blocker, Candidate};
use crate::disrupt::price::PriceList;
use crate::disrupt::{Standing, empty};

/// Why a command may not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// What kind of reason.
    pub kind: RejectionKind,
    /// The machines that speak against it.
    pub nodes: Vec<NodeId>,
    /// Why, for people.
    pub detail: String,
}

/// Kinds of rejections; part of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectionKind {
    /// Machines no longer qualify.
    Churn,
    /// Machines are nominated, or budgets are used up.
    Budget,
    /// Pods would not find the places they were promised.
    Scheduling,
    /// It would no longer be cheaper.
    Price,
    /// It would no longer be worth it.
    Score,
}

impl RejectionKind {
    /// The word in events. The reference knows `budget`, `scheduling` and `churn`; it does not look at prices again.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Churn => "churn",
            Self::Budget => "budget",
            Self::Scheduling => "scheduling",
            Self::Price => "price",
            Self::Score => "score",
        }
    }
}

impl fmt::Display for RejectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The command as it may start now, or why not. Emptiness keeps the machines that still qualify; every other command
/// stands or falls as a whole.
///
/// Confirm commands one after the other: each that starts belongs into `standing` for the next.
pub fn confirm(
    snapshot: &Snapshot,
    command: &Command,
    standing: &Standing<'_>,
) -> Result<Command, Rejection> {
    match command.method {
        Method::Emptiness => confirm_empty(snapshot, command, standing),
        Method::StaticDrift | Method::Drift | Method::MultiNode | Method::SingleNode | Method::ManyToMany => {
            Err(Rejection {
                kind: RejectionKind::Churn,
                nodes: command.nodes().cloned().collect(),
                detail: "the method does not take second looks".into(),
            })
        }
    }
}

fn confirm_empty(
    snapshot: &Snapshot,
    command: &Command,
    standing: &Standing<'_>,
) -> Result<Command, Rejection> {
    let taken = standing.nodes();
    let prices = PriceList::new(snapshot);
    let mut budgets = Budgets::new(snapshot, &taken);
    let (mut still, mut nominated) = (Vec::new(), Vec::new());
    for id in command.nodes().filter(|id| !taken.contains(*id)) {
        let Some(node) = snapshot.nodes.iter().find(|node| node.id == *id) else { continue };
        match Candidate::of(node, snapshot, &prices) {
            Ok(candidate) => {
                if candidate.blocker(command.method).is_none() && empty::ready(&candidate, snapshot).is_ok() {
                    still.push(candidate);
                }
            }
            Err(Blocker::Nominated) => nominated.push(id.clone()),
            Err(_) => {}
        }
    }
    let rejected = |kind, detail: &str| Rejection {
        kind,
        nodes: command.nodes().cloned().collect(),
        detail: detail.to_owned(),
    };
    if still.is_empty() {
        let kind = if nominated.is_empty() { RejectionKind::Churn } else { RejectionKind::Budget };
        return Err(rejected(kind, "no machine of the command qualifies any more"));
    }
    still.retain(|candidate| budgets.take(&candidate.pool.name, command.reason).is_ok());
    if still.is_empty() {
        return Err(rejected(RejectionKind::Budget, "disruption budgets are used up"));
    }
    let candidates: Vec<_> = still.iter().map(Candidate::disrupted).collect();
    let savings = candidates.iter().map(|candidate| candidate.price).sum::<Price>();
    Ok(Command { candidates, savings, ..command.clone() })
}
