//! Brakes: limits that hold disruption back when something has gone wrong; all in one place. In normal operation none of the
//! brakes is felt. Each has a setting ([`karpenter_model::settings::Brakes`]), an event (`DisruptionHeld`) and a
//! count.
//!
//! - mass drift: after a start, or when instance types vanish from the provider's list, drift of many nodes at once smells
//!   of missing or misread data. It is held until it has lasted longer than drift takes to be found wrong;
//! - health gate: when replacements of a pool do not come up, nothing more is replaced by nodes of it, except for one
//!   try after every pause (30 min by default);
//! - no capacity: a node of a static pool is not given up for one that cannot be bought now;
//! - anti-flap: a node that took over from another one is not replaced by one like that shortly after, and one that was
//!   launched because a removal did not work out is not removed in the same way;
//! - command rate: this number of commands per minute and no more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_model::names::reason;
use karpenter_model::settings::Brakes;
use karpenter_model::{Claim, ConditionType, Launch, NodeId, Pool, Reason, Snapshot};

use crate::disrupt::candidate::Candidate;
use crate::disrupt::decision::Brake;
use crate::disrupt::memory::{Limits, Memory};

/// A brake that was put on, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) brake: Brake,
    pub(crate) reason: Reason,
}

impl Held {
    fn new(brake: Brake, detail: impl std::fmt::Display) -> Self {
        Self { brake, reason: Reason::new(brake.code(), detail) }
    }
}

/// Nodes whose drift waits to be confirmed, and until when.
pub(crate) fn mass_drift(snapshot: &Snapshot, since: Option<Timestamp>) -> BTreeMap<NodeId, Held> {
    let brakes = &snapshot.settings.disruption.brakes;
    let managed = snapshot.nodes.iter().filter(|node| node.is_managed()).count();
    let fresh: Vec<(&NodeId, Timestamp)> = snapshot
        .nodes
        .iter()
        .filter_map(|node| Some((&node.id, suspicious(node.claim.as_deref()?, brakes, since, snapshot.now)?)))
        .collect();
    let percent = fresh.len().saturating_mul(100) / managed.max(1);
    let few = fresh.len() < usize::try_from(brakes.mass_drift_least).unwrap_or(usize::MAX);
    // A share of 100 % switches the brake off.
    if few || percent <= usize::from(brakes.mass_drift_percent) || brakes.mass_drift_percent >= 100 {
        return BTreeMap::new();
    }
    let many = fresh.len();
    let held = fresh.into_iter().map(|(id, until)| {
        (id.clone(), Held::new(Brake::MassDrift, format_args!("{many} of {managed} nodes, until {until}")))
    });
    held.collect()
}

/// Returns the instant until which the drift of `claim` is too fresh to be believed, if it is.
fn suspicious(claim: &Claim, brakes: &Brakes, since: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    let at = claim.true_since(ConditionType::Drifted)?;
    let reason = &claim.conditions.get(&ConditionType::Drifted)?.reason;
    let started = since.is_some_and(|since| {
        let quiet = since.checked_add(brakes.mass_drift_quiet_after_start).unwrap_or(since);
        // Drift that is older than the process was not found from data that it may have read incompletely.
        (since..quiet).contains(&at)
    });
    let until = at.checked_add(brakes.mass_drift_hold).ok()?;
    ((started || reason == reason::INSTANCE_TYPE_NOT_FOUND) && now < until).then_some(until)
}

/// Checks whether one more node of `pool` may be replaced, judged by earlier replacements. A caller that goes on says so
/// with [`tries`].
pub(crate) fn health_gate(
    pool: &Pool,
    memory: &mut Memory,
    now: Timestamp,
    brakes: &Brakes,
) -> Result<(), Held> {
    if memory.may_replace(pool, now, gate_limits(brakes)) {
        return Ok(());
    }
    Err(Held::new(Brake::HealthGate, format_args!("pool {}", pool.name)))
}

/// Checks whether `pool` can launch one more node from its template that may be relied upon.
pub(crate) fn from_template(pool: &Pool, memory: &mut Memory, snapshot: &Snapshot) -> Result<(), Held> {
    capacity(pool, snapshot)?;
    health_gate(pool, memory, snapshot.now, &snapshot.settings.disruption.brakes)
}

