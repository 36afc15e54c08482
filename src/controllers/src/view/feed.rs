//! The way into the view: what watches say and what writes are answered with.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cluster::{Epoch, Event, Listed, NamespaceObject, Seen as Told, Version};
use karpenter_kube_harness::watch::{Key, Seen};
use karpenter_model as model;
use karpenter_model::{ClaimName, NodeClassRef, NodeName, PodKey, PoolName, ProviderId};
use kube::ResourceExt;

use super::{Conditioned, KnownClaim, KnownNode, KnownPool, PodSeen, StatusSeen, View};
use crate::view::read;
use crate::view::store::Replaced;

/// Which kind a watch follows; carries what a list needs to remember.
#[derive(Debug, Default)]
pub struct Feed {
    began: Option<Epoch>,
}

impl Feed {
    /// Takes in what the watch of NodeClaims said.
    pub fn claim(&mut self, view: &View, seen: Seen<NodeClaim>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(claim) | Seen::Applied(claim) => {
                view.put_claim(claim);
            }
            Seen::Deleted(claim) => {
                view.remove_claim(&claim.name_any(), claim.uid().as_deref(), version(&claim));
            }
            Seen::Complete(keys) => {
                let names: BTreeSet<ClaimName> = names(&keys);
                self.finish(view, &Listed::Claims(names));
                view.sweep();
            }
        }
    }

    /// Takes in what the watch of Nodes said.
    pub fn node(&mut self, view: &View, seen: Seen<Node>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(node) | Seen::Applied(node) => {
                view.put_node(node);
            }
            Seen::Deleted(node) => {
                view.remove_node(&node.name_any().as_str().into(), node.uid().as_deref(), version(&node));
            }
            Seen::Complete(keys) => {
                let names: BTreeSet<NodeName> = names(&keys);
                self.finish(view, &Listed::Nodes(names));
                view.sweep();
            }
        }
    }

    /// Takes in what the watch of NodePools said.
    pub fn pool(&mut self, view: &View, seen: Seen<NodePool>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(pool) | Seen::Applied(pool) => {
                view.put_pool(pool);
            }
            Seen::Deleted(pool) => view.remove_pool(&pool),
            Seen::Complete(keys) => {
                let names: BTreeSet<PoolName> = names(&keys);
                self.finish(view, &Listed::Pools(names));
                view.sweep();
            }
        }
    }

    /// Takes in what the watch of pods said.
    pub fn pod(&mut self, view: &View, seen: Seen<Pod>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(pod) => view.put_pod(&pod, true),
            Seen::Applied(pod) => view.put_pod(&pod, false),
            Seen::Deleted(pod) => view.remove_pod(&pod),
            Seen::Complete(keys) => {
                let keys: BTreeSet<PodKey> = keys.iter().map(pod_key).collect();
                let missing = view.pods_not_in(&keys);
                self.finish(view, &Listed::Pods(keys));
                view.lock().sweep_daemon_pods();
                view.tell_gone_pods(missing);
            }
        }
    }

    /// Takes in what the watch of daemon sets said.
    pub fn daemon(&mut self, view: &View, seen: Seen<DaemonSet>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(set) | Seen::Applied(set) => view.put_daemon_set(set),
            Seen::Deleted(set) => view.remove_daemon_set(&karpenter_kube_harness::watch::key(&set)),
            Seen::Complete(keys) => {
                if let Some(began) = self.began.take() {
                    view.daemon_sets_listed(&keys, began);
                }
            }
        }
    }

    /// Takes in what the watch of pod disruption budgets said.
    pub fn budget(&mut self, view: &View, seen: Seen<PodDisruptionBudget>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(budget) | Seen::Applied(budget) => {
                let event = Event::budget(version(&budget), karpenter_api::convert::budget(&budget));
                view.lock().cluster.apply(event);
            }
            Seen::Deleted(budget) => {
                let key = (budget.namespace().unwrap_or_default().as_str().into(), budget.name_any());
                view.lock().cluster.apply(Event::Budget(Told::Gone { key, version: version(&budget) }));
            }
            Seen::Complete(keys) => {
                let keys = keys.iter().map(|(namespace, name)| (namespace.as_str().into(), name.clone()));
                self.finish(view, &Listed::Budgets(keys.collect()));
            }
        }
    }

    /// Takes in what the watch of namespaces said.
    pub fn namespace(&mut self, view: &View, seen: Seen<Namespace>) {
        match seen {
            Seen::Listing => self.began = Some(view.begin_list()),
            Seen::Listed(namespace) | Seen::Applied(namespace) => {
                let labels = namespace.labels().iter();
                let object = NamespaceObject {
                    name: namespace.name_any().as_str().into(),
                    labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
                };
                view.lock().cluster.apply(Event::namespace(version(&namespace), object));
            }
            Seen::Deleted(namespace) => {
                let key = namespace.name_any().as_str().into();
                view.lock().cluster.apply(Event::Namespace(Told::Gone { key, version: version(&namespace) }));
            }
            Seen::Complete(keys) => self.finish(view, &Listed::Namespaces(names(&keys))),
        }
    }

    fn finish(&mut self, view: &View, listed: &Listed) {
        // A list that never began cannot say what is missing.
        if let Some(began) = self.began.take() {
            view.lock().cluster.finish_list(listed, began);
        }
    }
}

