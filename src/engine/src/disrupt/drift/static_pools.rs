//! Drift of pools with a fixed number of nodes (spec disruption 3.7): one replacement per node, straight from
//! the template, as far as budget and node limit allow. Nothing is simulated: the pool keeps its number of nodes.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Launch, Method, Node, Pool, PoolName, Price, Reason};

use super::{Stays, believed};
use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::command;
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

/// Proposes to replace one node, if its pool has `room` for the replacement.
fn one<'a>(pass: &mut Pass<'a>, room: &mut Room, candidate: &Candidate<'a>) -> Result<(), Stays> {
    let (pool, snapshot) = (candidate.pool, pass.snapshot);
    let because = |code| Stays::Because(Reason::new(code, &pool.name));
    if room.has_surplus {
        return Err(because(ReasonCode::ScaleDownFirst));
    }
    pass.check_budget(METHOD, candidate).map_err(Stays::Because)?;
    if room.left == Some(0) && snapshot.settings.gates.terminate_first_drift {
        return terminate_first(pass, candidate);
    }
    if room.left == Some(0) {
        if let Some(limit) = room.always_full {
            let text = format!(
                "Drifted nodes stay: the limit of {limit} nodes leaves no room for a replacement, which comes before a node goes"
            );
            pass.note(Note::pool(&pool.name, NoteKind::DisruptionBlocked, text).distinguished_by("limit"));
        }
        return Err(because(ReasonCode::NoHeadroom));
    }
    pass.may_command()
        .and_then(|()| brake::from_template(pool, pass.memory, snapshot))
        .map_err(Stays::Held)?;
    pass.take_budget(METHOD, candidate).map_err(Stays::Because)?;
    room.left = room.left.map(|left| left.saturating_sub(1));
    let replacements = vec![Launch::from_template(pool, &snapshot.settings, &snapshot.registry)];
    brake::tries(&replacements, pass.memory, snapshot);
    let own = std::slice::from_ref(candidate);
    // The price of a launch from the template is not known yet, so no savings are stated.
    let savings = Price::ZERO;
    pass.propose(Command { savings, ..command(METHOD, own, replacements, Vec::new(), snapshot) });
    Ok(())
}

/// Proposes to remove one node before what takes its place, for which its pool has no room; that is launched by what keeps
/// the number of its nodes. Nodes that are still missing count as disrupted, also once their instances are being ended, which
/// budgets no longer count.
fn terminate_first<'a>(pass: &mut Pass<'a>, candidate: &Candidate<'a>) -> Result<(), Stays> {
    let (pool, snapshot) = (candidate.pool, pass.snapshot);
    if !pool.ready || pool.deleting {
        let text = "static NodePool is at its node limit and is not ready to provision a replacement";
        pass.note(Note::blocked(
            &candidate.node.id,
            ReasonCode::NoHeadroom,
            pool.name.as_str(),
            text.to_owned(),
        ));
        return Err(Stays::Because(Reason::new(ReasonCode::NoHeadroom, &pool.name)));
    }
    let missing = missing(pool, pass);
    if pass.budgets.allowed(&pool.name, METHOD.reason()) <= missing {
        let detail = format!("{} waits for {missing} nodes that are to take the place of others", pool.name);
        return Err(Stays::Because(Reason::new(ReasonCode::Budget, detail)));
    }
    pass.may_command()
        .and_then(|()| brake::from_template(pool, pass.memory, snapshot))
        .map_err(Stays::Held)?;
    pass.take_budget(METHOD, candidate).map_err(Stays::Because)?;
    let own = std::slice::from_ref(candidate);
    let command = command(METHOD, own, Vec::new(), Vec::new(), snapshot);
    pass.propose(Command { savings: Price::ZERO, terminate_first: true, ..command });
    Ok(())
}

/// Returns how many of the nodes that `pool` wants are missing or being removed: by commands of this pass too.
fn missing(pool: &Pool, pass: &Pass<'_>) -> u32 {
    let stays = |node: &&std::sync::Arc<Node>| {
        let own = node.claim.as_ref().and_then(|claim| claim.pool.as_ref()) == Some(&pool.name);
        own && node.initialized() && !node.is_leaving() && !pass.is_taken(&node.id)
    };
    let there = pass.snapshot.nodes.iter().filter(stays).count();
    let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
    u32::try_from(wanted.saturating_sub(there)).unwrap_or(u32::MAX)
}
