//! Drift of dynamic pools: nodes that no longer match their pool or class (spec disruption 3.8).
//! The oldest drift first, nodes without pods to move before the others, one command each, as many as
//! budgets allow; pods that could not go anywhere stop their node and no other.

pub(super) mod static_pools;

use karpenter_model::report::ReasonCode;
use karpenter_model::{ConditionType, Method, Pool, Reason};

use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::command::{Stays, command, from_reservation};
use crate::disrupt::consolidation;
use crate::disrupt::decision::Brake;
use crate::disrupt::note::Note;
use crate::disrupt::pass::{Pass, promised_to_command};
use crate::place::what_if::{Destinations, Patience, WhatIf};

const METHOD: Method = Method::Drift;

/// Proposes one command per node.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    let mut drifted = believed(pass, METHOD, |pool| pool.replicas.is_none());
    if drifted.is_empty() {
        return;
    }
    let Some(input) = pass.unsettled(METHOD, &drifted) else { return };
    pass.memory.drift_sweep.go_on(input, drifted.iter().map(|candidate| &candidate.node.id));
    // Those that were not reached last time come first, so that every node has its turn; then those that can drain:
    // one that cannot holds the budget of its pool until its deadline (kubernetes-sigs/karpenter#2466).
    drifted.sort_by_cached_key(|candidate| {
        let since = candidate.claim.true_since(ConditionType::Drifted);
        let seen = pass.memory.drift_sweep.has_seen(&candidate.node.id);
        (
            seen,
            candidate.cannot_drain(),
            candidate.moving().next().is_some(),
            since,
            candidate.node.id.clone(),
        )
    });
    let share = pass.share(consolidation::methods_to_come(pass));
    let nodes: Vec<_> = drifted.iter().map(|candidate| candidate.node).collect();
    let mut what_if = pass.what_if(&nodes, Destinations::All);
    let (mut looks_again, mut left) = (false, false);
    for candidate in &drifted {
        let id = &candidate.node.id;
        match one(pass, share, &mut what_if, candidate) {
            Ok(()) => looks_again = true,
            Err(Stays::Because(reason)) => {
                pass.memory.drift_sweep.saw(id, reason.clone());
                pass.keep(id, reason);
            }
            Err(Stays::Held(held)) => {
                looks_again = true;
                // The rate stops whatever comes, before it is looked at. Another brake stops this node, which has had its
                // turn: otherwise those of a pool whose gate is closed would use up the simulations of every pass.
                if held.brake != Brake::CommandRate {
                    pass.memory.drift_sweep.saw(id, held.reason.clone());
                }
                pass.hold(id, held);
            }
            Err(Stays::NotReached) => {
                left |= !pass.memory.drift_sweep.has_seen(id);
                pass.keep(id, pass.memory.drift_sweep.last_word(id));
            }
        }
    }
    pass.stats(METHOD).unfinished = left;
    if !left && pass.memory.drift_sweep.finish(input) && !looks_again {
        pass.settle(METHOD, input, &drifted);
    }
}

/// Drifted nodes of pools `of_kind` that `method` may replace. Holds those whose drift coincides with so much other drift that it
/// has to be confirmed first.
fn believed<'a>(pass: &mut Pass<'a>, method: Method, of_kind: fn(&Pool) -> bool) -> Vec<Candidate<'a>> {
    let held = brake::mass_drift(pass.snapshot, pass.memory.since());
    pass.eligible(method, |pass, candidate| {
        if !of_kind(candidate.pool) || !candidate.is_drifted() {
            return false;
        }
        match held.get(&candidate.node.id) {
            Some(held) => pass.hold(&candidate.node.id, held.clone()),
            None => return true,
        }
        false
    })
}

/// Proposes to replace one node, if one of the `share` of simulations is left.
fn one<'a>(
    pass: &mut Pass<'a>,
    share: u32,
    what_if: &mut WhatIf<'a>,
    candidate: &Candidate<'a>,
) -> Result<(), Stays> {
    if pass.is_promised(&candidate.node.id) {
        return Err(Stays::Because(promised_to_command()));
    }
    // Checked before the simulation, which costs more, and taken after it, when the node is certain to go.
    pass.check_budget(METHOD, candidate).map_err(Stays::Because)?;
    pass.may_command().map_err(Stays::Held)?;
    if pass.stats(METHOD).simulations >= share {
        return Err(Stays::NotReached);
    }
    pass.spend(METHOD, 1);
    let simulated = what_if.without(&[candidate.node], Patience::Full);
    if !simulated.unplaced.is_empty()
        && pass.snapshot.settings.gates.terminate_first_drift
        && let Some(command) = from_reservation(pass, share, candidate, METHOD)?
    {
        pass.take_budget(METHOD, candidate).map_err(Stays::Because)?;
        what_if.commit(&[candidate.node]);
        pass.propose(command);
        return Ok(());
    }
    if !simulated.unplaced.is_empty() {
        let reason = Reason::new(ReasonCode::CannotReschedule, simulated.why_unplaced());
        let text = format!("Not all pods would schedule, {}", reason.detail);
        let first = simulated.unplaced.first().map(|(pod, _)| pod.to_string()).unwrap_or_default();
        pass.note(Note::blocked(&candidate.node.id, reason.code, &first, text));
        return Err(Stays::Because(reason));
    }
    let launches = simulated.launches.iter().map(|quoted| &quoted.launch);
    brake::health_gates(launches, pass.memory, pass.snapshot).map_err(Stays::Held)?;
    pass.take_budget(METHOD, candidate).map_err(Stays::Because)?;
    what_if.commit(&[candidate.node]);
    let replacements = simulated.launches.into_iter().map(|quoted| quoted.launch).collect();
    let own = std::slice::from_ref(candidate);
    let command = command(METHOD, own, replacements, simulated.nominations, pass.snapshot);
    brake::tries(&command.replacements, pass.memory, pass.snapshot);
    pass.propose(command);
    Ok(())
}