impl View {
    fn begin_list(&self) -> Epoch {
        self.lock().cluster.begin_list()
    }

    /// True when the node class is one of the provider's.
    fn is_ours(&self, class: &NodeClassRef) -> bool {
        self.classes.iter().any(|kind| kind.owns(class))
    }

    /// Takes a claim as the API server shows it, without what is never read, and returns the newest known.
    pub fn put_claim(&self, mut claim: NodeClaim) -> Arc<NodeClaim> {
        claim.metadata.managed_fields = None;
        let (model, object) = (Arc::new(read::claim(&claim, &self.registry)), Arc::new(claim));
        if !self.is_ours(&model.node_class) {
            return object;
        }
        let replaced = {
            let mut inner = self.lock();
            let replaced = inner.claims.put(Arc::clone(&object), Arc::clone(&model));
            if replaced.is_some() {
                inner.cluster.apply(Event::claim(version(&*object), (*model).clone()));
            }
            replaced
        };
        if let Some(Replaced(before)) = replaced {
            if let Some(before) = &before {
                let (old, new) = (Arc::clone(&before.object), Arc::clone(&object));
                let (old, new) = (Conditioned::Claim(old), Conditioned::Claim(new));
                self.subscribers.tell_status(&StatusSeen::Changed { old, new });
            }
            self.subscribers.wake_claim(&model.name);
            let came_or_goes = before.as_ref().is_none_or(|before| before.model.deletion != model.deletion);
            if let Some(pool) = model.pool.as_ref().filter(|_| came_or_goes) {
                self.subscribers.wake_pool(pool);
            }
            let earlier = before.and_then(|before| before.model.provider_id.clone());
            self.wake_machine(earlier.iter().chain(&model.provider_id), Waken::Nodes);
            return object;
        }
        self.claim(&model.name).map_or(object, |known| known.object)
    }

    /// Forgets a claim that is gone.
    pub fn remove_claim(&self, name: &str, uid: Option<&str>, version: Version) {
        let removed = {
            let mut inner = self.lock();
            let removed = inner.claims.remove(name, uid);
            if removed.is_some() {
                inner.cluster.apply(Event::Claim(Told::Gone { key: name.into(), version }));
            }
            removed
        };
        if let Some(known) = removed {
            self.tell_gone_claim(&known);
        }
    }

    fn tell_gone_claim(&self, known: &KnownClaim) {
        self.lock().attempts.remove(&known.model.uid);
        let gone = Conditioned::Claim(Arc::clone(&known.object));
        self.subscribers.tell_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_claim(&known.model.name);
        self.wake_machine(known.model.provider_id.iter(), Waken::Nodes);
        if let Some(pool) = &known.model.pool {
            self.subscribers.wake_pool(pool);
        }
    }

    /// Takes a Node as the API server shows it, without the fields that no controller reads.
    pub fn put_node(&self, mut node: Node) {
        node.metadata.managed_fields = None;
        if let Some(status) = &mut node.status {
            status.images = None;
        }
        let (model, object) = (Arc::new(read::node(&node)), Arc::new(node));
        let replaced = {
            let mut inner = self.lock();
            let replaced = inner.nodes.put(Arc::clone(&object), Arc::clone(&model));
            if replaced.is_some() {
                inner.cluster.apply(Event::node(version(&*object), (*model).clone()));
            }
            replaced
        };
        if let Some(Replaced(Some(before))) = &replaced {
            let (old, new) = (Arc::clone(&before.object), Arc::clone(&object));
            let (old, new) = (Conditioned::Node(old), Conditioned::Node(new));
            self.subscribers.tell_status(&StatusSeen::Changed { old, new });
        }
        // Heartbeats change nothing a decision reads.
        if let Some(Replaced(before)) = replaced
            && before.as_ref().is_none_or(|before| before.model != model)
        {
            self.subscribers.wake_node(&model.name);
            let earlier = before.and_then(|before| before.model.provider_id.clone());
            self.wake_machine(earlier.iter().chain(&model.provider_id), Waken::Claims);
        }
    }

