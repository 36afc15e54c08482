//! Drift of pools with a fixed number of nodes (spec disruption 3.7): one replacement per node, straight from
//! the template, as far as budget and node limit allow. Nothing is simulated: the pool keeps its number of nodes.

use std::collections::BTreeMap;

use karpenter_model::report::ReasonCode;
use karpenter_model::resources;
use karpenter_model::{Command, Launch, Method, Pool, PoolName, Price, Reason};

use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::pass::Pass;

const METHOD: Method = Method::StaticDrift;

/// Proposes one command per node.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    if !pass.snapshot.settings.gates.static_capacity {
        return;
    }
    let held = brake::mass_drift(pass.snapshot, pass.memory.since());
    let drifted = pass.eligible(METHOD, |pass, candidate| {
        if candidate.pool.replicas.is_none() || !candidate.is_drifted() {
            return false;
        }
        match held.get(&candidate.node.id) {
            Some(held) => pass.hold(&candidate.node.id, held.clone()),
            None => return true,
        }
        false
    });
    let mut by_pool: BTreeMap<&PoolName, Vec<Candidate<'_>>> = BTreeMap::new();
    for candidate in drifted {
        by_pool.entry(&candidate.pool.name).or_default().push(candidate);
    }
    for candidates in by_pool.values() {
        replace(pass, candidates);
    }
}

/// Replaces drifted nodes of one pool.
fn replace<'a>(pass: &mut Pass<'a>, candidates: &[Candidate<'a>]) {
    let Some(first) = candidates.first() else { return };
    let (pool, snapshot) = (first.pool, pass.snapshot);
    let (mut room, has_surplus) = room(pool, pass);
    for candidate in candidates {
        let id = &candidate.node.id;
        if has_surplus {
            pass.keep(id, Reason::new(ReasonCode::ScaleDownFirst, &pool.name));
            continue;
        }
        if let Err(reason) = pass.check_budget(METHOD, candidate) {
            pass.keep(id, reason);
            continue;
        }
        if room == Some(0) {
            pass.keep(id, Reason::new(ReasonCode::NoHeadroom, &pool.name));
            continue;
        }
        let brakes = &snapshot.settings.disruption.brakes;
        let checks = pass
            .may_command()
            .and_then(|()| brake::capacity(pool, snapshot))
            .and_then(|()| brake::health_gate(pool, pass.memory, snapshot.now, brakes));
        if let Err(held) = checks {
            pass.hold(id, held);
            continue;
        }
        if let Err(reason) = pass.take_budget(METHOD, candidate) {
            pass.keep(id, reason);
            continue;
        }
        room = room.map(|room| room.saturating_sub(1));
        let replacements = vec![Launch::from_template(pool, &snapshot.settings, &snapshot.registry)];
        brake::tries(&replacements, pass.memory, snapshot);
        pass.propose(Command {
            method: METHOD,
            reason: METHOD.reason(),
            candidates: vec![candidate.disrupted()],
            replacements,
            nominations: Vec::new(),
            savings: Price::ZERO,
            not_before: snapshot.now,
        });
    }
}

/// How many nodes `pool` may have more, and whether it has more than it wants already. What earlier commands launch
/// is there already, as far as the limit goes; so are nodes being removed.
fn room(pool: &Pool, pass: &Pass<'_>) -> (Option<usize>, bool) {
    let own = || {
        let claims = pass.snapshot.nodes.iter().filter(|node| node.is_managed());
        claims.filter(|node| node.claim.as_ref().and_then(|claim| claim.pool.as_ref()) == Some(&pool.name))
    };
    let staying = own().filter(|node| !node.is_leaving()).count();
    let wanted = usize::try_from(pool.replicas.unwrap_or(0)).unwrap_or(0);
    let limit = pool.limits.as_ref().and_then(|limits| limits.get(resources::NODES));
    let limit = limit.map(|limit| usize::try_from(limit.as_units_ceil()).unwrap_or(0));
    let there = own().count() + pass.coming(&pool.name);
    (limit.map(|limit| limit.saturating_sub(there)), staying > wanted)
}
