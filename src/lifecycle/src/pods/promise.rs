//! The record of what pods were promised: a place on a machine, from the launch on.
//!
//! Every promise ends in one of three ways ([`Ending`]): the pod is bound; the promise is withdrawn, because the pod, the
//! claim or its template has gone, or because other pods took the room; or it is **broken**: the machine came otherwise
//! than announced, the planner itself does not send the pod there any more, or the scheduler does not use it. Launching
//! again would buy the same machine for ever, so broken promises are counted per [`Workload`]:
//!
//! - at most [`NODES`](record::NODES) nodes are bought for a workload that none of them serves, or as many as one plan
//!   bought before the first of them was up. While one is in doubt, its pods are planned for
//!   ([`Promises::held`]) and launched for ([`Promises::plan`]) up to the number of nodes that are left;
//! - then the workload is held, until one of its pods is bound anywhere, or what the record rests on has changed
//!   (`promise/record.rs`);
//! - what has been counted survives a change of leader: [`Promises::saved`] is kept with the pool, and claims carry the
//!   workloads they were launched for ([`Promises::restore`]).
//!
//! The reference has no such memory.

mod arrival;
mod record;
mod workload;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{
    ClaimName, ConditionType, Node, Plan, Pod, PodKey, PodUid, PoolName, Resources, Snapshot, names,
};
use serde::{Deserialize, Serialize};

pub use workload::Workload;
pub use world::World;

use arrival::{Arrival, Stage};
use record::Record;
pub(crate) use record::{HOLD_MAX, HOLD_MIN};

/// Longest time a pod may wait next to an initialized node it was promised.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// Longest such time for a pod with volumes, which are made or attached before it is bound.
pub(crate) const PATIENCE_WITH_VOLUMES: Duration = Duration::from_mins(10);
/// Longest such time while the scheduler binds other pods to the nodes they were promised: it is behind, and has refused nothing.
/// A burst of pods keeps it busy for minutes.
const PATIENCE_WHILE_BINDING: Duration = Duration::from_mins(10);
/// Time for which a pod whose room others have taken waits for the nodes that are still coming: the pods left over once
/// those are there are launched for together.
const LAST_NODES: Duration = Duration::from_secs(10);

/// Every open promise, and every workload that nodes have not served.
#[derive(Debug, Default)]
pub struct Promises {
    open: BTreeMap<PodKey, Promise>,
    /// The machines of open promises, when a pass last saw them.
    arrivals: BTreeMap<ClaimName, Arrival>,
    records: BTreeMap<Workload, Record>,
    /// Instant at which a pod was bound last that had been promised a place.
    kept: Option<Timestamp>,
    /// Claims that another leader launched have been read.
    restored: bool,
}

/// Reason why pods of a workload are not planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Time at which its workload is planned for again; `None` while a node that is coming decides.
    pub until: Option<Timestamp>,
    /// The pool whose nodes did not serve; `None` when there are several.
    pub pool: Option<PoolName>,
    /// The claims whose nodes did not serve.
    pub claims: BTreeSet<ClaimName>,
    /// Name of a node that did not serve, and the properties it has that were not announced.
    pub why: String,
}

/// A promise that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub pod: PodKey,
    pub claim: ClaimName,
    pub how: Ending,
}

/// End of a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The pod is bound.
    Kept,
    /// The node was no use to the pod, with the difference.
    Broken(String),
    /// There is nothing to compare, with the reason.
    Withdrawn(&'static str),
}

/// Part of the record of a workload that survives a change of leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    nodes: u32,
    looks: u32,
    holds: u32,
    firm: bool,
    last: Timestamp,
    until: Option<Timestamp>,
    why: String,
    template: String,
    /// The claims of these nodes, as long as they are there.
    #[serde(default)]
    claims: BTreeSet<ClaimName>,
}

/// Judgement on a plan by the promises.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Promises that the plan ends.
    pub ended: Vec<Ended>,
    /// Launches, by their place in the plan, that must not be carried out.
    pub refused: BTreeSet<usize>,
}

