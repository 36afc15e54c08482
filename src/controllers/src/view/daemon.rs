//! Pod that each daemon set puts on a new node: its newest pod, which carries what admission changed, or its template with
//! what admission would add (spec scheduling 16).
//!
//! Any of them may change; whatever does, the daemon set is read again and passed to the cluster index.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::Pod;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model::{self as model, PodKey};
use kube::ResourceExt;

use super::follow::Followed;
use super::{Inner, View};
use crate::view::read;

/// Uid of a daemon set.
type SetUid = String;

/// Daemon sets as far as they are read, and which pods are theirs.
#[derive(Default)]
pub(super) struct Daemons {
    sets: BTreeMap<Key, DaemonSet>,
    keys: BTreeMap<SetUid, Key>,
    /// Oldest first.
    pods: BTreeMap<SetUid, BTreeSet<(Timestamp, PodKey)>>,
    owners: BTreeMap<PodKey, (SetUid, Timestamp)>,
}

impl Daemons {
    /// Records a pod; returns the daemon set it belongs to, if any.
    fn note(&mut self, key: &PodKey, pod: &Pod) -> Option<SetUid> {
        let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
        if controller.kind != "DaemonSet" {
            return None;
        }
        let created = pod.creation_timestamp().map(|time| time.0).unwrap_or_default();
        let owner = (controller.uid.clone(), created);
        // A pod of this name may have been made again, younger or for another owner.
        if self.owners.get(key) != Some(&owner) {
            self.forget(key);
            self.pods.entry(owner.0.clone()).or_default().insert((created, key.clone()));
            self.owners.insert(key.clone(), owner.clone());
        }
        Some(owner.0)
    }

    /// Forgets a pod; the daemon set it belonged to, if any.
    fn forget(&mut self, key: &PodKey) -> Option<SetUid> {
        let (uid, created) = self.owners.remove(key)?;
        if let Some(pods) = self.pods.get_mut(&uid) {
            pods.remove(&(created, key.clone()));
            if pods.is_empty() {
                self.pods.remove(&uid);
            }
        }
        Some(uid)
    }
}

impl Inner {
    /// Reads the pod into its daemon set again, if it is its newest.
    pub(super) fn daemon_pod_seen(&mut self, key: &PodKey, pod: &Pod) {
        if let Some(uid) = self.daemons.note(key, pod)
            && self.daemons.pods.get(&uid).and_then(BTreeSet::last).is_some_and(|(_, newest)| newest == key)
        {
            self.derive_daemon(&uid);
        }
    }

    /// Continues with the newest pod that is left.
    pub(super) fn daemon_pod_gone(&mut self, key: &PodKey) {
        if let Some(uid) = self.daemons.forget(key) {
            self.derive_daemon(&uid);
        }
    }

    /// Reads the daemon sets of a namespace again: what it gives containers has changed.
    pub(super) fn derive_daemons_of(&mut self, namespace: &str) {
        let keys = self.daemons.keys.iter().filter(|(_, (of, _))| of == namespace);
        for uid in keys.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            self.derive_daemon(&uid);
        }
    }

    fn daemon_set_gone(&mut self, key: &Key) {
        if let Some(set) = self.daemons.sets.remove(key) {
            self.daemons.keys.remove(&set.uid().unwrap_or_default());
        }
        self.cluster.set_daemon(&(key.0.as_str().into(), key.1.as_str().into()), None);
    }

    fn derive_daemon(&mut self, uid: &str) {
        let Some(set) = self.daemons.keys.get(uid).and_then(|key| self.daemons.sets.get(key)) else { return };
        let newest = self.daemons.pods.get(uid).and_then(BTreeSet::last);
        let newest = newest.and_then(|(_, key)| self.cluster.get::<model::Pod>(key));
        if let Some(daemon) = read::daemon(set, newest.map(|known| known.model.as_ref()), &self.admission) {
            let key = (daemon.namespace.clone(), daemon.name.clone());
            self.cluster.set_daemon(&key, Some(daemon));
        }
    }
}

impl Followed for DaemonSet {
    fn applied(mut self, view: &View) {
        // Only the template is read.
        self.metadata.managed_fields = None;
        self.metadata.annotations = None;
        self.status = None;
        self.spec =
            self.spec.map(|spec| DaemonSetSpec { template: spec.template, ..DaemonSetSpec::default() });
        let (key, uid) = (watch::key(&self), self.uid().unwrap_or_default());
        let mut inner = view.lock();
        if let Some(before) = inner.daemons.sets.insert(key.clone(), self) {
            inner.daemons.keys.remove(&before.uid().unwrap_or_default());
        }
        inner.daemons.keys.insert(uid.clone(), key);
        inner.derive_daemon(&uid);
    }

    fn deleted(self, view: &View) {
        view.lock().daemon_set_gone(&watch::key(&self));
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, _: Epoch) {
        let mut inner = view.lock();
        let gone = inner.daemons.sets.keys().filter(|key| !keys.contains(*key));
        for key in gone.cloned().collect::<Vec<_>>() {
            inner.daemon_set_gone(&key);
        }
    }
}

#[cfg(test)]
mod tests;
