//! Drift of pools with a fixed number of nodes (spec disruption 3.7): one replacement per node, straight from
//! the template, as far as budget and node limit allow. Nothing is simulated: the pool keeps its number of nodes.

use std::collections::BTreeMap;

use karpenter_model::{Method, PoolName};

use super::believed;
use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::{Stays, from_template};
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::pass::{Pass, Room};

const METHOD: Method = Method::StaticDrift;

/// Proposes one command per node.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    if !pass.snapshot.settings.gates.static_capacity {
        return;
    }
    let drifted = believed(pass, METHOD, |pool| pool.replicas.is_some());
    let mut by_pool: BTreeMap<&PoolName, Vec<Candidate<'_>>> = BTreeMap::new();
    for candidate in drifted {
        by_pool.entry(&candidate.pool.name).or_default().push(candidate);
    }
    for candidates in by_pool.values_mut() {
        // One that cannot drain holds the budget until its deadline.
        candidates.sort_by_key(Candidate::cannot_drain);
        replace(pass, candidates);
    }
}

/// Replaces drifted nodes of one pool.
fn replace<'a>(pass: &mut Pass<'a>, candidates: &[Candidate<'a>]) {
    let Some(first) = candidates.first() else { return };
    let mut room = pass.room(first.pool);
    for candidate in candidates {
        let id = &candidate.node.id;
        match one(pass, &mut room, candidate) {
            // Nothing is simulated, so every node is reached.
            Ok(()) | Err(Stays::NotReached) => {}
            Err(Stays::Because(reason)) => pass.keep(id, reason),
            Err(Stays::Held(held)) => pass.hold(id, held),
        }
    }
}

/// Proposes to replace one node, if its pool has `room` for the replacement, or to remove it first.
fn one<'a>(pass: &mut Pass<'a>, room: &mut Room, candidate: &Candidate<'a>) -> Result<(), Stays> {
    let (pool, snapshot) = (candidate.pool, pass.snapshot);
    pass.check_budget(METHOD, candidate).map_err(Stays::Because)?;
    let terminate_first = snapshot.settings.gates.terminate_first_drift;
    if room.left == Some(0)
        && !(terminate_first || room.has_surplus)
        && let Some(limit) = room.always_full
    {
        let text = format!(
            "Drifted nodes stay: the limit of {limit} nodes leaves no room for a replacement, which comes before a node goes"
        );
        pass.note(Note::pool(&pool.name, NoteKind::DisruptionBlocked, text).distinguished_by("limit"));
    }
    let command = from_template(pass, room, candidate, METHOD, terminate_first)?;
    pass.take_budget(METHOD, candidate).map_err(Stays::Because)?;
    room.left = room.left.map(|left| left.saturating_sub(1));
    brake::tries(&command.replacements, pass.memory, snapshot);
    pass.propose(command);
    Ok(())
}