#[derive(Debug)]
struct Promise {
    claim: ClaimName,
    uid: PodUid,
    workload: Workload,
    patience: Duration,
    since: Timestamp,
}

impl Promises {
    /// Records that a plan promised `pod` a place on the machine of `claim`.
    pub fn make(&mut self, claim: &ClaimName, pod: &Pod, now: Timestamp) {
        let present = self.of(pod);
        if present.is_some_and(|present| present.claim == *claim) {
            return;
        }
        let promise = Promise {
            claim: claim.clone(),
            uid: pod.uid.clone(),
            workload: Workload::of(pod),
            patience: patience(pod),
            since: now,
        };
        self.open.insert(pod.key.clone(), promise);
    }

    /// Records that a pod was bound at `now`: planner and scheduler agree about its workload.
    pub fn bound(&mut self, pod: &Pod, now: Timestamp) {
        // The key of a workload is a hash of all its pods ask for, and most clusters have no record to look
        // up.
        if !self.records.is_empty() {
            self.records.remove(&Workload::of(pod));
        }
        if self.open.remove(&pod.key).is_some() {
            self.kept = Some(now);
        }
    }

    /// Returns the longest time for which a pod may wait next to an initialized node it was promised before that is a
    /// disagreement.
    pub fn patience(&self, pod: &Pod, now: Timestamp) -> Duration {
        patience(pod).max(self.least_patience(now))
    }

    /// Returns the patience that every pod has at least: more while the scheduler keeps promises.
    fn least_patience(&self, now: Timestamp) -> Duration {
        let is_binding = self.kept.is_some_and(|kept| since(kept, now) < PATIENCE);
        if is_binding { PATIENCE_WHILE_BINDING } else { PATIENCE }
    }

    /// Looks at every open promise and every record before a plan is made, and returns the promises that have ended.
    /// `departed` are machines that have gone since the last look, as they were last: some live shorter than the time
    /// between two plans.
    pub fn judge(&mut self, snapshot: &Snapshot, world: &World<'_>, departed: &[Arc<Node>]) -> Vec<Ended> {
        let now = snapshot.now;
        let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
        let pods: BTreeMap<&PodKey, &Pod> =
            snapshot.pending.iter().chain(bound).map(|pod| (&pod.key, &**pod)).collect();
        let mut settled: BTreeSet<Workload> = BTreeSet::new();
        let mut ended = Vec::new();
        let mut broken = Vec::new();
        let least_patience = self.least_patience(now);
        let arrivals = &mut self.arrivals;
        // First: a machine that the snapshot still has overwrites what was seen of it before.
        for node in departed {
            if let Some(claim) = &node.claim {
                arrivals.insert(claim.name.clone(), Arrival::of(claim, node));
            }
        }
        self.open.retain(|key, promise| {
            if let Some((claim, node)) = world.machine(&promise.claim) {
                arrivals.insert(promise.claim.clone(), Arrival::of(claim, node));
            }
            let pod = pods.get(key).filter(|pod| pod.uid == promise.uid && pod.is_active());
            let how = match pod {
                None => Ending::Withdrawn("the pod is gone"),
                Some(pod) if pod.node_name.is_some() => {
                    settled.insert(promise.workload.clone());
                    Ending::Kept
                }
                Some(_) => match world.claim(&promise.claim) {
                    None => gone(arrivals.get(&promise.claim)),
                    Some(claim) => {
                        let up = claim.true_since(ConditionType::Initialized);
                        let patience = promise.patience.max(least_patience);
                        let late = |up: Timestamp| since(up.max(promise.since), now) >= patience;
                        if up.is_some_and(late) {
                            broken.push((promise.workload.clone(), promise.claim.clone(), Kind::NotUsed));
                            // The next look counts from here: one node is counted once in each patience.
                            promise.since = now;
                        }
                        return true;
                    }
                },
            };
            if let Ending::Broken(_) = how {
                broken.push((promise.workload.clone(), promise.claim.clone(), Kind::Gone));
            }
            ended.push(Ended { pod: key.clone(), claim: promise.claim.clone(), how });
            false
        });
        for (workload, claim, kind) in broken {
            // A pod of the workload has just been bound to a planned node: such nodes serve it.
            if !settled.contains(&workload) {
                self.count(&workload, &claim, kind, None, world, now);
            }
        }
        self.records
            .retain(|workload, record| !settled.contains(workload) && record.still_stands(world, now));
        let open: BTreeSet<&ClaimName> = self.open.values().map(|promise| &promise.claim).collect();
        self.arrivals.retain(|claim, _| open.contains(claim));
        ended
    }