    /// Forgets a Node that is gone.
    pub fn remove_node(&self, name: &NodeName, uid: Option<&str>, version: Version) {
        let removed = {
            let mut inner = self.lock();
            let removed = inner.nodes.remove(name.as_str(), uid);
            if removed.is_some() {
                inner.cluster.apply(Event::Node(Told::Gone { key: name.clone(), version }));
            }
            removed
        };
        if let Some(known) = removed {
            self.tell_gone_node(&known);
        }
    }

    fn tell_gone_node(&self, known: &KnownNode) {
        let gone = Conditioned::Node(Arc::clone(&known.object));
        self.subscribers.tell_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_node(&known.model.name);
        self.wake_machine(known.model.provider_id.iter(), Waken::Claims);
    }

    /// Takes a pool as the API server shows it. One that cannot be read takes no part, whatever it said before: nothing
    /// is launched from a template its owner has changed.
    pub fn put_pool(&self, mut pool: NodePool) {
        pool.metadata.managed_fields = None;
        let model = read::pool(&pool, &self.registry);
        let Some(model) = model.filter(|model| self.is_ours(&model.template.node_class)).map(Arc::new) else {
            self.withdraw_pool(&pool);
            return;
        };
        let object = Arc::new(pool);
        let replaced = {
            let mut inner = self.lock();
            let replaced = inner.pools.put(Arc::clone(&object), Arc::clone(&model));
            if replaced.is_some() {
                inner.cluster.apply(Event::pool(version(&*object), (*model).clone()));
            }
            replaced
        };
        if let Some(Replaced(before)) = replaced {
            if let Some(before) = &before {
                let (old, new) = (Arc::clone(&before.object), Arc::clone(&object));
                let (old, new) = (Conditioned::Pool(old), Conditioned::Pool(new));
                self.subscribers.tell_status(&StatusSeen::Changed { old, new });
            }
            self.subscribers.wake_pool(&model.name);
            let generation = |pool: &NodePool| pool.metadata.generation;
            if before.as_ref().is_none_or(|before| generation(&before.object) != generation(&object)) {
                self.subscribers.tell_specs();
            }
            // Drift is judged by the stored hash, which is written after the template has changed.
            if before.is_some_and(|before| {
                before.model != model || before.object.annotations() != object.annotations()
            }) {
                self.wake_claims_of_pool(&model.name);
            }
        }
    }

    fn withdraw_pool(&self, pool: &NodePool) {
        let mut inner = self.lock();
        if let Some(known) = inner.pools.withdraw(pool) {
            let key = known.model.name.clone();
            inner.cluster.apply(Event::Pool(Told::Gone { key, version: version(pool) }));
            drop(inner);
            self.tell_gone_pool(&known);
        }
    }

    fn remove_pool(&self, pool: &NodePool) {
        let (name, uid) = (pool.name_any(), pool.uid());
        let mut inner = self.lock();
        if let Some(known) = inner.pools.remove(&name, uid.as_deref()) {
            let key = name.as_str().into();
            inner.cluster.apply(Event::Pool(Told::Gone { key, version: version(pool) }));
            drop(inner);
            self.tell_gone_pool(&known);
        }
    }

    fn tell_gone_pool(&self, known: &KnownPool) {
        self.forget_pool(&known.model);
        let gone = Conditioned::Pool(Arc::clone(&known.object));
        self.subscribers.tell_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_pool(&known.model.name);
        self.subscribers.tell_specs();
    }

    fn put_pod(&self, pod: &Pod, listed: bool) {
        let Some(model) = read::pod(pod) else { return };
        self.subscribers.tell_raw_pod(pod);
        let (version, key) = (version(pod), model.key.clone());
        let (before, after) = {
            let mut inner = self.lock();
            let before = inner.cluster.pod(&key).cloned();
            if !inner.cluster.apply(Event::pod(version, model)) {
                return;
            }
            inner.daemon_pod_seen(&key, pod);
            (before, inner.cluster.pod(&key).cloned())
        };
        let Some(after) = after else { return };
        let seen = match before {
            Some(old) if old.uid == after.uid => PodSeen::Updated { old, new: after },
            _ if listed => PodSeen::Listed(after),
            _ => PodSeen::Created(after),
        };
        self.tell(&seen);
    }

