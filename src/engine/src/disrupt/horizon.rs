//! Instant until which a decision stands if nothing changes but the time.
//!
//! Everything a decision takes from the clock is a comparison with an instant that is known beforehand: the end of a
//! nomination, of a quiet time, of a do-not-disrupt, of a hold or of the toleration of a condition, the edges of budget
//! windows, and the instants at which the memory forgets. The earliest of those ahead is the horizon; code that lets another
//! answer depend on time adds its instant here (`tests/it/disruption/settled.rs` compares with deciding afresh at every
//! step).

use jiff::Timestamp;
use karpenter_model::clock::later;
use karpenter_model::{ConditionType, DoNotDisrupt, Node, Pod, Pool, Snapshot};

use crate::disrupt::budget::cron::Schedule;
use crate::disrupt::candidate::choice::eligible_at;
use crate::disrupt::lookup::Lookup;
use crate::disrupt::memory::{Memory, SETTLED_FOR};

/// The first instant after that of `snapshot` at which a decision might be another, or everything is to be looked at
/// again, whatever is remembered.
pub(crate) fn horizon(snapshot: &Snapshot, memory: &Memory) -> Timestamp {
    let now = snapshot.now;
    let brakes = &snapshot.settings.disruption.brakes;
    let lookup = Lookup::new(snapshot);
    let nodes = snapshot.nodes.iter().flat_map(|node| {
        let pool = node.pool().and_then(|name| lookup.pool(&name));
        let drifted = node.claim.as_ref().and_then(|claim| claim.true_since(ConditionType::Drifted));
        let believed = drifted.and_then(|at| at.checked_add(brakes.mass_drift_hold).ok());
        let own = [node.nominated_until, pool.and_then(|pool| quiet(node, pool)), believed];
        let tolerated = eligible_at(node, &snapshot.repair);
        own.into_iter().flatten().chain(tolerated).chain(node.pods.iter().filter_map(|pod| unprotected(pod)))
    });
    let windows = snapshot.pools.iter().flat_map(|pool| edges(pool, now));
    let remembered = memory.instants(brakes.anti_flap_window, brakes.health_gate_pause);
    let latest = later(now, SETTLED_FOR);
    nodes.chain(windows).chain(remembered).filter(|at| *at > now).fold(latest, Timestamp::min)
}

/// Returns the end of the quiet time of a node.
fn quiet(node: &Node, pool: &Pool) -> Option<Timestamp> {
    let since = node.claim.as_deref()?.quiet_since()?;
    since.checked_add(pool.disruption.consolidate_after?).ok()
}

/// Returns the end of the pod's do-not-disrupt.
fn unprotected(pod: &Pod) -> Option<Timestamp> {
    let DoNotDisrupt::For(duration) = pod.do_not_disrupt else { return None };
    pod.started_at?.checked_add(duration).ok()
}

/// Returns the next instant at which each budget window of `pool` opens or closes.
fn edges(pool: &Pool, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let windows = pool.disruption.budgets.iter().filter_map(|budget| budget.window.as_ref());
    windows.filter_map(move |window| Schedule::parse(&window.schedule).ok()?.changes(window.duration, now))
}