    /// Ends the promises of pods that `plan` sends elsewhere, and returns the launches that must not be carried out: those
    /// for pods whose machines are so young that they may yet be used, for pods left over while other machines are still
    /// coming, and for workloads that have used up their nodes.
    pub fn plan(&mut self, plan: &Plan, snapshot: &Snapshot, world: &World<'_>) -> Judgement {
        // No scheduler binds a pod of a buffer, so a promise to it could never be kept.
        let waiting = snapshot.pending.iter().filter(|pod| !pod.is_virtual());
        let pods: BTreeMap<&PodKey, &Pod> = waiting.map(|pod| (&pod.key, &**pod)).collect();
        let mut judgement = Judgement::default();
        // Room that this plan gives to other pods is not room the promised pod could have.
        let mut given: BTreeMap<ClaimName, Resources> = BTreeMap::new();
        let mut moved: Vec<&Pod> = Vec::new();
        for nomination in &plan.nominations {
            let Some(pod) = pods.get(&nomination.pod) else { continue };
            let claim = world.claim_at(&nomination.target);
            if let Some(claim) = &claim {
                given.entry(claim.clone()).or_default().add(&pod.requests);
            }
            if self.open.get(&pod.key).is_some_and(|promise| Some(&promise.claim) != claim.as_ref()) {
                moved.push(*pod);
            }
        }
        let are_coming = self.open.values().any(|promise| is_coming(promise, world));
        let waits = |pod: &&Pod| {
            self.is_expected(pod, world, snapshot.now)
                || are_coming && self.is_left_over(pod, world, snapshot.now)
        };
        let mut launches: Vec<(usize, Vec<&Pod>)> = Vec::new();
        for (place, launch) in plan.launches.iter().enumerate() {
            let of: Vec<&Pod> = launch.pods.iter().filter_map(|key| pods.get(key).copied()).collect();
            // A single pod that cannot wait is reason enough for the node.
            if !of.is_empty() && of.iter().all(waits) {
                judgement.refused.insert(place);
            } else {
                moved.extend(&of);
                launches.push((place, of));
            }
        }
        for pod in moved {
            judgement.ended.extend(self.leave(pod, &given, world, snapshot.now));
        }
        let mut left: BTreeMap<Workload, u32> = BTreeMap::new();
        for (place, of) in launches {
            let workloads: BTreeSet<Workload> = of.iter().map(|pod| Workload::of(pod)).collect();
            let in_doubt: Vec<&Workload> =
                workloads.iter().filter(|workload| self.records.contains_key(workload)).collect();
            let exhausted = in_doubt.iter().any(|workload| {
                *left.entry((*workload).clone()).or_insert_with(|| self.nodes_left(workload, snapshot.now))
                    == 0
            });
            if exhausted {
                judgement.refused.insert(place);
                continue;
            }
            for workload in in_doubt {
                if let Some(left) = left.get_mut(workload) {
                    *left -= 1;
                }
            }
        }
        judgement
    }

    /// Returns whether each of `waiting` was promised a place that the scheduler may yet give it: on a machine that is
    /// coming, or that has been ready for a moment. While pods are being bound, another plan for just these would only take
    /// their places away: pods that spread wait for each other.
    pub fn may_all_be_kept(&self, waiting: &[Arc<Pod>], world: &World<'_>, now: Timestamp) -> bool {
        let expected = |pod: &Arc<Pod>| {
            let promise = self.of(pod);
            promise.is_some_and(|promise| is_coming(promise, world)) || self.is_left_over(pod, world, now)
        };
        !waiting.is_empty() && waiting.iter().all(expected)
    }

