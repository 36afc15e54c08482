//! Judges from the result for the pods whether the nodes may go, and for what (spec disruption 3.9). A replacement must
//! also save enough to be worth what moving pods costs, which the reference does not ask.

use std::collections::BTreeSet;

use karpenter_model::report::ReasonCode;
use karpenter_model::{CapacityType, InstanceTypeName, Launch, NodeId, Nomination, Price, Snapshot};

use super::cheaper::{Leaving, Narrowing};
use super::refusal::Refusal;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::{least, price};
use crate::place::what_if::Simulated;

/// Nodes that may go.
#[derive(Debug, Clone)]
pub(crate) struct Proposal<'a> {
    pub(crate) candidates: Vec<Candidate<'a>>,
    /// Launches that take their place.
    pub(crate) replacements: Vec<Launch>,
    pub(crate) nominations: Vec<Nomination>,
    /// Nodes that take pods of theirs.
    pub(crate) used_nodes: Vec<NodeId>,
    /// Least price of the replacements.
    pub(crate) replacement_price: Price,
}

impl Proposal<'_> {
    /// Savings of the proposal.
    pub(crate) fn savings(&self) -> Price {
        price(&self.candidates).saturating_sub(self.replacement_price)
    }
}

/// Judges whether `candidates` may be removed, when `simulated` is the result for their pods: always if
/// nothing new is needed, for one cheaper node otherwise.
pub(crate) fn judge<'a>(
    candidates: &[Candidate<'a>],
    simulated: Simulated,
    snapshot: &Snapshot,
) -> Result<Proposal<'a>, Refusal> {
    all_pods_have_a_place(&simulated)?;
    let Simulated { mut launches, nominations, used_nodes, .. } = simulated;
    let mut replacements = Vec::new();
    if launches.len() > 1 {
        let event = format!("Can't remove without creating {} candidates", launches.len());
        return Err(Refusal::with_event(ReasonCode::TooManyReplacements, launches.len(), event));
    }
    if let Some(quoted) = launches.pop() {
        let mut narrowing = Narrowing::new(quoted, snapshot);
        narrowing.comparable(candidates)?;
        narrowing.narrow(leaving(candidates), snapshot.settings.gates.spot_to_spot_consolidation)?;
        narrowing.worth_moving(price(candidates), snapshot.settings.disruption.min_saving_percent)?;
        // A single node needs no such check: its replacement is below its own price already.
        if candidates.len() > 1 {
            not_the_same_again(&mut narrowing, candidates)?;
        }
        replacements.push(narrowing.finish());
    }
    Ok(Proposal {
        candidates: candidates.to_vec(),
        replacement_price: least(&replacements),
        replacements,
        nominations,
        used_nodes,
    })
}

/// Checks that every pod has a place.
pub(crate) fn all_pods_have_a_place(simulated: &Simulated) -> Result<(), Refusal> {
    if simulated.gave_up {
        return Err(Refusal::silent(ReasonCode::CannotReschedule, ""));
    }
    let Some((pod, why)) = simulated.unplaced.first() else { return Ok(()) };
    let more = simulated.unplaced.len() - 1;
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    let event = format!("Not all pods would schedule, {}", simulated.why_unplaced());
    Err(Refusal::with_event(ReasonCode::CannotReschedule, format_args!("{pod}{others}: {why}"), event))
}

/// Returns the nodes to remove.
pub(super) fn leaving(candidates: &[Candidate<'_>]) -> Leaving {
    let spot = |candidate: &Candidate<'_>| candidate.node.capacity_type() == Some(CapacityType::Spot);
    Leaving { price: price(candidates), all_spot: candidates.iter().all(spot), alone: candidates.len() == 1 }
}

/// Several nodes are not replaced by one like them: then that one could simply stay. If the replacement may be of a
/// type that goes, it must be cheaper than the cheapest node of such a type.
fn not_the_same_again(narrowing: &mut Narrowing<'_>, candidates: &[Candidate<'_>]) -> Result<(), Refusal> {
    let names: BTreeSet<&InstanceTypeName> = narrowing.names().collect();
    let shared =
        candidates.iter().filter(|one| one.node.instance_type().is_some_and(|name| names.contains(&name)));
    let cheapest = shared.map(|one| one.price).min();
    cheapest.map_or(Ok(()), |price| narrowing.below(price))
}
