//! Learning from contradiction: what to do when the scheduler does not use the nodes that pods were promised.
//!
//! A plan says "this pod will run there". When the node comes up and the pod still waits, planner and scheduler
//! disagree about something nobody can see from here: a scheduler plug-in, a node smaller than promised, a webhook.
//! Launching again would buy the same node for ever. So such disagreements are counted per class of pods; after
//! [`STRIKES`] in a row the class is held: not planned for, with a delay that doubles. One pod of the class that is
//! bound anywhere settles the matter. The reference has no such memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{Claim, ClaimName, ConditionType, Node, Pod, PodKey, PodUid, Taint};

use crate::elapsed::since;

/// Disagreements in a row until a class is held.
pub const STRIKES: u32 = 3;
/// How long a pod may wait next to an initialized node it was promised.
pub const PATIENCE: Duration = Duration::from_mins(1);
/// The same for a pod with volumes, which are made or attached before it is bound.
pub const PATIENCE_WITH_VOLUMES: Duration = Duration::from_mins(10);
/// How long a class is held at first.
pub const HOLD_MIN: Duration = Duration::from_mins(5);
/// How long a class is held at most.
pub const HOLD_MAX: Duration = Duration::from_hours(1);
/// Disagreements closer together than this are one: they come from one plan.
const ONE_STRIKE: Duration = Duration::from_secs(30);
/// What a person puts on a node that is to take no more pods.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// After this long without another disagreement a class is forgotten.
const MEMORY: Duration = Duration::from_hours(4);

/// What pods were promised, and which classes were let down.
#[derive(Debug, Default)]
pub struct Contradictions {
    open: BTreeMap<PodKey, Promise>,
    classes: BTreeMap<Class, Record>,
}

/// What makes the scheduler treat two pods alike, as a text that is equal when they are.
type Class = String;

#[derive(Debug)]
struct Promise {
    claim: ClaimName,
    uid: PodUid,
    class: Class,
    patience: Duration,
    since: Timestamp,
    /// Its node was initialized when we last looked.
    kept_by_us: bool,
}

#[derive(Debug)]
struct Record {
    strikes: u32,
    last: Timestamp,
    held_until: Option<Timestamp>,
}

impl Contradictions {
    /// Takes note that a plan promised `pod` a place on the machine of `claim`.
    pub fn promised(&mut self, claim: &ClaimName, pod: &Pod, now: Timestamp) {
        let present = self.open.get(&pod.key).filter(|present| present.uid == pod.uid);
        if present.is_some_and(|present| present.claim == *claim) {
            return;
        }
        // Promised another node although the one before had come up: that one was of no use.
        if let Some(class) = present.filter(|present| present.kept_by_us).map(|present| present.class.clone())
        {
            self.strike(&class, now);
        }
        let patience = patience(pod);
        let promise = Promise {
            claim: claim.clone(),
            uid: pod.uid.clone(),
            class: class_of(pod),
            patience,
            since: now,
            kept_by_us: false,
        };
        self.open.insert(pod.key.clone(), promise);
    }

    /// Takes note that a pod was bound: planner and scheduler agree about its class.
    pub fn bound(&mut self, pod: &Pod) {
        if !self.classes.is_empty() {
            self.classes.remove(&class_of(pod));
        }
        self.open.remove(&pod.key);
    }

    /// Looks at every open promise; returns how many disagreements were found.
    pub fn judge<'a>(
        &mut self,
        claim_of: impl Fn(&ClaimName) -> Option<&'a Claim>,
        pod_of: impl Fn(&PodKey) -> Option<&'a Pod>,
        now: Timestamp,
    ) -> usize {
        let mut broken: BTreeSet<Class> = BTreeSet::new();
        let mut settled: BTreeSet<Class> = BTreeSet::new();
        self.open.retain(|key, promise| {
            let Some(pod) = pod_of(key).filter(|pod| pod.uid == promise.uid && pod.is_active()) else {
                return false;
            };
            if pod.node_name.is_some() {
                settled.insert(promise.class.clone());
                return false;
            }
            let Some(claim) = claim_of(&promise.claim) else {
                // A node that never came up is the business of liveness.
                if promise.kept_by_us {
                    broken.insert(promise.class.clone());
                }
                return false;
            };
            let Some(initialized) = claim.true_since(ConditionType::Initialized) else { return true };
            promise.kept_by_us = true;
            if since(initialized.max(promise.since), now) >= promise.patience {
                broken.insert(promise.class.clone());
                promise.since = now;
            }
            true
        });
        self.classes.retain(|class, record| !settled.contains(class) && since(record.last, now) < MEMORY);
        broken
            .into_iter()
            .filter(|class| !settled.contains(class))
            .filter(|class| self.strike(class, now))
            .count()
    }

    /// Whether the scheduler may still use what `pod` was promised before: a machine that has come up so recently that
    /// a taint nobody announced may yet go away. Another machine would get the same.
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
        let unannounced = |taint: &Taint| taint.key != UNSCHEDULABLE && !claim.taints.contains(taint);
        let steps =
            [ConditionType::Registered, ConditionType::Initialized].map(|kind| claim.true_since(kind));
        machine.effective_taints().iter().any(unannounced)
            && steps.into_iter().flatten().max().is_some_and(|up| since(up, now) < promise.patience)
    }

    /// Until when `pod` is not to be planned for, if its class is held at `now`.
    pub fn held(&self, pod: &Pod, now: Timestamp) -> Option<Timestamp> {
        if self.classes.is_empty() {
            return None;
        }
        self.classes.get(&class_of(pod))?.held_until.filter(|until| *until > now)
    }

    /// Counts a disagreement about a class; false when it belongs to the one before.
    fn strike(&mut self, class: &Class, now: Timestamp) -> bool {
        let known = self.classes.get_mut(class);
        let record = match known {
            Some(record) if since(record.last, now) < ONE_STRIKE => return false,
            Some(record) => record,
            None => self.classes.entry(class.clone()).or_insert(Record {
                strikes: 0,
                last: now,
                held_until: None,
            }),
        };
        record.strikes = record.strikes.saturating_add(1);
        record.last = now;
        if record.strikes >= STRIKES {
            let doubled = 2_u32.saturating_pow(record.strikes - STRIKES);
            record.held_until = Some(now + HOLD_MIN.saturating_mul(doubled).min(HOLD_MAX));
            self.open.retain(|_, promise| promise.class != *class);
        }
        true
    }
}

/// How long a pod may wait next to an initialized node it was promised before that is a disagreement.
pub fn patience(pod: &Pod) -> Duration {
    if pod.volumes.is_empty() { PATIENCE } else { PATIENCE_WITH_VOLUMES }
}

/// Names and labels are left out: a new rollout of the same shape is no new argument.
fn class_of(pod: &Pod) -> Class {
    let mut class = format!("{} {:?} {}", pod.key.namespace, pod.owner, pod.scheduler_name);
    // Writing to a String cannot fail.
    let _ = write!(
        class,
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
    class
}

#[cfg(test)]
mod tests;
