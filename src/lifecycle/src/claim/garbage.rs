//! Garbage collection in both directions (spec disruption 1.11).
//!
//! Claims whose machine is gone are deleted; machines whose claim is gone are terminated. Either is irreversible,
//! so the list of machines has to be complete, and it is taken **before** claims and Nodes are read: a machine in
//! the list then has its claim among the claims read. The other way round only claims that had registered before
//! the list was asked for are looked up in it.
//!
//! A difference is a suspicion. Each is confirmed by consistent reads before anything is given up: a claim by one of its
//! machine, a machine by one of the claim its tags name, [`is_claimed`]. Without any known claim, the API server is asked
//! whether there is one, [`Garbage::doubts_claims`].
//!
//! The number of objects given up in one pass is limited. An object that was tried and is still there, because the cloud
//! refuses or the suspicion was not confirmed, comes after everything that was not tried, so that it holds up nothing,
//! [`Tried`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Claim, ClaimName, ConditionType, NodeObject, ProviderId, Zone};

/// Period of the collection.
pub const PERIOD: Duration = Duration::from_mins(2);
/// Youngest machine that may be collected for lack of a claim: its claim's status may not have been written
/// yet.
pub(crate) const INSTANCE_GRACE: Duration = Duration::from_secs(30);
/// Most machines given up in one pass: one that is given up wrongly takes pods with it.
pub(crate) const MAX_MACHINES_PER_PASS: usize = 20;
/// Most claims given up in one pass. The list is not the only evidence: each is confirmed by a consistent
/// read, and a call reads this number at once. Until they go, limits and budgets count machines that are not
/// there.
pub(crate) const MAX_CLAIMS_PER_PASS: usize = 500;

/// Objects that earlier passes have tried to give up, with the time of the last try. Lost with the process: the first passes
/// of the next one then try it once more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tried {
    claims: BTreeMap<ClaimName, Timestamp>,
    machines: BTreeMap<ProviderId, Timestamp>,
}

/// A machine as the provider listed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    pub provider_id: ProviderId,
    /// The claim named in its tags.
    pub claim: Option<ClaimName>,
    /// Time of its launch.
    pub launched_at: Timestamp,
    /// True if it is terminating already.
    pub ending: bool,
}

/// Inputs of a pass: first the machines were listed, then claims and Nodes were read.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// All managed claims.
    pub claims: &'a [&'a Claim],
    /// All Nodes.
    pub nodes: &'a [&'a NodeObject],
    /// All machines of this cluster: a complete list, never a partial one.
    pub machines: &'a [Machine],
    /// Time at which the list of machines was requested.
    pub listed_at: Timestamp,
    /// Zones the cluster is shifted away from; the cloud's answers about machines there are not trusted.
    pub zones_away: &'a BTreeSet<Zone>,
    /// Objects that were tried before.
    pub tried: &'a Tried,
}

/// Objects to give up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Garbage {
    /// Registered claims without machine, in name order, those that were tried before last: confirm each by a consistent
    /// read, then delete.
    pub claims: Vec<ClaimName>,
    /// Machines without claim, oldest first, those that were tried before last: confirm each by a consistent read of the
    /// claim named in its tags, then terminate.
    pub machines: Vec<Machine>,
    /// No claim at all is known: machines are given up only if the API server, asked consistently, has none either.
    pub doubts_claims: bool,
}

/// Compares claims with machines.
pub fn collect(facts: Facts<'_>) -> Garbage {
    // A machine that is ending will not serve its claim again, so it counts as absent (spec disruption 1.11).
    let living = facts.machines.iter().filter(|machine| !machine.ending);
    let living: BTreeSet<&ProviderId> = living.map(|machine| &machine.provider_id).collect();
    let machines = machines_without_claim(facts);
    Garbage {
        claims: claims_without_machine(facts, &living),
        doubts_claims: facts.claims.is_empty() && !machines.is_empty(),
        machines,
    }
}

