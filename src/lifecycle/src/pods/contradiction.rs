//! Learning from contradiction: what to do when the scheduler does not use the nodes that pods were promised.
//!
//! A plan says "this pod will run there". When the node comes up and the pod still waits, planner and scheduler
//! disagree about something that cannot be seen from here: a scheduler plug-in, a node smaller than promised,
//! a taint that a foreign controller adds. Launching again would buy the same node for ever. So such
//! disagreements are counted per workload; after [`STRIKES`] in a row the workload is held: not planned for,
//! with a delay that doubles.
//!
//! A hold rests on its [`Ground`](ground): these nodes, of these pools, as they were. It ends early
//! - when one pod of the workload is bound anywhere, which settles the matter;
//! - when the ground has changed: pool, node class or the unannounced taints. What was counted is forgotten;
//! - soon after another client has taken the nodes away. That we remove them ourselves, because they are
//!   empty, ends nothing: buying the next one for it would be the loop that a hold is there to break.
//!
//! The reference has no such memory.

mod ground;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names;
use karpenter_model::{ClaimName, ConditionType, Node, Pod, PodKey, PodUid, PoolName, Snapshot};

use ground::{Ground, World};

/// Disagreements in a row until a workload is held.
pub(crate) const STRIKES: u32 = 3;
/// How long a pod may wait next to an initialized node it was promised.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// The same for a pod with volumes, which are made or attached before it is bound.
pub(crate) const PATIENCE_WITH_VOLUMES: Duration = Duration::from_mins(10);
/// How long a workload is held at first, and at most once another client has taken the nodes away that it did
/// not use.
pub(crate) const HOLD_MIN: Duration = Duration::from_mins(2);
/// How long a workload is held at most.
pub(crate) const HOLD_MAX: Duration = Duration::from_hours(1);
/// Disagreements closer together than this are one: they come from one plan.
const ONE_STRIKE: Duration = Duration::from_secs(30);
/// After this long without another disagreement a workload is forgotten.
const MEMORY: Duration = Duration::from_hours(4);

/// What pods were promised, and which workloads were let down.
#[derive(Debug, Default)]
pub struct Contradictions {
    open: BTreeMap<PodKey, Promise>,
    workloads: BTreeMap<Workload, Record>,
}

/// Why a pod is not planned for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// When its workload is planned for again.
    pub until: Timestamp,
    /// The pool whose nodes were not used; `None` when there are several, or none is left to ask.
    pub pool: Option<PoolName>,
    /// Which node was not used, and what it has that was not announced.
    pub why: String,
}

/// The owner of pods, and what makes the scheduler treat two of them alike: equal texts, equal answers.
type Workload = String;

#[derive(Debug)]
struct Promise {
    claim: ClaimName,
    uid: PodUid,
    workload: Workload,
    patience: Duration,
    since: Timestamp,
    /// Its node was initialized when we last looked.
    kept_by_us: bool,
}

#[derive(Debug)]
struct Record {
    strikes: u32,
    last: Timestamp,
    /// Claims whose nodes were not used.
    unused: BTreeSet<ClaimName>,
    held_until: Option<Timestamp>,
    /// Known from the first look after the last disagreement on.
    ground: Option<Ground>,
}

impl Contradictions {
    /// Remembers that a plan promised `pod` a place on the machine of `claim`.
    pub fn promised(&mut self, claim: &ClaimName, pod: &Pod, now: Timestamp) {
        let present = self.open.get(&pod.key).filter(|present| present.uid == pod.uid);
        if present.is_some_and(|present| present.claim == *claim) {
            return;
        }
        // Promised another node although the one before had come up: that one was of no use.
        let of_no_use = present.filter(|present| present.kept_by_us);
        if let Some((workload, unused)) =
            of_no_use.map(|present| (present.workload.clone(), present.claim.clone()))
        {
            self.strike(&workload, [unused], now);
        }
        let patience = patience(pod);
        let promise = Promise {
            claim: claim.clone(),
            uid: pod.uid.clone(),
            workload: workload_of(pod),
            patience,
            since: now,
            kept_by_us: false,
        };
        self.open.insert(pod.key.clone(), promise);
    }

    /// A pod was bound: planner and scheduler agree about its workload.
    pub fn bound(&mut self, pod: &Pod) {
        if !self.workloads.is_empty() {
            self.workloads.remove(&workload_of(pod));
        }
        self.open.remove(&pod.key);
    }

