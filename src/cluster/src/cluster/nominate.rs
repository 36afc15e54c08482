//! Nominations: machines that pods are on their way to, and which are therefore not to be removed.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{NodeId, PodKey, PodUid, Target};

use super::Cluster;
use super::kind::Shown;
use crate::machine;

/// A pod that waits next to an initialized machine it was promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    uid: PodUid,
    machine: NodeId,
    since: Timestamp,
}

impl<O: Shown> Cluster<O> {
    /// Notes that a pod was promised a place on an existing machine; protects the machine from disruption for the
    /// nomination window, from now on. False when there is no such machine.
    pub fn nominate(&mut self, target: &Target, now: Timestamp) -> bool {
        let Some(id) = self.machine_of(target) else { return false };
        self.protect(id, now);
        true
    }

    /// Notes that one pod was promised a place as [`Self::nominate`] does, only as long as that is believed: when the
    /// pod still waits `patience` after its machine could have taken it, the scheduler refuses, and the promise made
    /// once more protects nothing. A pod that runs on a node which is to go has not been offered to the scheduler,
    /// however long its drain is held.
    pub fn nominate_for(
        &mut self,
        pod: &PodKey,
        patience: Duration,
        target: &Target,
        now: Timestamp,
    ) -> bool {
        let Some(id) = self.machine_of(target) else { return false };
        let Some((uid, waits)) =
            self.facts.pods.model(pod).map(|pod| (pod.uid.clone(), pod.node_name.is_none()))
        else {
            return false;
        };
        let claim = self.derived.members.get(&id).and_then(|members| members.claims.first());
        let place = claim.map_or_else(|| target.clone(), |claim| Target::Claim(claim.clone()));
        self.promise_on(&place, [pod.clone()]);
        self.refresh();
        let initialized = self.derived.machines.get(&id).is_some_and(|machine| machine.initialized());
        if !initialized || !waits {
            self.own.expected.remove(pod);
            self.protect(id, now);
            return true;
        }
        let fresh = Expected { uid, machine: id.clone(), since: now };
        let known = self.own.expected.entry(pod.clone()).or_insert_with(|| fresh.clone());
        if (&known.uid, &known.machine) != (&fresh.uid, &fresh.machine) {
            *known = fresh;
        }
        if now.duration_since(known.since).unsigned_abs() < patience {
            self.protect(id, now);
        }
        true
    }

    fn machine_of(&self, target: &Target) -> Option<NodeId> {
        match target {
            Target::Node(name) => self.facts.nodes.model(name).and_then(|node| machine::id_of_node(node)),
            Target::Claim(name) => self.facts.claims.model(name).map(|claim| machine::id_of_claim(claim)),
        }
    }

    fn protect(&mut self, id: NodeId, now: Timestamp) {
        let until = now + self.settings.nomination_window();
        let known = self.own.nominated.entry(id.clone()).or_insert(until);
        *known = until.max(*known);
        self.derived.dirty.insert(id);
    }

    pub(super) fn expire_nominations(&mut self, now: Timestamp) {
        let dirty = &mut self.derived.dirty;
        self.own.nominated.retain(|id, until| {
            let open = *until > now;
            if !open {
                dirty.insert(id.clone());
            }
            open
        });
    }
}
