//! State that a pass leaves for the next one. Lost on a restart, and nothing breaks then: it only makes the next
//! pass cheaper and fairer, and holds what the brakes remember.

mod bought_back;
mod reboots;
mod recall;
mod refused;
mod sweep;
mod unfinished;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{
    CapacityType, ClaimName, Command, InstanceTypeName, Method, NodeId, Pool, PoolName, Reason, Snapshot,
};

use crate::disrupt::Standing;
use crate::disrupt::decision::Decision;
use crate::disrupt::input::Input;
use crate::disrupt::rejection::Rejection;
use bought_back::BoughtBack;
use reboots::Reboots;
use recall::Recall;
use refused::Refused;
pub(crate) use refused::Scope;
use sweep::Sweep;
use unfinished::Unfinished;

/// Longest time for which a pass relies on there being nothing to do, or nothing to be done with a node, as long as the
/// input stays the same (spec disruption 0.7).
pub(crate) const SETTLED_FOR: Duration = Duration::from_mins(5);
/// The span in which commands are counted.
const MINUTE: Duration = Duration::from_mins(1);

/// Carried from pass to pass by the caller of [`decide`](crate::disrupt::decide), which also records the outcomes of
/// commands in it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// Instant at which the process began to lead, in whole seconds, as in conditions; that of the first pass if none was given.
    since: Option<Timestamp>,
    settled: BTreeMap<Method, Settled>,
    /// Progress of repair in looking at every broken node.
    pub(crate) repair_sweep: Sweep,
    /// Progress of drift in looking at every drifted node.
    pub(crate) drift_sweep: Sweep,
    /// Progress of consolidation in looking at every node alone.
    pub(crate) sweep: Sweep,
    /// Methods that have not come to an end, and since when.
    unfinished: Unfinished,
    /// Starts of commands, oldest first.
    started: VecDeque<Timestamp>,
    /// Claims that took over from one node, and from which.
    successors: BTreeMap<ClaimName, Succession>,
    /// Nodes that were launched for pods of nodes that went.
    bought_back: BoughtBack,
    /// Reboots of the last day.
    reboots: Reboots,
    /// Pools whose replacements do not come up.
    gates: BTreeMap<PoolName, Gate>,
    /// Nodes that second looks rejected, and those of commands that failed.
    refused: Refused,
    /// The last decision, if it changed nothing.
    recall: Option<Recall>,
}

/// Input and findings of a method that found nothing to do.
#[derive(Debug, Clone)]
struct Settled {
    input: Input,
    /// Instant when time alone may change the findings, or they have been relied on for long enough.
    until: Timestamp,
    reasons: Vec<(NodeId, Reason)>,
}

/// A node that took over from another one.
#[derive(Debug, Clone)]
struct Succession {
    from: TypeAndCapacity,
    at: Timestamp,
}

/// Properties of a node that are compared to detect a return to it.
pub(crate) type TypeAndCapacity = (InstanceTypeName, CapacityType);

/// State of the replacements of a pool.
#[derive(Debug, Clone)]
struct Gate {
    /// The template the failures are about; another one starts from zero.
    pool_hash: String,
    /// Commands in a row whose replacements did not come up.
    failures: u32,
    /// True if the pool itself reports that its nodes do not register.
    unhealthy: bool,
    /// Instant when it was closed, or one more try was allowed.
    since: Timestamp,
}

impl Gate {
    fn is_closed(&self, limits: Limits) -> bool {
        limits.failures > 0 && (self.unhealthy || self.failures >= limits.failures)
    }
}

/// The beginning of the second, as conditions record an instant in it.
fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