    /// Looks at every open promise and every hold; returns how many disagreements were found.
    pub fn judge(&mut self, snapshot: &Snapshot) -> usize {
        let (now, world) = (snapshot.now, World::of(snapshot));
        let bound = snapshot.nodes.iter().flat_map(|node| &node.pods);
        let pods: BTreeMap<&PodKey, &Pod> =
            snapshot.pending.iter().chain(bound).map(|pod| (&pod.key, &**pod)).collect();
        let mut broken: BTreeMap<Workload, BTreeSet<ClaimName>> = BTreeMap::new();
        let mut settled: BTreeSet<Workload> = BTreeSet::new();
        let mut of_no_use = |promise: &Promise| {
            broken.entry(promise.workload.clone()).or_default().insert(promise.claim.clone());
        };
        self.open.retain(|key, promise| {
            let pod = pods.get(key).filter(|pod| pod.uid == promise.uid && pod.is_active());
            let Some(pod) = pod else { return false };
            if pod.node_name.is_some() {
                settled.insert(promise.workload.clone());
                return false;
            }
            let Some(claim) = world.claim(&promise.claim) else {
                // A node that never came up is the business of liveness.
                if promise.kept_by_us {
                    of_no_use(promise);
                }
                return false;
            };
            let Some(initialized) = claim.true_since(ConditionType::Initialized) else { return true };
            promise.kept_by_us = true;
            if since(initialized.max(promise.since), now) >= promise.patience {
                of_no_use(promise);
                promise.since = now;
            }
            true
        });
        broken.retain(|workload, _| !settled.contains(workload));
        let found = broken
            .into_iter()
            .filter(|(workload, unused)| self.strike(workload, unused.iter().cloned(), now));
        let found = found.count();
        self.workloads.retain(|workload, record| {
            !settled.contains(workload) && since(record.last, now) < MEMORY && record.still_stands(&world)
        });
        found
    }

    /// Whether the scheduler may still use what `pod` was promised before: a machine that has come up so recently that
    /// an unannounced taint may yet go away. Another machine would get the same.
    pub fn is_expected<'a>(
        &self,
        pod: &Pod,
        machine_of: impl Fn(&ClaimName) -> Option<&'a Node>,
        now: Timestamp,
    ) -> bool {
        let Some(promise) = self.open.get(&pod.key).filter(|promise| promise.uid == pod.uid) else {
            return false;
        };
        let Some(machine) = machine_of(&promise.claim).filter(|machine| !machine.is_leaving()) else {
            return false;
        };
        let Some(claim) = &machine.claim else { return false };
        let steps =
            [ConditionType::Registered, ConditionType::Initialized].map(|kind| claim.true_since(kind));
        ground::unannounced(claim, machine).iter().any(|taint| taint.key != names::taint::UNSCHEDULABLE)
            && steps.into_iter().flatten().max().is_some_and(|up| since(up, now) < promise.patience)
    }

    /// Why `pod` is not to be planned for, if its workload is held at `now`.
    pub fn held(&self, pod: &Pod, now: Timestamp) -> Option<Held> {
        if self.workloads.is_empty() {
            return None;
        }
        let record = self.workloads.get(&workload_of(pod))?;
        let until = record.held_until.filter(|until| *until > now)?;
        let ground = record.ground.as_ref();
        let why =
            ground.map_or_else(|| "nodes came up and were not used, and are gone".to_owned(), Ground::text);
        Some(Held { until, pool: ground.and_then(Ground::pool).cloned(), why })
    }

    /// Counts a disagreement about a workload; false when it belongs to the one before.
    fn strike(
        &mut self,
        workload: &Workload,
        unused: impl IntoIterator<Item = ClaimName>,
        now: Timestamp,
    ) -> bool {
        if let Some(record) = self.workloads.get_mut(workload)
            && since(record.last, now) < ONE_STRIKE
        {
            record.unused.extend(unused);
            return false;
        }
        let record = self.workloads.entry(workload.clone()).or_insert_with(|| Record::new(now));
        record.strikes = record.strikes.saturating_add(1);
        record.last = now;
        record.unused.extend(unused);
        record.ground = None;
        if record.strikes >= STRIKES {
            let doubled = 2_u32.saturating_pow(record.strikes - STRIKES);
            record.held_until = Some(now + HOLD_MIN.saturating_mul(doubled).min(HOLD_MAX));
            self.open.retain(|_, promise| promise.workload != *workload);
        }
        true
    }
}

impl Record {
    fn new(now: Timestamp) -> Self {
        Self { strikes: 0, last: now, unused: BTreeSet::new(), held_until: None, ground: None }
    }

    /// Looks at what the disagreements rest on: false when that has changed and they mean nothing any more.
    fn still_stands(&mut self, world: &World<'_>) -> bool {
        if self.ground.is_none() {
            self.ground = Ground::of(&self.unused, world);
            // What is gone can neither be asked nor named.
            self.unused.retain(|claim| world.claim(claim).is_some());
        }
        let Some(ground) = &mut self.ground else { return true };
        ground.look(world);
        if ground.has_changed(world) {
            return false;
        }
        if ground.was_taken_away(world) {
            self.held_until = self.held_until.map(|until| until.min(self.last + HOLD_MIN));
        }
        true
    }
}

/// How long a pod may wait next to an initialized node it was promised before that is a disagreement.
pub fn patience(pod: &Pod) -> Duration {
    if pod.volumes.is_empty() { PATIENCE } else { PATIENCE_WITH_VOLUMES }
}

/// Names and labels are left out: another replica of the same template is no new argument. A new rollout is one; its
/// pods have another owner.
fn workload_of(pod: &Pod) -> Workload {
    let owner = pod.owner_uid.as_ref().map_or_else(|| format!("{:?}", pod.owner), ToString::to_string);
    let mut workload = format!("{} {owner} {}", pod.key.namespace, pod.scheduler_name);
    // Writing to a String cannot fail.
    let _ = write!(
        workload,
        "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
        pod.requests,
        pod.node_selector,
        pod.required_terms,
        pod.tolerations,
        pod.host_ports,
        pod.spread,
        pod.pod_affinity,
        pod.pod_anti_affinity,
    );
    workload
}

#[cfg(test)]
mod tests;
