//! Repair: nodes that have shown a bad condition for longer than it is tolerated (spec disruption 4.2).
//! First of the methods: what is broken goes before what is too much. As everywhere, what takes its place comes up first,
//! within budgets; the worst node first, one command per pass, so that the next pass sees its effect.
//!
//! A reboot keeps the node and its place: nothing is simulated, and nothing comes up first. Every third one within a day is a
//! replacement.

pub(super) mod breaker;
pub(super) mod objection;

use std::cmp::Reverse;

use karpenter_model::repair::{Repair, RepairAction};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, DisruptionReason, Method, Price, Reason};

use crate::disrupt::brake;
use crate::disrupt::candidate::Candidate;
use crate::disrupt::candidate::choice::{Choice, choice};
use crate::disrupt::command::{Stays, command, from_reservation, from_template};
use crate::disrupt::consolidation;
use crate::disrupt::decision::Brake;
use crate::disrupt::lookup::Lookup;
use crate::disrupt::note::Note;
use crate::disrupt::pass::{Pass, promised_to_command};
use crate::place::what_if::{Destinations, Patience, WhatIf};
use breaker::tripped;
pub(super) use objection::wanted;

const METHOD: Method = Method::Repair;
/// Methods that may come after this one and simulate besides those of consolidation: drift.
const OTHERS: usize = 1;

/// A node that is to be repaired, and how.
#[derive(Debug, Clone)]
struct Broken<'a> {
    candidate: Candidate<'a>,
    choice: Choice<'a>,
    repair: Repair,
}

/// Proposes at most one command.
pub(crate) fn propose(pass: &mut Pass<'_>) {
    if pass.snapshot.repair.is_empty() {
        return;
    }
    let mut broken = eligible(pass);
    pass.stats(METHOD).eligible = u32::try_from(broken.len()).unwrap_or(u32::MAX);
    if broken.is_empty() {
        return;
    }
    let candidates: Vec<_> = broken.iter().map(|one| one.candidate.clone()).collect();
    pass.tell_closed(METHOD, &candidates);
    let Some(input) = pass.unsettled(METHOD, &candidates) else { return };
    pass.memory.repair_sweep.go_on(input, broken.iter().map(|one| &one.candidate.node.id));
    // Those that were not reached last time come first, so that every node has its turn.
    broken.sort_by_cached_key(|one| {
        let (node, cost) = (one.candidate.node, one.candidate.cost);
        (pass.memory.repair_sweep.has_seen(&node.id), Reverse(one.choice.score), cost, node.name.clone())
    });
    let share = pass.share(OTHERS + consolidation::methods_to_come(pass));
    let nodes: Vec<_> = broken.iter().map(|one| one.candidate.node).collect();
    let mut what_if = pass.what_if(&nodes, Destinations::All);
    let (mut looks_again, mut left) = (false, false);
    for (position, one) in broken.iter().enumerate() {
        let id = &one.candidate.node.id;
        match repair(pass, share, &mut what_if, one) {
            Ok(()) => {
                // The next pass looks at what this one leaves.
                for other in &broken[position + 1..] {
                    pass.keep(&other.candidate.node.id, Reason::bare(ReasonCode::NextPass));
                }
                return;
            }
            Err(Stays::Because(reason)) => {
                pass.memory.repair_sweep.saw(id, reason.clone());
                pass.keep(id, reason);
            }
            Err(Stays::Held(held)) => {
                looks_again = true;
                // As in drift: the rate stops whatever comes, before it is looked at.
                if held.brake != Brake::CommandRate {
                    pass.memory.repair_sweep.saw(id, held.reason.clone());
                }
                pass.hold(id, held);
            }
            Err(Stays::NotReached) => {
                left |= !pass.memory.repair_sweep.has_seen(id);
                pass.keep(id, pass.memory.repair_sweep.last_word(id));
            }
        }
    }
    pass.stats(METHOD).unfinished = left;
    if !left && pass.memory.repair_sweep.finish(input) && !looks_again {
        pass.settle(METHOD, input, &candidates);
    }
}

