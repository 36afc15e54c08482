//! The second look (spec core-disruption 3.14): whether a command may still start, judged by what is true now.

mod consolidation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use karpenter_model::{Command, Launch, Method, Node, NodeId, Nomination, Pool, Price, Snapshot};

use crate::disrupt::balanced::Totals;
use crate::disrupt::budget::Budgets;
use crate::disrupt::candidate::{Blocker, Candidate};
use crate::disrupt::lookup::Lookup;
use crate::disrupt::{Standing, drift, empty, pass};
use crate::place::what_if::{Destinations, Patience, Simulated, WhatIf};

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
/// stands or falls as a whole. What it says about machines, pods and prices is told anew; what it may buy does not
/// change, except that drift may buy whatever would do now.
///
/// Confirm commands one after the other: each that starts belongs into `standing` for the next. That `command` itself
/// stands there does not count.
pub fn confirm(
    snapshot: &Snapshot,
    command: &Command,
    standing: &Standing<'_>,
) -> Result<Command, Rejection> {
    let look = Look::new(snapshot, command, standing);
    match command.method {
        Method::Emptiness => look.at_empty(),
        Method::StaticDrift => look.at_static_drift(),
        Method::Drift => look.at_drift(),
        Method::MultiNode | Method::SingleNode | Method::ManyToMany => look.at_consolidation(),
    }
}

/// What a second look sees.
struct Look<'a> {
    snapshot: &'a Snapshot,
    command: &'a Command,
    budgets: Budgets<'a>,
    /// Machines of the command that may still go, in its order.
    still: Vec<Candidate<'a>>,
    /// Those that do not qualify any more, and why.
    gone: Vec<(NodeId, Blocker)>,
    /// Machines of other commands the snapshot does not show yet.
    assumed: Vec<Vec<&'a Node>>,
    totals: Totals,
}

impl<'a> Look<'a> {
    fn new(snapshot: &'a Snapshot, command: &'a Command, standing: &Standing<'_>) -> Self {
        let own: BTreeSet<&NodeId> = command.nodes().collect();
        let taken: BTreeSet<NodeId> = standing.nodes().into_iter().filter(|id| !own.contains(id)).collect();
        let lookup = Lookup::new(snapshot);
        let by_id: BTreeMap<&NodeId, &'a Node> =
            snapshot.nodes.iter().map(|node| (&node.id, node.as_ref())).collect();
        let mut look = Self {
            snapshot,
            command,
            budgets: Budgets::new(snapshot, &taken),
            still: Vec::new(),
            gone: Vec::new(),
            assumed: pass::assumed(snapshot, standing, |id| !own.contains(id)),
            totals: Totals::new(&lookup),
        };
        for id in command.nodes() {
            let Some(node) = by_id.get(id) else {
                look.gone.push((id.clone(), Blocker::NoNode));
                continue;
            };
            match Candidate::of(node, &lookup) {
                Ok(candidate) => match candidate.blocker(command.method) {
                    None => look.still.push(candidate),
                    Some(blocker) => look.gone.push((id.clone(), blocker.clone())),
                },
                Err(blocker) => look.gone.push((id.clone(), blocker)),
            }
        }
        look
    }

    fn rejected(&self, kind: RejectionKind, detail: impl fmt::Display) -> Rejection {
        Rejection { kind, nodes: self.command.nodes().cloned().collect(), detail: detail.to_string() }
    }

    /// Machines that no longer qualify make the whole command invalid; because of a nomination they count as taken.
    fn all_qualify(&self) -> Result<(), Rejection> {
        let Some((_, first)) = self.gone.first() else { return Ok(()) };
        let nominated = self.gone.iter().all(|(_, blocker)| *blocker == Blocker::Nominated);
        let kind = if nominated { RejectionKind::Budget } else { RejectionKind::Churn };
        let nodes = self.gone.iter().map(|(id, _)| id.clone()).collect();
        Err(Rejection { kind, nodes, detail: first.to_string() })
    }

    /// Takes every machine out of its budget.
    fn all_within_budget(&mut self) -> Result<(), Rejection> {
        for candidate in &self.still {
            if let Err(exhausted) = self.budgets.take(&candidate.pool.name, self.command.reason) {
                let nodes = vec![candidate.node.id.clone()];
                let detail = exhausted.reason().to_string();
                return Err(Rejection { kind: RejectionKind::Budget, nodes, detail });
            }
        }
        Ok(())
    }

