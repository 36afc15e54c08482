//! Objects this release cannot decode, of kinds that a newer one may have widened.
//!
//! A pool, an overlay or a buffer takes no part until it can be decoded. Nor does a claim: no controller works on it, so
//! nothing about its machine changes. The claim's name, machine and node class are known all the same: without them the
//! machine would look like one without a claim, the Node like one whose machine need not be looked up, and the node class
//! like one that is not in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::{CapacityBuffer, NodeClaim, NodeOverlay, NodePool};
use karpenter_cluster::Stamp;
use karpenter_kube_harness::watch::{Key, Readable, Seen, Undecoded};
use karpenter_model::names::label;
use karpenter_model::{BufferKey, Claim, ClaimName, NodeClassRef, Pool, PoolName, ProviderId};

use super::follow::{Followed, version_of};
use super::{Inner, View};

/// A kind that other releases write too.
pub(crate) trait Widened: Followed + Default {
    /// The object is there and cannot be decoded, whatever its contents were.
    fn undecoded(view: &View, object: &Undecoded);
}

/// The claims that cannot be decoded, with what is known of them.
#[derive(Default)]
pub(super) struct Claims(BTreeMap<ClaimName, Arc<Claim>>);

impl Widened for NodePool {
    fn undecoded(view: &View, object: &Undecoded) {
        view.forget::<Pool>(&object.key().1.as_str().into(), &stamp(object), View::notify_gone_pool);
    }
}

impl Widened for NodeOverlay {
    fn undecoded(view: &View, object: &Undecoded) {
        view.forget_overlay(&object.key().1, &stamp(object));
    }
}

impl Widened for CapacityBuffer {
    fn undecoded(view: &View, object: &Undecoded) {
        let (namespace, name) = object.key();
        view.forget_buffer(&BufferKey::new(&namespace, &name), &stamp(object));
    }
}

impl Widened for NodeClaim {
    fn undecoded(view: &View, object: &Undecoded) {
        let claim = claim(object);
        let name = claim.name.clone();
        // First here, so that at no instant it is in neither place.
        let ours = view.may_be_ours(&claim.node_class);
        if ours {
            view.lock().undecoded.0.insert(name.clone(), Arc::new(claim));
        }
        view.forget::<Claim>(&name, &stamp(object), View::notify_gone_claim);
        let mut inner = view.lock();
        if inner.cluster.get::<Claim>(&name).is_some() {
            // The answer to a write of ours is newer, and was decoded.
            inner.undecoded.0.remove(&name);
        }
    }
}

impl View {
    /// Takes in an event of the watch of a kind that other releases write too.
    pub(crate) fn take_readable<K: Widened>(&self, seen: Seen<Readable<K>>) {
        match seen {
            Seen::Listed(Readable::Undecoded(object)) | Seen::Applied(Readable::Undecoded(object)) => {
                K::undecoded(self, &object);
            }
            Seen::Listed(Readable::Whole(object)) => self.take(Seen::Listed(object)),
            Seen::Applied(Readable::Whole(object)) => self.take(Seen::Applied(object)),
            Seen::Deleted(object) => self.take(Seen::Deleted(object.or_nameplate())),
            Seen::Listing => self.take::<K>(Seen::Listing),
            Seen::Complete(keys) => self.take::<K>(Seen::Complete(keys)),
        }
    }

    /// Every claim, also those that cannot be decoded. Of these only the metadata, the node class, the machine and the Node
    /// are known.
    pub fn claims_or_undecoded(&self) -> Vec<Arc<Claim>> {
        let inner = self.lock();
        let decoded = inner.cluster.all::<Claim>().map(|known| &known.model);
        decoded.chain(inner.undecoded.0.values()).cloned().collect()
    }

    /// Returns whether any claim has the machine with this id, also one that cannot be decoded.
    pub(crate) fn is_claimed_machine(&self, id: &ProviderId) -> bool {
        let inner = self.lock();
        inner.cluster.claims_of(id).next().is_some() || inner.undecoded.has_machine(id)
    }

    /// Returns whether a claim that cannot be decoded has the machine with this id.
    pub(crate) fn is_undecoded_machine(&self, id: &ProviderId) -> bool {
        self.lock().undecoded.has_machine(id)
    }

    /// Number of claims of a pool that cannot be decoded.
    pub(crate) fn undecoded_claims_of(&self, pool: &PoolName) -> usize {
        self.lock().undecoded_of(pool)
    }

    /// The claim of this name was decoded, or is gone. With a `uid` only that very claim.
    pub(super) fn forget_undecoded(&self, name: &ClaimName, uid: Option<&str>) {
        let Some(claim) = self.lock().undecoded.remove(name, uid) else { return };
        self.subscribers.wake_claim(name);
        if let Some(pool) = &claim.pool {
            self.subscribers.wake_pool(pool);
        }
        for node in claim.provider_id.iter().flat_map(|id| self.nodes_of(id)) {
            self.subscribers.wake_node(&node.name);
        }
    }

    /// Forgets every claim that a complete list lacks.
    pub(super) fn forget_undecoded_unlisted(&self, keys: &BTreeSet<Key>) {
        let unlisted = |name: &ClaimName| !keys.contains(&(String::new(), name.to_string()));
        let gone: Vec<ClaimName> =
            self.lock().undecoded.0.keys().filter(|name| unlisted(name)).cloned().collect();
        for name in &gone {
            self.forget_undecoded(name, None);
        }
    }

    /// False when the reference names a node class of another provider.
    fn may_be_ours(&self, class: &NodeClassRef) -> bool {
        let says = |said: &str, kind: &str| said.is_empty() || said == kind;
        self.classes.iter().any(|kind| says(&class.group, kind.group) && says(&class.kind, kind.kind))
    }
}

impl Claims {
    fn has_machine(&self, id: &ProviderId) -> bool {
        self.0.values().any(|claim| claim.provider_id.as_ref() == Some(id))
    }

    fn remove(&mut self, name: &ClaimName, uid: Option<&str>) -> Option<Arc<Claim>> {
        let known = self.0.get(name)?;
        if uid.is_some_and(|uid| known.uid.as_str() != uid) {
            return None;
        }
        self.0.remove(name)
    }
}

impl Inner {
    /// Number of claims of a pool that cannot be decoded.
    pub(super) fn undecoded_of(&self, pool: &PoolName) -> usize {
        self.undecoded.0.values().filter(|claim| claim.pool.as_ref() == Some(pool)).count()
    }
}

/// Returns the stamp of a version, without the uid: a version that can be decoded may come.
fn stamp(object: &Undecoded) -> Stamp {
    version_of(&object.metadata).into()
}

fn claim(object: &Undecoded) -> Claim {
    let metadata = &object.metadata;
    let text = |pointer: &str| object.text(pointer).unwrap_or_default().to_owned();
    let labels = metadata.labels.iter().flatten();
    let created_at = metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default();
    Claim {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        pool: metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(label::NODE_POOL))
            .map(|pool| pool.as_str().into()),
        labels: labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        deletion: metadata.deletion_timestamp.as_ref().map(|time| time.0),
        node_class: NodeClassRef {
            group: text("/spec/nodeClassRef/group"),
            kind: text("/spec/nodeClassRef/kind"),
            name: text("/spec/nodeClassRef/name"),
        },
        provider_id: object.text("/status/providerID").map(Into::into),
        node_name: object.text("/status/nodeName").map(Into::into),
        ..Claim::bare(&object.key().1, created_at)
    }
}

#[cfg(test)]
mod tests;
