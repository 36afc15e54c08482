//! Claims, Nodes, pools and pods: events of watches, answers to writes, and the subscribers concerned.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, Node};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cluster::{Epoch, Kind, Known, Put, Stamp};
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model::{Claim, NodeClassRef, NodeObject, Pod, PodKey, Pool, PoolName, ProviderId};
use kube::ResourceExt;

use super::follow::{Followed, names, stamp, version};
use super::{AsShown, Conditioned, KnownClaim, KnownNode, KnownPool, PodSeen, StatusSeen, View};
use crate::view::read;

/// Entry of the index for an object of a kind.
type Shown<T> = Known<T, <T as Kind>::Object<AsShown>>;

impl Followed for NodeClaim {
    fn applied(self, view: &View) {
        view.put_claim(self);
    }

    fn deleted(self, view: &View) {
        let name = self.name_any().as_str().into();
        view.forget::<Claim>(&name, &stamp(&self), View::notify_gone_claim);
        view.forget_undecoded(&name, self.metadata.uid.as_deref());
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        view.forget_undecoded_unlisted(keys);
        view.forget_unlisted::<Claim>(&names(keys), began, View::notify_gone_claim);
    }
}

impl Followed for Node {
    fn applied(self, view: &View) {
        view.put_node(self);
    }

    fn deleted(self, view: &View) {
        view.forget::<NodeObject>(&self.name_any().as_str().into(), &stamp(&self), View::notify_gone_node);
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        view.forget_unlisted::<NodeObject>(&names(keys), began, View::notify_gone_node);
    }
}

impl Followed for NodePool {
    fn applied(self, view: &View) {
        view.put_pool(self);
    }

    fn deleted(self, view: &View) {
        view.forget::<Pool>(&self.name_any().as_str().into(), &stamp(&self), View::notify_gone_pool);
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        view.forget_unlisted::<Pool>(&names(keys), began, View::notify_gone_pool);
    }
}

impl Followed for v1::Pod {
    fn applied(self, view: &View) {
        view.put_pod(&self, false);
    }

    fn listed(self, view: &View) {
        view.put_pod(&self, true);
    }

    fn deleted(self, view: &View) {
        let key = pod_key(&watch::key(&self));
        let removed = {
            let mut inner = view.lock();
            let removed = inner.cluster.remove::<Pod>(&key, &stamp(&self));
            inner.daemon_pod_gone(&key);
            removed
        };
        if let Some(known) = removed {
            view.notify_pod(&PodSeen::Deleted(known.model));
        }
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        let gone = {
            let mut inner = view.lock();
            let gone = inner.cluster.finish_list::<Pod>(&keys.iter().map(pod_key).collect(), began);
            for (key, _) in &gone {
                inner.daemon_pod_gone(key);
            }
            gone
        };
        for (_, known) in gone {
            view.notify_pod(&PodSeen::Deleted(known.model));
        }
    }
}

impl View {
    /// True when the node class is one of the provider's.
    fn is_ours(&self, class: &NodeClassRef) -> bool {
        self.classes.iter().any(|kind| kind.owns(class))
    }

    /// Takes an object out of the index, and calls `notify` if it was there.
    pub(super) fn forget<T: Kind>(&self, key: &T::Key, stamp: &Stamp, notify: fn(&Self, &Shown<T>)) {
        let removed = self.lock().cluster.remove::<T>(key, stamp);
        if let Some(known) = &removed {
            notify(self, known);
        }
    }

    /// Forgets every object that a list begun at `began` lacks.
    fn forget_unlisted<T: Kind>(
        &self,
        listed: &BTreeSet<T::Key>,
        began: Epoch,
        notify: fn(&Self, &Shown<T>),
    ) {
        let gone = self.lock().cluster.finish_list::<T>(listed, began);
        for (_, known) in &gone {
            notify(self, known);
        }
    }

    /// Notifies that an object with status conditions changed.
    pub(super) fn notify_changed<T>(&self, of: fn(Arc<T>) -> Conditioned, old: &Arc<T>, new: &Arc<T>) {
        let (old, new) = (of(Arc::clone(old)), of(Arc::clone(new)));
        self.subscribers.notify_status(&StatusSeen::Changed { old, new });
    }