    fn remove_pod(&self, pod: &Pod) {
        let key = pod_key(&karpenter_kube_harness::watch::key(pod));
        let gone = {
            let mut inner = self.lock();
            let before = inner.cluster.pod(&key).cloned();
            inner.cluster.apply(Event::Pod(Told::Gone { key: key.clone(), version: version(pod) }));
            inner.daemon_pod_gone(&key);
            before
        };
        if let Some(gone) = gone {
            self.tell(&PodSeen::Deleted(gone));
        }
    }

    fn pods_not_in(&self, keys: &BTreeSet<PodKey>) -> Vec<Arc<model::Pod>> {
        self.lock().cluster.pods().filter(|pod| !keys.contains(&pod.key)).cloned().collect()
    }

    /// Tells of those among `missing` that the index has dropped, as if their deletion had been seen.
    fn tell_gone_pods(&self, missing: Vec<Arc<model::Pod>>) {
        for pod in missing {
            if self.lock().cluster.pod(&pod.key).is_none() {
                self.tell(&PodSeen::Deleted(pod));
            }
        }
    }

    /// Tells everything that is known once more, to those who did not listen when the watches brought it.
    pub(crate) fn replay(&self) {
        self.claims().iter().for_each(|known| self.subscribers.wake_claim(&known.model.name));
        self.nodes().iter().for_each(|known| self.subscribers.wake_node(&known.model.name));
        self.pools().iter().for_each(|known| self.subscribers.wake_pool(&known.model.name));
        self.buffers().iter().for_each(|known| self.subscribers.wake_buffer(&super::key_of(&known.object)));
        let pods: Vec<_> = self.lock().cluster.pods().cloned().collect();
        for pod in pods {
            self.subscribers.tell_pod(&PodSeen::Listed(pod));
        }
    }

    fn tell(&self, seen: &PodSeen) {
        self.subscribers.tell_pod(seen);
        let earlier = match seen {
            PodSeen::Updated { old, .. } => old.node_name.as_ref(),
            PodSeen::Listed(_) | PodSeen::Created(_) | PodSeen::Deleted(_) => None,
        };
        for node in earlier.into_iter().chain(&seen.pod().node_name).collect::<BTreeSet<_>>() {
            self.subscribers.wake_node(node);
        }
    }

    /// Drops objects that the index no longer has after a list.
    fn sweep(&self) {
        let (claims, nodes, pools) = {
            let mut inner = self.lock();
            let super::Inner { claims, nodes, pools, cluster, .. } = &mut *inner;
            (
                claims.retain(|claim| cluster.claim(&claim.name).is_some()),
                nodes.retain(|node| cluster.node(&node.name).is_some()),
                pools.retain(|pool| cluster.pool(&pool.name).is_some()),
            )
        };
        for known in claims {
            self.tell_gone_claim(&known);
        }
        for known in nodes {
            self.tell_gone_node(&known);
        }
        for known in pools {
            self.tell_gone_pool(&known);
        }
    }

    fn wake_machine<'a>(&self, ids: impl Iterator<Item = &'a ProviderId>, waken: Waken) {
        for id in ids.collect::<BTreeSet<_>>() {
            match waken {
                Waken::Claims => {
                    for known in self.claims_of(id) {
                        self.subscribers.wake_claim(&known.model.name);
                    }
                }
                Waken::Nodes => {
                    for node in self.nodes_of(id) {
                        self.subscribers.wake_node(&node.name);
                    }
                }
            }
        }
    }

    fn wake_claims_of_pool(&self, pool: &PoolName) {
        for known in self.claims() {
            if known.model.pool.as_ref() == Some(pool) {
                self.subscribers.wake_claim(&known.model.name);
            }
        }
    }
}

/// Whom the change of one object of a machine concerns.
#[derive(Clone, Copy)]
enum Waken {
    Claims,
    Nodes,
}

/// Resource versions are ordered numbers; an unreadable one counts as newest, so that the object is shown.
pub(crate) fn version<K: ResourceExt>(object: &K) -> Version {
    object.resource_version().and_then(|text| Version::parse(&text)).unwrap_or(Version(u64::MAX))
}

fn names<T: Ord + for<'a> From<&'a str>>(keys: &BTreeSet<Key>) -> BTreeSet<T> {
    keys.iter().map(|(_, name)| name.as_str().into()).collect()
}

fn pod_key((namespace, name): &Key) -> PodKey {
    PodKey { namespace: namespace.as_str().into(), name: name.as_str().into() }
}

#[cfg(test)]
mod tests;
