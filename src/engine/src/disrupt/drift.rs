//! Drift of dynamic pools: machines that no longer are what their pool or class asks for (spec core-disruption 3.8).
//! The oldest drift first, machines nobody would have to leave before the others, one command each, as many as
//! budgets allow; pods that could not go anywhere stop their machine and no other.

use std::collections::BTreeSet;

use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, ConditionType, Method, Price, Reason};

use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::pass::Pass;
use crate::place::what_if::{Destinations, Patience, Simulated, WhatIf};

const METHOD: Method = Method::Drift;

/// Proposes one command per machine.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    let held = brake::mass_drift(pass.snapshot, pass.memory.since());
    let mut drifted = pass.eligible(METHOD, |pass, candidate| {
        if candidate.pool.replicas.is_some() || !candidate.is_drifted() {
            return false;
        }
        match held.get(&candidate.node.id) {
            Some(held) => pass.hold(&candidate.node.id, held.clone()),
            None => return true,
        }
        false
    });
    if drifted.is_empty() {
        return;
    }
    let Some(input) = pass.unsettled(METHOD, &drifted) else { return };
    // Those that were not reached last time come first, so that every machine has its turn.
    drifted.sort_by_cached_key(|candidate| {
        let since = candidate.claim.true_since(ConditionType::Drifted);
        let seen = pass.memory.has_seen(METHOD, &candidate.node.id);
        (seen, candidate.moving().next().is_some(), since, candidate.node.id.clone())
    });
    let nodes: Vec<_> = drifted.iter().map(|candidate| candidate.node).collect();
    let mut what_if = pass.what_if(&nodes, Destinations::All);
    let mut found_something = false;
    for candidate in &drifted {
        match one(pass, &mut what_if, candidate) {
            Looked::Chosen => found_something = true,
            Looked::Kept => {}
            Looked::NotYet => {
                pass.keep(&candidate.node.id, Reason::bare(ReasonCode::NextPass));
                continue;
            }
        }
        pass.memory.saw(METHOD, &candidate.node.id);
    }
    if !pass.stats(METHOD).timed_out {
        pass.memory.swept(METHOD);
        if !found_something {
            pass.settle(METHOD, input, &drifted);
        }
    }
}

/// What became of one machine.
enum Looked {
    Chosen,
    Kept,
    NotYet,
}

fn one<'a>(pass: &mut Pass<'a>, what_if: &mut WhatIf<'a>, candidate: &Candidate<'a>) -> Looked {
    let id = &candidate.node.id;
    if let Err(reason) = pass.check_budget(METHOD, candidate) {
        pass.keep(id, reason);
        return Looked::Kept;
    }
    if let Err(held) = pass.may_command() {
        pass.hold(id, held);
        return Looked::Kept;
    }
    if !pass.may_simulate(METHOD) {
        return Looked::NotYet;
    }
    let simulated = what_if.without(&[candidate.node], Patience::Full);
    if !simulated.unplaced.is_empty() {
        let reason = Reason::new(ReasonCode::CannotReschedule, unplaced(&simulated));
        let text = format!("Not all pods would schedule, {}", reason.detail);
        pass.note(Note::machine(id, NoteKind::DisruptionBlocked, text));
        pass.keep(id, reason);
        return Looked::Kept;
    }
    if !simulated.launches.is_empty() {
        let brakes = &pass.snapshot.settings.disruption.brakes;
        for quoted in &simulated.launches {
            let pool = pass.snapshot.pools.iter().find(|pool| pool.name == quoted.launch.pool);
            let gate = pool.map(|pool| brake::health_gate(pool, pass.memory, pass.snapshot.now, brakes));
            if let Some(Err(held)) = gate {
                pass.hold(id, held);
                return Looked::Kept;
            }
        }
    }
    if let Err(reason) = pass.take_budget(METHOD, candidate) {
        pass.keep(id, reason);
        return Looked::Kept;
    }
    what_if.commit(&[candidate.node]);
    pass.propose(command(candidate, simulated, pass));
    Looked::Chosen
}

/// The command that replaces `candidate` as simulated, at once: drift takes no second look.
fn command(candidate: &Candidate<'_>, simulated: Simulated, pass: &Pass<'_>) -> Command {
    let replacements: Vec<_> = simulated.launches.into_iter().map(|quoted| quoted.launch).collect();
    let own: BTreeSet<_> = candidate.moving().map(|pod| &pod.key).collect();
    let mut nominations = simulated.nominations;
    nominations.retain(|nomination| own.contains(&nomination.pod));
    let cheapest = replacements.iter().filter_map(|launch| launch.cheapest.as_ref());
    let cost: Price = cheapest.map(|offering| offering.price).sum();
    Command {
        method: METHOD,
        reason: METHOD.reason(),
        savings: candidate.price.saturating_sub(cost),
        candidates: vec![candidate.disrupted()],
        replacements,
        nominations,
        not_before: pass.snapshot.now,
    }
}

/// Pods without a place and why, for events and reasons.
pub(crate) fn unplaced(simulated: &Simulated) -> String {
    let pods = simulated.unplaced.iter().map(|(pod, why)| format!("{pod} => {why}"));
    pods.collect::<Vec<_>>().join(" ")
}