    /// Takes a claim as the API server shows it, without what is never read, and returns the newest known.
    pub fn put_claim(&self, claim: NodeClaim) -> Arc<NodeClaim> {
        self.put_claim_for(claim, None)
    }

    /// Takes in a claim we have just created, with the pods it is for, before any watch shows it.
    pub fn created(&self, claim: &NodeClaim, pods: &[PodKey]) {
        self.put_claim_for(claim.clone(), Some(pods));
    }

    fn put_claim_for(&self, mut claim: NodeClaim, pods: Option<&[PodKey]>) -> Arc<NodeClaim> {
        claim.metadata.managed_fields = None;
        let (model, object) = (Arc::new(read::claim(&claim, &self.registry)), Arc::new(claim));
        if !self.is_ours(&model.node_class) {
            // As long as its class could not be read it was taken for ours.
            self.forget_undecoded(&model.name, None);
            return object;
        }
        let name = &model.name;
        let put = {
            let cluster = &mut self.lock().cluster;
            let put = cluster.put(name, stamp(&*object), Arc::clone(&model), Arc::clone(&object));
            // Under the same lock: a pass that saw the claim alone would launch another machine for its pods.
            if let Some(pods) = pods {
                cluster.promise(name, pods.iter().cloned());
            }
            put
        };
        let Some(Put { before, .. }) = put else {
            return self.claim(name).map_or(object, |known| known.object);
        };
        self.forget_undecoded(name, None);
        if let Some(before) = &before {
            self.notify_changed(Conditioned::Claim, &before.object, &object);
        }
        self.subscribers.wake_claim(name);
        // Pools count their claims; all else that changes about one is of no concern to them.
        let came_or_goes = before.as_ref().is_none_or(|before| before.model.deletion != model.deletion);
        if let Some(pool) = model.pool.as_ref().filter(|_| came_or_goes) {
            self.subscribers.wake_pool(pool);
        }
        let earlier = before.and_then(|before| before.model.provider_id.clone());
        self.wake_machine(earlier.iter().chain(&model.provider_id), Subscriber::Nodes);
        object
    }

    pub(super) fn notify_gone_claim(&self, known: &KnownClaim) {
        self.lock().attempts.remove(&known.model.uid);
        let gone = Conditioned::Claim(Arc::clone(&known.object));
        self.subscribers.notify_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_claim(&known.model.name);
        self.wake_machine(known.model.provider_id.iter(), Subscriber::Nodes);
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
        let put =
            self.lock().cluster.put(&model.name, stamp(&*object), Arc::clone(&model), Arc::clone(&object));
        let Some(Put { before, changed }) = put else { return };
        if let Some(before) = &before {
            self.notify_changed(Conditioned::Node, &before.object, &object);
        }
        // Heartbeats change nothing a decision reads.
        if changed {
            self.subscribers.wake_node(&model.name);
            let earlier = before.and_then(|before| before.model.provider_id.clone());
            self.wake_machine(earlier.iter().chain(&model.provider_id), Subscriber::Claims);
        }
    }

    fn notify_gone_node(&self, known: &KnownNode) {
        let gone = Conditioned::Node(Arc::clone(&known.object));
        self.subscribers.notify_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_node(&known.model.name);
        self.wake_machine(known.model.provider_id.iter(), Subscriber::Claims);
    }

    /// Takes a pool as the API server shows it. One that cannot be read takes no part, whatever its contents were: nothing
    /// is launched from a template its owner has changed.
    pub(crate) fn put_pool(&self, mut pool: NodePool) {
        pool.metadata.managed_fields = None;
        let model = read::pool(&pool, &self.registry);
        let Some(model) = model.filter(|model| self.is_ours(&model.template.node_class)).map(Arc::new) else {
            let name = pool.name_any().as_str().into();
            // Without its uid: a version that can be read may come.
            self.forget::<Pool>(&name, &version(&pool).into(), Self::notify_gone_pool);
            return;
        };
        let object = Arc::new(pool);
        let put =
            self.lock().cluster.put(&model.name, stamp(&*object), Arc::clone(&model), Arc::clone(&object));
        let Some(Put { before, changed }) = put else { return };
        if let Some(before) = &before {
            self.notify_changed(Conditioned::Pool, &before.object, &object);
        }
        self.subscribers.wake_pool(&model.name);
        let generation = |pool: &NodePool| pool.metadata.generation;
        if before.as_ref().is_none_or(|before| generation(&before.object) != generation(&object)) {
            self.subscribers.notify_specs();
        }
        // Drift is judged by the stored hash, which is written after the template has changed.
        if before.is_some_and(|before| changed || before.object.annotations() != object.annotations()) {
            self.wake_claims_of_pool(&model.name);
        }
    }

