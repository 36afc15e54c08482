//! Overlays: as the API server shows them, those in force, and the types of pools as seen through them
//! (spec scheduling 24). With the gate closed none is known and the provider's values hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::NodeOverlay;
use karpenter_cloud::SharedTypes;
use karpenter_cloud::overlay::{List, Overlays, PoolOverlays};
use karpenter_cluster::{Epoch, Stamp, Store};
use karpenter_kube_harness::watch::Key;
use karpenter_model::{Pool, PoolName};
use kube::{Resource, ResourceExt};

use super::View;
use super::follow::{Followed, stamp};

/// Overlays while the gate is open.
pub(super) struct Known {
    objects: Store<String, (), Arc<NodeOverlay>>,
    in_force: Overlays,
    laid: BTreeMap<PoolName, Laid>,
}

/// The types of one pool, and what they were made from.
#[derive(Clone)]
struct Laid {
    from: List,
    through: PoolOverlays,
    types: List,
}

/// Error while it is not known which overlays apply to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node overlays of the pool have not been evaluated yet")]
pub(crate) struct Unevaluated;

impl Known {
    /// Creates it with nothing known.
    pub(super) fn new() -> Self {
        Self { objects: Store::default(), in_force: Overlays::default(), laid: BTreeMap::new() }
    }

    /// Forgets what was laid for a pool that has gone.
    pub(super) fn forget(&mut self, pool: &PoolName) {
        self.laid.remove(pool);
    }
}

impl Followed for NodeOverlay {
    fn applied(self, view: &View) {
        view.put_overlay(self);
    }

    fn deleted(self, view: &View) {
        view.remove_overlay(&self);
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        if let Some(known) = &mut view.lock().overlays {
            let names = keys.iter().map(|(_, name)| name.clone()).collect();
            known.objects.remove_unlisted(&names, began);
        }
        view.subscribers.notify_specs();
    }
}

impl View {
    /// Takes in an overlay, from a watch or in answer to a write.
    pub(crate) fn put_overlay(&self, object: NodeOverlay) {
        let generation = object.metadata.generation;
        let mut inner = self.lock();
        let epoch = inner.cluster.epoch();
        let Some(known) = &mut inner.overlays else { return };
        let (name, stamp) = (object.name_any(), stamp(&object));
        let Some(put) = known.objects.put(name, stamp, (), Arc::new(object), epoch) else { return };
        drop(inner);
        if put.before.is_none_or(|before| before.object.metadata.generation != generation) {
            self.subscribers.notify_specs();
        }
    }

    /// Forgets an overlay that is gone.
    pub(crate) fn remove_overlay(&self, object: &NodeOverlay) {
        self.forget_overlay(&object.name_any(), &stamp(object));
    }

    /// Forgets an overlay that is gone or takes no part.
    pub(super) fn forget_overlay(&self, name: &str, stamp: &Stamp) {
        if let Some(known) = &mut self.lock().overlays {
            known.objects.remove(&name.to_owned(), stamp);
        }
        self.subscribers.notify_specs();
    }

    /// Every overlay, in name order; `None` until they have been listed.
    pub(crate) fn overlays(&self) -> Option<Vec<Arc<NodeOverlay>>> {
        let inner = self.lock();
        let known = inner.overlays.as_ref().filter(|_| inner.lists.has(&NodeOverlay::kind(&())))?;
        Some(known.objects.iter().map(|(_, known)| Arc::clone(&known.object)).collect())
    }

    /// Puts these overlays in force; returns whether they differ from those before.
    pub(crate) fn put_in_force(&self, overlays: Overlays) -> bool {
        let mut inner = self.lock();
        let Some(known) = &mut inner.overlays else { return false };
        if known.in_force == overlays {
            return false;
        }
        known.in_force = overlays;
        known.laid.clear();
        true
    }

    /// Overlays for the types of `pool`; `None` with the gate closed.
    pub(crate) fn through(&self, pool: &Pool) -> Result<Option<PoolOverlays>, Unevaluated> {
        match &self.lock().overlays {
            Some(known) => known.in_force.of(pool, &self.registry).map(Some).ok_or(Unevaluated),
            None => Ok(None),
        }
    }

    /// `types` of `pool` as seen through its overlays; remembered as long as both stay the same.
    pub(crate) fn overlaid(&self, pool: &Pool, types: List) -> Result<List, Unevaluated> {
        let Some(through) = self.through(pool)? else { return Ok(types) };
        let (remembered, in_use): (Option<Laid>, Vec<List>) = match &self.lock().overlays {
            Some(known) => {
                let lists = known.laid.values().flat_map(|laid| [&laid.from, &laid.types]);
                (known.laid.get(&pool.name).cloned(), lists.cloned().collect())
            }
            None => (None, Vec::new()),
        };
        if let Some(laid) =
            remembered.filter(|laid| Arc::ptr_eq(&laid.from, &types) && laid.through == through)
        {
            return Ok(laid.types);
        }
        // Most overlays are for every pool, and then most pools see the same types.
        let laid = through.lay_over(&types, &self.registry);
        let laid = SharedTypes::with(in_use.iter().chain([&types])).list(laid.iter().cloned());
        let mut inner = self.lock();
        // The pool may have gone while its types were laid over, and nothing would forget them again.
        let there = inner.cluster.get::<Pool>(&pool.name).is_some();
        if let Some(known) = inner.overlays.as_mut().filter(|_| there) {
            known.laid.insert(pool.name.clone(), Laid { from: types, through, types: Arc::clone(&laid) });
        }
        Ok(laid)
    }
}