    fn at_empty(mut self) -> Result<Command, Rejection> {
        self.still.retain(|candidate| empty::ready(candidate, self.snapshot).is_ok());
        if self.still.is_empty() {
            let nominated = self.gone.iter().any(|(_, blocker)| *blocker == Blocker::Nominated);
            let kind = if nominated { RejectionKind::Budget } else { RejectionKind::Churn };
            return Err(self.rejected(kind, "no node of the command is empty and free to go any more"));
        }
        self.still.retain(|candidate| self.budgets.take(&candidate.pool.name, self.command.reason).is_ok());
        if self.still.is_empty() {
            return Err(self.rejected(RejectionKind::Budget, "disruption budgets are used up"));
        }
        let candidates = self.disrupted();
        let savings = candidates.iter().map(|candidate| candidate.price).sum::<Price>();
        Ok(Command { candidates, savings, ..self.command.clone() })
    }

    fn at_static_drift(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        self.all_drifted(|pool| pool.replicas.is_some())?;
        self.all_within_budget()?;
        Ok(Command { candidates: self.disrupted(), ..self.command.clone() })
    }

    fn at_drift(mut self) -> Result<Command, Rejection> {
        self.all_qualify()?;
        self.all_drifted(|pool| pool.replicas.is_none())?;
        self.all_within_budget()?;
        let simulated = self.simulate(Destinations::All)?;
        let launches: Vec<&Launch> = simulated.launches.iter().map(|quoted| &quoted.launch).collect();
        self.replacements_are_among(&launches)?;
        let replacements = simulated.launches.into_iter().map(|quoted| quoted.launch).collect();
        Ok(self.as_now(replacements, simulated.nominations))
    }

    /// The command with its machines as they are now, and `replacements` at what they cost now for the pods there are
    /// now: pods may have come or gone and prices may have changed.
    fn as_now(&self, replacements: Vec<Launch>, nominations: Vec<Nomination>) -> Command {
        let gone: Price = self.still.iter().map(|candidate| candidate.price).sum();
        let cheapest = replacements.iter().filter_map(|launch| launch.cheapest.as_ref());
        let cost: Price = cheapest.map(|offering| offering.price).sum();
        Command {
            candidates: self.disrupted(),
            nominations: self.moved(nominations),
            savings: gone.saturating_sub(cost),
            replacements,
            ..self.command.clone()
        }
    }

    /// What the command says about its machines, as they are now.
    fn disrupted(&self) -> Vec<karpenter_model::command::Candidate> {
        self.still.iter().map(Candidate::disrupted).collect()
    }

    /// Nominations of the command's own pods: others that wait are the provisioner's business.
    fn moved(&self, nominations: Vec<Nomination>) -> Vec<Nomination> {
        let own: BTreeSet<_> = self.still.iter().flat_map(Candidate::moving).map(|pod| &pod.key).collect();
        nominations.into_iter().filter(|nomination| own.contains(&nomination.pod)).collect()
    }

    fn all_drifted(&self, of_kind: impl Fn(&Pool) -> bool) -> Result<(), Rejection> {
        let other = self.still.iter().find(|candidate| !candidate.is_drifted() || !of_kind(candidate.pool));
        let Some(other) = other else { return Ok(()) };
        let nodes = vec![other.node.id.clone()];
        Err(Rejection { kind: RejectionKind::Churn, nodes, detail: "node is not drifted any more".into() })
    }

    /// Where the pods of the command would go now; everybody must have a place.
    fn simulate(&self, destinations: Destinations) -> Result<Simulated, Rejection> {
        let own: Vec<&Node> = self.still.iter().map(|candidate| candidate.node).collect();
        let mut all = own.clone();
        all.extend(self.assumed.iter().flatten());
        let mut what_if = WhatIf::new(self.snapshot, &all, destinations);
        for nodes in &self.assumed {
            what_if.commit(nodes);
        }
        let simulated = what_if.without(&own, Patience::Full);
        if simulated.unplaced.is_empty() {
            return Ok(simulated);
        }
        let detail = format!("not all pods would schedule, {}", drift::unplaced(&simulated));
        Err(self.rejected(RejectionKind::Scheduling, detail))
    }

    /// As many machines as the command launches are needed, and what it would buy is what would do.
    fn replacements_are_among(&self, launches: &[&Launch]) -> Result<(), Rejection> {
        let (wanted, needed) = (self.command.replacements.len(), launches.len());
        if wanted != needed {
            let detail = format!("{needed} new nodes would be needed, not {wanted}");
            return Err(self.rejected(RejectionKind::Scheduling, detail));
        }
        for (launch, fresh) in self.command.replacements.iter().zip(launches) {
            let known: BTreeSet<_> = fresh.instance_types.iter().collect();
            let gone = launch.instance_types.iter().find(|name| !known.contains(name));
            if let Some(name) = gone {
                let detail = format!("instance type {name} would not do any more");
                return Err(self.rejected(RejectionKind::Scheduling, detail));
            }
        }
        Ok(())
    }
}