    pub(super) fn notify_gone_pool(&self, known: &KnownPool) {
        self.forget_pool(&known.model);
        let gone = Conditioned::Pool(Arc::clone(&known.object));
        self.subscribers.notify_status(&StatusSeen::Gone(gone));
        self.subscribers.wake_pool(&known.model.name);
        self.subscribers.notify_specs();
    }

    fn put_pod(&self, pod: &v1::Pod, listed: bool) {
        let Some(mut model) = read::pod(pod) else { return };
        // Looked at before it is changed: writing makes the template the pod's own.
        if !self.reads_deletion_costs && model.deletion_cost != 0 {
            model.deletion_cost = 0;
        }
        let stamp = Stamp { uid: Some(model.uid.clone().into()), version: version(pod) };
        let (put, model) = {
            let mut inner = self.lock();
            inner.templates.share(&mut model);
            let model = Arc::new(model);
            let put = inner.cluster.put(&model.key, stamp, Arc::clone(&model), ());
            if put.as_ref().is_some_and(|put| put.changed) {
                inner.daemon_pod_seen(&model.key, pod);
            }
            (put, model)
        };
        let Some(Put { before, changed: true }) = put else { return };
        let seen = match before {
            // Another uid under the same name is another pod: the watch has missed the end of the one before.
            Some(before) if before.model.uid == model.uid => {
                PodSeen::Updated { old: before.model, new: model }
            }
            _ if listed => PodSeen::Listed(model),
            _ => PodSeen::Created(model),
        };
        self.notify_pod(&seen);
    }

    /// Notifies of everything that is known once more, for listeners that were not there when the watches brought it.
    pub(crate) fn replay(&self) {
        self.claims().iter().for_each(|known| self.subscribers.wake_claim(&known.model.name));
        self.nodes().iter().for_each(|known| self.subscribers.wake_node(&known.model.name));
        self.pools().iter().for_each(|known| self.subscribers.wake_pool(&known.model.name));
        self.buffers().iter().for_each(|known| self.subscribers.wake_buffer(&super::key_of(&known.object)));
        let pods: Vec<_> = self.pods();
        for pod in pods {
            self.subscribers.notify_pod(&PodSeen::Listed(pod));
        }
    }

    fn notify_pod(&self, seen: &PodSeen) {
        self.subscribers.notify_pod(seen);
        let earlier = match seen {
            PodSeen::Updated { old, .. } => old.node_name.as_ref(),
            PodSeen::Listed(_) | PodSeen::Created(_) | PodSeen::Deleted(_) => None,
        };
        for name in earlier.into_iter().chain(&seen.pod().node_name).collect::<BTreeSet<_>>() {
            // Pods come and go all the time, and concern no controller of Nodes but the one that drains.
            if self.node(name).is_some_and(|node| node.model.deletion.is_some()) {
                self.subscribers.wake_node(name);
            }
        }
    }

    fn wake_machine<'a>(&self, ids: impl Iterator<Item = &'a ProviderId>, waken: Subscriber) {
        for id in ids.collect::<BTreeSet<_>>() {
            match waken {
                Subscriber::Claims => {
                    for known in self.claims_of(id) {
                        self.subscribers.wake_claim(&known.model.name);
                    }
                }
                Subscriber::Nodes => {
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

/// Reconcilers to wake after a change of a NodeClaim or Node: those of claims, or those of nodes.
#[derive(Clone, Copy)]
enum Subscriber {
    Claims,
    Nodes,
}

fn pod_key((namespace, name): &Key) -> PodKey {
    PodKey { namespace: namespace.as_str().into(), name: name.as_str().into() }
}

#[cfg(test)]
mod tests;