    /// Pods among `waiting` that are not to be planned for at `now`, and why: those of held workloads, and of a workload in
    /// doubt as many as it has no node left for. Pods that were promised a place on a machine that is not in doubt stay in
    /// the plan. Pods of one workload share their reason, which names every node that did not serve.
    pub fn held(&self, waiting: &[Arc<Pod>], now: Timestamp) -> BTreeMap<PodKey, Arc<Held>> {
        let mut held = BTreeMap::new();
        let mut reasons: BTreeMap<Workload, Arc<Held>> = BTreeMap::new();
        if self.records.is_empty() {
            return held;
        }
        let mut left: BTreeMap<Workload, u32> = BTreeMap::new();
        for pod in waiting {
            let workload = Workload::of(pod);
            let Some(record) = self.records.get(&workload) else { continue };
            let promised = self.of(pod);
            if promised.is_some_and(|promise| !record.counted(&promise.claim)) {
                continue;
            }
            let until = record.until.filter(|until| *until > now);
            let used_up = record.until.is_none() && promised.is_none() && {
                let left = left.entry(workload.clone()).or_insert_with(|| self.nodes_left(&workload, now));
                let none = *left == 0;
                *left = left.saturating_sub(1);
                none
            };
            if until.is_some() || used_up {
                let reason = reasons.entry(workload).or_insert_with(|| {
                    let (pool, claims) = (record.pool().cloned(), record.claims());
                    Arc::new(Held { until, pool, claims, why: record.text() })
                });
                held.insert(pod.key.clone(), Arc::clone(reason));
            }
        }
        held
    }

    /// The records of workloads in doubt, for the annotation of each pool.
    pub fn saved(&self) -> BTreeMap<PoolName, BTreeMap<Workload, Saved>> {
        let mut saved: BTreeMap<PoolName, BTreeMap<Workload, Saved>> = BTreeMap::new();
        for (workload, record) in &self.records {
            for (pool, one) in record.saved() {
                saved.entry(pool.clone()).or_default().insert(workload.clone(), one);
            }
        }
        saved
    }

    /// Takes over what another leader has counted, and the promises it made: `launched_for` returns the workloads that a
    /// claim was launched for. Does so once.
    pub fn restore(
        &mut self,
        saved: BTreeMap<PoolName, BTreeMap<Workload, Saved>>,
        launched_for: impl Fn(&Node) -> Vec<Workload>,
        snapshot: &Snapshot,
        world: &World<'_>,
    ) {
        if std::mem::replace(&mut self.restored, true) {
            return;
        }
        for (pool, records) in saved {
            for (workload, saved) in records {
                self.records.entry(workload).or_insert_with(|| Record::restored(&pool, saved, world));
            }
        }
        // Pods of a workload are interchangeable, so each goes to the claim that has fewest of them.
        let mut claims: BTreeMap<Workload, BTreeMap<ClaimName, usize>> = BTreeMap::new();
        for node in &snapshot.nodes {
            let Some(claim) = node.claim.as_ref().filter(|_| !node.is_leaving()) else { continue };
            let mut unserved = launched_for(node);
            if unserved.is_empty() {
                continue;
            }
            let serves: BTreeSet<Workload> = node.pods.iter().map(|pod| Workload::of(pod)).collect();
            let counted = |of: &Workload| self.records.get(of).is_some_and(|of| of.counted(&claim.name));
            unserved.retain(|workload| !serves.contains(workload) && !counted(workload));
            for workload in unserved {
                claims.entry(workload).or_default().insert(claim.name.clone(), 0);
            }
        }
        if claims.is_empty() {
            return;
        }
        for pod in snapshot.pending.iter().filter(|pod| !pod.is_virtual()) {
            let Some(claims) = claims.get_mut(&Workload::of(pod)) else { continue };
            let least = claims.iter_mut().min_by_key(|(name, pods)| (**pods, (*name).clone()));
            if let Some((claim, pods)) = least {
                *pods += 1;
                self.make(&claim.clone(), pod, snapshot.now);
            }
        }
    }