/// Returns the nodes whose condition was tolerated long enough and that nothing keeps, and records why the other ones stay.
fn eligible<'a>(pass: &mut Pass<'a>) -> Vec<Broken<'a>> {
    let snapshot = pass.snapshot;
    let policies = &snapshot.repair;
    let sick: Vec<_> = snapshot
        .nodes
        .iter()
        .filter(|node| !pass.is_taken(&node.id))
        .filter_map(|node| Some((node.as_ref(), choice(node, policies, snapshot.now)?)))
        .collect();
    if sick.is_empty() {
        return Vec::new();
    }
    let (lookup, tripped) = (Lookup::new(snapshot), tripped(snapshot));
    let mut broken = Vec::new();
    for (node, choice) in sick {
        let candidate = match Candidate::broken(node, &lookup) {
            Ok(candidate) => candidate,
            Err(blocker) => {
                pass.keep(&node.id, blocker.reason());
                continue;
            }
        };
        match wanted(&candidate, &choice, &tripped) {
            Ok(mut repair) => {
                if pass.memory.rebooted_in_vain(&candidate.claim.name) {
                    repair.action = RepairAction::Replace;
                }
                if !pass.was_refused(METHOD, &candidate) {
                    broken.push(Broken { candidate, choice, repair });
                }
            }
            Err(objection) => {
                for note in objection.notes(&candidate) {
                    pass.note(note);
                }
                pass.keep(&node.id, objection.reason());
            }
        }
    }
    broken
}

/// Proposes to repair one node, if one of the `share` of simulations is left for it.
fn repair<'a>(
    pass: &mut Pass<'a>,
    share: u32,
    what_if: &mut WhatIf<'a>,
    broken: &Broken<'a>,
) -> Result<(), Stays> {
    let candidate = &broken.candidate;
    if pass.is_promised(&candidate.node.id) {
        return Err(Stays::Because(promised_to_command()));
    }
    pass.budgets
        .check(candidate, DisruptionReason::Unhealthy)
        .map_err(|exhausted| Stays::Because(exhausted.reason()))?;
    // A drain that ends anyway need not wait for that of another node.
    if broken.repair.drain.is_none() {
        pass.evictions.check(candidate.node).map_err(|blocker| Stays::Because(blocker.reason()))?;
    }
    pass.may_command().map_err(Stays::Held)?;
    let command = match (broken.repair.action, candidate.pool.replicas) {
        (RepairAction::Reboot, _) => reboot(pass, candidate),
        (RepairAction::Replace, Some(_)) => one_for_one(pass, candidate)?,
        (RepairAction::Replace, None) => simulated(pass, share, what_if, candidate)?,
    };
    pass.budgets
        .take(candidate, DisruptionReason::Unhealthy)
        .map_err(|exhausted| Stays::Because(exhausted.reason()))?;
    brake::tries(&command.replacements, pass.memory, pass.snapshot);
    pass.propose(Command { repair: Some(broken.repair.clone()), ..command });
    Ok(())
}

/// The command that reboots the instance of a node. Its pods come back to it, or go where there is room meanwhile.
fn reboot(pass: &Pass<'_>, candidate: &Candidate<'_>) -> Command {
    let own = std::slice::from_ref(candidate);
    let command = command(METHOD, own, Vec::new(), Vec::new(), pass.snapshot);
    // The node stays, and costs what it did.
    Command { savings: Price::ZERO, ..command }
}

/// The command for a node of a dynamic pool: all of its pods that come back elsewhere must have a place.
fn simulated<'a>(
    pass: &mut Pass<'a>,
    share: u32,
    what_if: &mut WhatIf<'a>,
    candidate: &Candidate<'a>,
) -> Result<Command, Stays> {
    if pass.stats(METHOD).simulations >= share {
        return Err(Stays::NotReached);
    }
    pass.spend(METHOD, 1);
    let simulated = what_if.without(&[candidate.node], Patience::Full);
    if !simulated.unplaced.is_empty()
        && pass.snapshot.settings.gates.terminate_first_repair
        && let Some(command) = from_reservation(pass, share, candidate, METHOD)?
    {
        return Ok(command);
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
    let replacements = simulated.launches.into_iter().map(|quoted| quoted.launch).collect();
    let own = std::slice::from_ref(candidate);
    Ok(command(METHOD, own, replacements, simulated.nominations, pass.snapshot))
}

/// The command for a node of a static pool, which keeps its number of nodes.
fn one_for_one<'a>(pass: &mut Pass<'a>, candidate: &Candidate<'a>) -> Result<Command, Stays> {
    let (pool, gates) = (candidate.pool, pass.snapshot.settings.gates);
    if !gates.static_capacity {
        return Err(Stays::Because(Reason::new(ReasonCode::PoolStatic, &pool.name)));
    }
    let room = pass.room(pool);
    if room.left == Some(0) && !(gates.terminate_first_repair || room.has_surplus) {
        let text = "static NodePool is at its node limit and cannot stage a replacement";
        pass.note(Note::blocked(&candidate.node.id, ReasonCode::NoHeadroom, pool.name.as_str(), text));
    }
    from_template(pass, &room, candidate, METHOD, gates.terminate_first_repair)
}