impl Memory {
    /// Returns the memory of a process that begins to lead at `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        Self { since: Some(whole_second(now)), ..Self::default() }
    }

    /// A command has started: its nodes are tainted and `replacements` are created, in the order of the command.
    pub fn started(&mut self, command: &Command, replacements: &[ClaimName], now: Timestamp) {
        self.recall = None;
        // Every outcome that is recorded may change the next decision, so the last one no longer stands.
        self.started.push_back(now);
        self.bought_back.started(command, replacements, now);
        self.reboots.started(command, now);
        // Only a node that took over alone from one other can lead back to it: anti-flap compares no others.
        let [candidate] = &command.candidates[..] else { return };
        let [successor] = replacements else { return };
        let replaced = candidate.instance_type.clone().zip(candidate.capacity_type);
        if let Some(from) = replaced {
            self.successors.insert(successor.clone(), Succession { from, at: now });
        }
    }

    /// A command was carried out: its nodes are gone and every replacement came up.
    pub fn succeeded(&mut self, command: &Command) {
        self.recall = None;
        self.refused.went(command.reason, command.nodes());
        for launch in &command.replacements {
            self.gates.remove(&launch.pool);
        }
    }

    /// A command had to be rolled back because something went wrong: its nodes wait before they are proposed again.
    pub fn rolled_back(&mut self, command: &Command, why: &str, now: Timestamp) {
        self.recall = None;
        let scope = Scope::Reason(command.reason);
        self.refused.note(scope, command.nodes(), &format!("rolled back, {why}"), now);
    }

    /// Nodes that were launched for a command did not come up.
    pub fn failed(&mut self, command: &Command, now: Timestamp) {
        self.recall = None;
        // Once per pool, however many nodes of it the command launched: a gate counts commands.
        let pools: BTreeMap<&PoolName, &String> =
            command.replacements.iter().map(|launch| (&launch.pool, &launch.pool_hash)).collect();
        for (pool, hash) in pools {
            let gate = self.gate(pool, hash, now);
            gate.failures += 1;
            gate.since = now;
        }
    }

    /// A second look refused a command: its nodes wait before they are proposed again.
    pub fn rejected(&mut self, command: &Command, rejection: &Rejection, now: Timestamp) {
        self.recall = None;
        let why = format!("{}: {}", rejection.kind, rejection.detail);
        let scope = Scope::of(command.method, rejection.kind);
        self.refused.note(scope, rejection.nodes.iter(), &why, now);
    }

    /// The decision for `snapshot` and `standing`, if it was made already and nothing has changed since.
    pub(crate) fn recall(&mut self, snapshot: &Snapshot, standing: &Standing<'_>) -> Option<Arc<Decision>> {
        let known = self.recall.as_ref().and_then(|recall| recall.decision(snapshot, standing)).cloned();
        if known.is_none() {
            // The input of the decision need not be held any longer.
            self.recall = None;
        }
        known
    }

    /// `decision` changed nothing and asked nothing: it stands until `until`, if nothing changes.
    pub(crate) fn remember(
        &mut self,
        snapshot: &Snapshot,
        standing: &Standing<'_>,
        until: Timestamp,
        decision: &Arc<Decision>,
    ) {
        self.recall = Some(Recall::new(snapshot, standing, until, decision));
    }

    /// Instants at which something that is remembered stops to matter.
    pub(crate) fn instants(
        &self,
        anti_flap: Duration,
        gate_pause: Duration,
    ) -> impl Iterator<Item = Timestamp> {
        let settled = self.settled.values().map(|settled| settled.until);
        let started = self.started.iter().map(|at| (*at, MINUTE));
        let flaps = self.successors.values().map(move |succession| (succession.at, anti_flap));
        let gates = self.gates.values().map(move |gate| (gate.since, gate_pause));
        let spans = started.chain(flaps).chain(gates);
        let ends = spans.filter_map(|(at, span)| at.checked_add(span).ok());
        ends.chain(settled)
            .chain(self.reboots.instants())
            .chain(self.refused.instants())
            .chain(self.bought_back.instants())
    }

    /// Returns why `node` does not go within `scope` yet, because of the result of an earlier command.
    pub(crate) fn refused(&self, scope: Scope, node: &NodeId, now: Timestamp) -> Option<Reason> {
        self.refused.why(scope, node, now)
    }

    /// Begins a pass over `snapshot`: drops what no longer matters.
    pub(crate) fn begin(&mut self, snapshot: &Snapshot) {
        let (now, settings) = (snapshot.now, &snapshot.settings);
        let anti_flap = settings.disruption.brakes.anti_flap_window;
        self.since.get_or_insert_with(|| whole_second(now));
        self.settled.retain(|_, settled| now < settled.until);
        while self.started.front().is_some_and(|at| since(*at, now) >= MINUTE) {
            self.started.pop_front();
        }
        self.successors.retain(|_, succession| within(succession.at, anti_flap, now));
        self.bought_back.look(snapshot, anti_flap);
        self.refused.forget(now);
        self.reboots.forget(now);
        self.gates.retain(|pool, _| snapshot.pools.iter().any(|known| known.name == *pool));
    }

    /// Records whether `method` came to an end in a pass; returns whether it has not for too long.
    pub(crate) fn ended(&mut self, method: Method, unfinished: bool, now: Timestamp) -> bool {
        self.unfinished.note(method, unfinished, now)
    }

    /// Returns whether the node of `claim` was rebooted so often that the next repair replaces it.
    pub(crate) fn rebooted_in_vain(&self, claim: &ClaimName) -> bool {
        self.reboots.are_used_up(claim)
    }

    /// Returns when the process began to lead.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Commands that started within the last minute.
    pub(crate) fn recent_commands(&self) -> usize {
        self.started.len()
    }

    /// Returns the type that the node of `claim` replaced recently.
    pub(crate) fn predecessor(&self, claim: &ClaimName) -> Option<&TypeAndCapacity> {
        self.successors.get(claim).map(|succession| &succession.from)
    }

    /// Returns the instant until which the node of `claim` stays because it was launched for pods of a node that had just been
    /// removed.
    pub(crate) fn bought_back(&self, claim: &ClaimName, now: Timestamp) -> Option<Timestamp> {
        self.bought_back.until(claim, now)
    }

    /// Returns why each node stayed when `method` had the same `input` and found nothing to do.
    pub(crate) fn settled(&self, method: Method, input: Input) -> Option<&[(NodeId, Reason)]> {
        let settled = self.settled.get(&method).filter(|settled| settled.input == input)?;
        Some(&settled.reasons)
    }

    /// `method` has looked at everything and found nothing to do, and will not before `until` if nothing changes.
    pub(crate) fn settle(
        &mut self,
        method: Method,
        input: Input,
        until: Timestamp,
        reasons: Vec<(NodeId, Reason)>,
    ) {
        self.settled.insert(method, Settled { input, until, reasons });
    }

    /// Returns whether replacements of `pool` may be tried now, given the conditions of the pool: not while its gate is
    /// closed, except one every `pause`. Asking is no try yet.
    pub(crate) fn may_replace(&mut self, pool: &Pool, now: Timestamp, limits: Limits) -> bool {
        if limits.failures == 0 {
            return true;
        }
        let healthy = pool.registration_healthy != Some(false);
        if healthy && !self.gates.contains_key(&pool.name) {
            return true;
        }
        let gate = self.gate(&pool.name, &pool.hash, now);
        gate.unhealthy = !healthy;
        !(gate.is_closed(limits) && within(gate.since, limits.pause, now))
    }

    /// Replacements of `pool` are tried: if its gate is closed, this is the one try.
    pub(crate) fn tries(&mut self, pool: &PoolName, now: Timestamp, limits: Limits) {
        if let Some(gate) = self.gates.get_mut(pool).filter(|gate| gate.is_closed(limits)) {
            gate.since = now;
        }
    }

    /// The gate of `pool` as long as its template is `hash`.
    fn gate(&mut self, pool: &PoolName, hash: &str, now: Timestamp) -> &mut Gate {
        let new = || Gate { pool_hash: hash.to_owned(), failures: 0, unhealthy: false, since: now };
        let gate = self.gates.entry(pool.clone()).or_insert_with(new);
        if gate.pool_hash != hash {
            *gate = new();
        }
        gate
    }
}

/// Conditions under which a gate closes, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Failures in a row; zero switches it off.
    pub(crate) failures: u32,
    /// Time until one more try.
    pub(crate) pause: Duration,
}

/// Returns whether less than `span` has passed since `at`.
fn within(at: Timestamp, span: Duration, now: Timestamp) -> bool {
    Duration::try_from(now.duration_since(at)).is_ok_and(|elapsed| elapsed < span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_goes_with_its_pool() {
        let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
        snapshot.pools = ["web", "data"].map(|name| Arc::new(Pool::bare(name))).to_vec();
        let mut memory = Memory::default();
        for pool in &snapshot.pools {
            memory.gate(&pool.name, "1", snapshot.now).failures = 3;
        }
        snapshot.pools.remove(0);
        memory.begin(&snapshot);
        assert_eq!(memory.gates.keys().map(PoolName::as_str).collect::<Vec<_>>(), ["data"]);
    }
}