    /// Forgets what rests on the nodes of `pool`, at a person's request.
    pub fn forget(&mut self, pool: &PoolName) {
        self.records.retain(|_, record| record.saved().all(|(known, _)| known != pool));
    }

    /// The open promise of this very pod, not of another one of its name.
    fn of(&self, pod: &Pod) -> Option<&Promise> {
        self.open.get(&pod.key).filter(|promise| promise.uid == pod.uid)
    }

    /// Ends the promise of a pod that is sent elsewhere.
    fn leave(
        &mut self,
        pod: &Pod,
        given: &BTreeMap<ClaimName, Resources>,
        world: &World<'_>,
        now: Timestamp,
    ) -> Option<Ended> {
        let promise = self.open.remove(&pod.key).filter(|promise| promise.uid == pod.uid)?;
        let none = Resources::new();
        let (how, kind) = match world.machine(&promise.claim) {
            None => (Ending::Withdrawn("the claim is gone"), Kind::Gone),
            Some((claim, node)) if node.is_leaving() => (gone(Some(&Arrival::of(claim, node))), Kind::Gone),
            Some((claim, node)) => {
                let arrival = Arrival::of(claim, node);
                let given = given.get(&promise.claim).unwrap_or(&none);
                // The node serves the workload: a sibling that keeps others away has the place, whatever room is left.
                let serves = node.pods.iter().any(|other| Workload::of(other) == promise.workload);
                let how = if serves && !arrival.differs() {
                    Ending::Withdrawn("other pods took the room")
                } else {
                    sent_away(pod, &arrival, node, given)
                };
                (how, Kind::Refused)
            }
        };
        if let Ending::Broken(why) = &how {
            self.count(&promise.workload, &promise.claim, kind, Some(why.clone()), world, now);
        }
        Some(Ended { pod: pod.key.clone(), claim: promise.claim, how })
    }

    /// Counts a broken promise.
    fn count(
        &mut self,
        workload: &Workload,
        claim: &ClaimName,
        kind: Kind,
        why: Option<String>,
        world: &World<'_>,
        now: Timestamp,
    ) {
        let current = world.machine(claim).map(|(claim, node)| Arrival::of(claim, node));
        let Some(arrival) = current.or_else(|| self.arrivals.get(claim).cloned()) else { return };
        let record = self.records.entry(workload.clone()).or_insert_with(|| Record::new(now));
        let why = why.unwrap_or_else(|| arrival.text());
        match kind {
            Kind::NotUsed if record.is_one_with_the_last(now) => {
                record.keep(claim, &arrival, why);
                return;
            }
            Kind::NotUsed => {
                record.looks += 1;
                record.add_node(claim, &arrival, why, arrival.differs());
            }
            Kind::Refused => record.add_node(claim, &arrival, why, true),
            Kind::Gone => {
                let firm = arrival.differs() || arrival.removed_by_us;
                record.add_node(claim, &arrival, why, firm);
            }
        }
        if record.judge(world, now) {
            // Pods on their way to a machine that is not in doubt are left there.
            let record = &*record;
            self.open.retain(|_, promise| promise.workload != *workload || !record.counted(&promise.claim));
        }
    }

    /// Nodes that may still be launched for a workload: those that are on their way count.
    fn nodes_left(&self, workload: &Workload, now: Timestamp) -> u32 {
        let Some(record) = self.records.get(workload) else { return u32::MAX };
        if let Some(until) = record.until {
            // One more try once a hold is over.
            return u32::from(until <= now);
        }
        let of_workload = self.open.values().filter(|promise| promise.workload == *workload);
        let coming: BTreeSet<&ClaimName> =
            of_workload.map(|promise| &promise.claim).filter(|claim| !record.counted(claim)).collect();
        record::NODES
            .saturating_sub(record.nodes)
            .saturating_sub(u32::try_from(coming.len()).unwrap_or(u32::MAX))
    }

