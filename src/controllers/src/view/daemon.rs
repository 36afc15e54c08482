//! What each daemon set puts on a new node: its newest pod, which carries what admission changed, or its template with
//! what admission would add (spec scheduling 16).
//!
//! Any of them may change; whatever does, the daemon set is read again and passed to the cluster index.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::Pod;
use karpenter_cluster::{Epoch, Event, Listed, Seen as Told};
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model::{DaemonSetName, Namespace, PodKey};
use kube::ResourceExt;

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

    /// Goes on with the newest pod that is left.
    pub(super) fn daemon_pod_gone(&mut self, key: &PodKey) {
        if let Some(uid) = self.daemons.forget(key) {
            self.derive_daemon(&uid);
        }
    }

    /// Forgets pods that a list did not contain.
    pub(super) fn sweep_daemon_pods(&mut self) {
        let gone = self.daemons.owners.keys().filter(|key| self.cluster.pod(key).is_none());
        for key in gone.cloned().collect::<Vec<_>>() {
            self.daemon_pod_gone(&key);
        }
    }

    /// Reads the daemon sets of a namespace again: what it gives containers has changed.
    pub(super) fn derive_daemons_of(&mut self, namespace: &str) {
        let keys = self.daemons.keys.iter().filter(|(_, (of, _))| of == namespace);
        for uid in keys.map(|(uid, _)| uid.clone()).collect::<Vec<_>>() {
            self.derive_daemon(&uid);
        }
    }

    fn derive_daemon(&mut self, uid: &str) {
        let Some(set) = self.daemons.keys.get(uid).and_then(|key| self.daemons.sets.get(key)) else { return };
        let newest = self.daemons.pods.get(uid).and_then(BTreeSet::last);
        let newest = newest.and_then(|(_, key)| self.cluster.pod(key));
        let of_namespace = self.limit_ranges.of(&set.namespace().unwrap_or_default());
        if let Some(daemon) = read::daemon(set, newest.map(AsRef::as_ref), &of_namespace) {
            let version = self.derived();
            self.cluster.apply(Event::daemon(version, daemon));
        }
    }
}

impl View {
    /// Takes a daemon set as the API server shows it.
    pub(super) fn put_daemon_set(&self, mut set: DaemonSet) {
        set.metadata.managed_fields = None;
        set.metadata.annotations = None;
        set.status = None;
        set.spec = set.spec.map(|spec| DaemonSetSpec { template: spec.template, ..DaemonSetSpec::default() });
        let (key, uid) = (watch::key(&set), set.uid().unwrap_or_default());
        let mut inner = self.lock();
        if let Some(before) = inner.daemons.sets.insert(key.clone(), set) {
            inner.daemons.keys.remove(&before.uid().unwrap_or_default());
        }
        inner.daemons.keys.insert(uid.clone(), key);
        inner.derive_daemon(&uid);
    }

    /// Forgets a daemon set that is gone.
    pub(super) fn remove_daemon_set(&self, key: &Key) {
        let mut inner = self.lock();
        if let Some(set) = inner.daemons.sets.remove(key) {
            inner.daemons.keys.remove(&set.uid().unwrap_or_default());
        }
        let version = inner.derived();
        let key = (key.0.as_str().into(), key.1.as_str().into());
        inner.cluster.apply(Event::Daemon(Told::Gone { key, version }));
    }

    /// Ends a list of daemon sets.
    pub(super) fn daemon_sets_listed(&self, keys: &BTreeSet<Key>, began: Epoch) {
        let gone: Vec<Key> =
            self.lock().daemons.sets.keys().filter(|key| !keys.contains(*key)).cloned().collect();
        for key in &gone {
            self.remove_daemon_set(key);
        }
        let names = |(namespace, name): &Key| -> (Namespace, DaemonSetName) {
            (namespace.as_str().into(), name.as_str().into())
        };
        self.lock().cluster.finish_list(&Listed::Daemons(keys.iter().map(names).collect()), began);
    }
}

#[cfg(test)]
mod tests;