impl Tried {
    /// Records that everything in `garbage` is tried now, and forgets what is not there any more.
    pub fn note(&mut self, garbage: &Garbage, facts: Facts<'_>) {
        let claims: BTreeSet<&ClaimName> = facts.claims.iter().map(|claim| &claim.name).collect();
        let machines: BTreeSet<&ProviderId> =
            facts.machines.iter().map(|machine| &machine.provider_id).collect();
        self.claims.retain(|name, _| claims.contains(name));
        self.machines.retain(|id, _| machines.contains(id));
        self.claims.extend(garbage.claims.iter().map(|name| (name.clone(), facts.listed_at)));
        let ids = garbage.machines.iter().map(|machine| machine.provider_id.clone());
        self.machines.extend(ids.map(|id| (id, facts.listed_at)));
    }
}

/// Returns whether `claim`, which the tags of `machine` name, accounts for it: it has this machine, or no recorded one.
pub fn is_claimed(machine: &Machine, claim: &Claim) -> bool {
    claim.provider_id.as_ref().is_none_or(|id| *id == machine.provider_id)
}

/// Returns the claims that are registered and not being deleted, whose machine is absent or ending, and of which no Node
/// still reports Ready.
fn claims_without_machine(facts: Facts<'_>, living: &BTreeSet<&ProviderId>) -> Vec<ClaimName> {
    let mut ready: BTreeMap<&ProviderId, bool> = BTreeMap::new();
    for node in facts.nodes {
        if let Some(id) = &node.provider_id {
            // Several Nodes of one machine are a fault, but any of them that reports is proof of the machine.
            *ready.entry(id).or_default() |= node.is_ready();
        }
    }
    let mut claims: Vec<ClaimName> = facts
        .claims
        .iter()
        .filter(|claim| claim.deletion.is_none() && registered_before(claim, facts.listed_at))
        .filter(|claim| {
            // A kubelet that reports proves the machine, whatever the list of the cloud lacks.
            let id = claim.provider_id.as_ref();
            id.is_some_and(|id| !living.contains(id) && ready.get(id) != Some(&true))
        })
        .filter(|claim| claim.zone().is_none_or(|zone| !facts.zones_away.contains(&zone)))
        .map(|claim| claim.name.clone())
        .collect();
    // `None`, never tried, sorts before every time.
    claims.sort_by_cached_key(|name| (facts.tried.claims.get(name).copied(), name.clone()));
    claims.truncate(MAX_CLAIMS_PER_PASS);
    claims
}

fn registered_before(claim: &Claim, instant: Timestamp) -> bool {
    claim.true_since(ConditionType::Registered).is_some_and(|since| since < instant)
}

/// Returns the machines older than the grace that are not ending and of which neither the id nor the claim in the tags is
/// known.
fn machines_without_claim(facts: Facts<'_>) -> Vec<Machine> {
    let ids: BTreeSet<&ProviderId> =
        facts.claims.iter().filter_map(|claim| claim.provider_id.as_ref()).collect();
    let waiting: BTreeSet<&ClaimName> =
        facts.claims.iter().filter(|claim| claim.provider_id.is_none()).map(|claim| &claim.name).collect();
    let mut machines: Vec<&Machine> = facts
        .machines
        .iter()
        .filter(|machine| !machine.ending && !ids.contains(&machine.provider_id))
        // A claim without a recorded machine may be about to record this one.
        .filter(|machine| machine.claim.as_ref().is_none_or(|claim| !waiting.contains(claim)))
        .filter(|machine| since(machine.launched_at, facts.listed_at) > INSTANCE_GRACE)
        .collect();
    machines.sort_by_cached_key(|machine| {
        let id = machine.provider_id.clone();
        (facts.tried.machines.get(&id).copied(), machine.launched_at, id)
    });
    machines.into_iter().take(MAX_MACHINES_PER_PASS).cloned().collect()
}

#[cfg(test)]
mod tests;