    /// Returns whether the node that `pod` was promised a place on has come a moment ago, and the pod still waits.
    fn is_left_over(&self, pod: &Pod, world: &World<'_>, now: Timestamp) -> bool {
        let promise = self.of(pod);
        let claim = promise.and_then(|promise| world.staying(&promise.claim)?.claim.as_deref());
        let up = claim.and_then(|claim| claim.true_since(ConditionType::Initialized));
        up.is_some_and(|up| since(up, now) < LAST_NODES)
    }

    /// Returns whether the scheduler may still use the place that `pod` was promised before: a machine that has come up so
    /// recently that an unannounced taint may yet go away. Another machine would get the same.
    fn is_expected(&self, pod: &Pod, world: &World<'_>, now: Timestamp) -> bool {
        let Some(promise) = self.of(pod) else {
            return false;
        };
        let Some(machine) = world.staying(&promise.claim) else { return false };
        let Some(claim) = &machine.claim else { return false };
        let steps =
            [ConditionType::Registered, ConditionType::Initialized].map(|kind| claim.true_since(kind));
        // A cordon is the decision of another client, and not one of the taints that a starting node loses.
        arrival::unannounced(claim, machine).iter().any(|taint| taint.key != names::taint::UNSCHEDULABLE)
            && steps.into_iter().flatten().max().is_some_and(|up| since(up, now) < promise.patience)
    }
}

/// Returns whether the machine of a promise is there to stay, and not ready yet.
fn is_coming(promise: &Promise, world: &World<'_>) -> bool {
    let claim = world.staying(&promise.claim).and_then(|machine| machine.claim.as_deref());
    claim.is_some_and(|claim| claim.provider_id.is_some() && !claim.is_true(ConditionType::Initialized))
}

/// Evidence that a promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The node is up, and the scheduler does not bind the pod.
    NotUsed,
    /// The planner sends the pod elsewhere, because of the node.
    Refused,
    /// The machine is gone, or going, and the pod still waits.
    Gone,
}

/// The end of a promise whose machine is gone, or going, while the pod waits. A claim that never got an instance cost nothing.
fn gone(arrival: Option<&Arrival>) -> Ending {
    match arrival {
        None => Ending::Withdrawn("the claim was never seen"),
        Some(arrival) if arrival.stage == Stage::Created => Ending::Withdrawn("the claim was not launched"),
        Some(arrival) if arrival.drifted => Ending::Withdrawn("the node had drifted"),
        Some(arrival) => Ending::Broken(arrival.text()),
    }
}

/// The end of a promise whose machine is there, although the planner sends the pod elsewhere. `given` is what this plan
/// gives to other pods there.
fn sent_away(pod: &Pod, arrival: &Arrival, node: &Node, given: &Resources) -> Ending {
    if arrival.stage == Stage::Created {
        return Ending::Withdrawn("the claim is not launched yet");
    }
    if arrival.differs() {
        return Ending::Broken(arrival.text());
    }
    let name = &arrival.name;
    if pod.requests.fits(&arrival::free(node, given)) {
        return Ending::Broken(format!("{name} came as announced, and does not take the pod"));
    }
    let (room, daemons) = (node.effective_allocatable(), node.daemon_requested());
    if !pod.requests.fits(&room) {
        return Ending::Broken(format!("{name} has room for {} only", arrival::amounts(&room)));
    }
    if !pod.requests.fits(&room.subtract(&daemons)) {
        return Ending::Broken(format!("{name} has daemon pods that ask for {}", arrival::amounts(&daemons)));
    }
    Ending::Withdrawn("other pods took the room")
}

/// Longest time a pod may wait next to an initialized node it was promised while the scheduler is not behind.
fn patience(pod: &Pod) -> Duration {
    if pod.volumes.is_empty() { PATIENCE } else { PATIENCE_WITH_VOLUMES }
}

#[cfg(test)]
mod tests;
