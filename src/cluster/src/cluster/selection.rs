//! Selections of Services and owners, as snapshots show them.
//!
//! Owners change with every pod that starts; what they select does not, and is copied only when it does.

use std::sync::Arc;

use karpenter_model::snapshot::{OwnedBy, Selections};
use karpenter_model::{Labels, Namespace, OwnerUid};

use super::{Cluster, Shown};

impl<O: Shown> Cluster<O> {
    /// Sets what a Service selects; `None` once it is gone or selects nothing.
    pub fn set_service(&mut self, namespace: &Namespace, name: &str, selector: Option<Labels>) {
        if self.selections.service(namespace, name) != selector.as_ref() {
            Arc::make_mut(&mut self.selections).set_service(namespace, name, selector);
        }
    }

    /// Sets what an owner of pods selects; `None` once it is gone.
    pub fn set_owner(&mut self, uid: &OwnerUid, selects: Option<OwnedBy>) {
        if self.selections.owner(uid) != selects.as_ref() {
            Arc::make_mut(&mut self.selections).set_owner(uid, selects);
        }
    }

    /// Returns the known selections.
    pub fn selections(&self) -> &Selections {
        &self.selections
    }
}