/// Checks whether the pools of `launches` may be relied upon.
pub(crate) fn health_gates<'l>(
    launches: impl IntoIterator<Item = &'l Launch>,
    memory: &mut Memory,
    snapshot: &Snapshot,
) -> Result<(), Held> {
    for launch in launches {
        if let Some(pool) = snapshot.pools.iter().find(|pool| pool.name == launch.pool) {
            health_gate(pool, memory, snapshot.now, &snapshot.settings.disruption.brakes)?;
        }
    }
    Ok(())
}

/// Records that one command is going to try `launches`.
pub(crate) fn tries(launches: &[Launch], memory: &mut Memory, snapshot: &Snapshot) {
    let limits = gate_limits(&snapshot.settings.disruption.brakes);
    for launch in launches {
        memory.tries(&launch.pool, snapshot.now, limits);
    }
}

fn gate_limits(brakes: &Brakes) -> Limits {
    Limits { failures: brakes.health_gate_failures, pause: brakes.health_gate_pause }
}

/// Checks whether `pool` can launch anything at all now, if the settings ask for that.
pub(crate) fn capacity(pool: &Pool, snapshot: &Snapshot) -> Result<(), Held> {
    if !snapshot.settings.disruption.brakes.launchable_capacity {
        return Ok(());
    }
    let none = || Held::new(Brake::NoCapacity, format_args!("pool {}", pool.name));
    let types = snapshot.instance_types.get(&pool.name).ok_or_else(none)?;
    let wanted = &pool.template.requirements;
    let launchable =
        types.iter().filter(|known| known.requirements.intersects(wanted).is_ok()).any(|known| {
            let offered = |offering: &karpenter_model::Offering| {
                offering.is_launchable() && offering.requirements.intersects(wanted).is_ok()
            };
            known.offerings.iter().any(offered)
        });
    if launchable { Ok(()) } else { Err(none()) }
}

/// Checks that replacing `candidate` by `launches` does not restore a recent state. Only one for one, or for
/// nothing: what splits a node is not a way back.
pub(crate) fn anti_flap(
    candidate: &Candidate<'_>,
    launches: &[Launch],
    memory: &Memory,
    now: Timestamp,
) -> Result<(), Held> {
    let launch = match launches {
        [] => return bought_back(candidate, memory, now),
        [launch] => launch,
        _ => return Ok(()),
    };
    let Some((instance_type, capacity_type)) = memory.predecessor(&candidate.claim.name) else {
        return Ok(());
    };
    let Some(cheapest) = &launch.cheapest else { return Ok(()) };
    if (&cheapest.instance_type, &cheapest.capacity_type) == (instance_type, capacity_type) {
        let detail = format!("from {instance_type} ({capacity_type}), where it would go back to");
        return Err(Held::new(Brake::AntiFlap, detail));
    }
    Ok(())
}

/// Checks that removing `candidate` does not repeat a removal after which a node had to be launched: this one.
pub(crate) fn bought_back(candidate: &Candidate<'_>, memory: &Memory, now: Timestamp) -> Result<(), Held> {
    let Some(until) = memory.bought_back(&candidate.claim.name, now) else { return Ok(()) };
    let detail = format!("launched for pods that were to fit on other nodes, until {until:.0}");
    Err(Held::new(Brake::AntiFlap, detail))
}

/// Returns how many more commands may be decided, given those that started within the last minute and those that wait.
pub(crate) fn commands_left(memory: &Memory, waiting: usize, brakes: &Brakes) -> Option<usize> {
    let limit = usize::try_from(brakes.commands_per_minute).unwrap_or(usize::MAX);
    // Zero is no limit.
    (limit > 0).then(|| limit.saturating_sub(memory.recent_commands()).saturating_sub(waiting))
}

/// The brake that holds when no command is left.
pub(crate) fn command_rate(brakes: &Brakes) -> Held {
    Held::new(Brake::CommandRate, format_args!("{} per minute", brakes.commands_per_minute))
}
