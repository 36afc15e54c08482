//! Limit ranges: what a namespace gives containers that do not state their needs. They matter only for daemon sets
//! that have no pod yet; a pod that exists has been given it already (spec scheduling 16).
//!
//! The reference does not read them, so its roles may not allow it: nothing waits for this list.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::LimitRange;
use karpenter_api::convert::Limits;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::{Key, key};

use super::follow::Followed;
use super::{Inner, View};
use crate::view::read;

impl Inner {
    fn limit_range(&mut self, key: &Key, items: Vec<Limits>) {
        let known = &mut Arc::make_mut(&mut self.admission).limit_ranges;
        let is_news = if items.is_empty() {
            known.remove(key).is_some()
        } else {
            known.insert(key.clone(), items).as_ref() != known.get(key)
        };
        if is_news {
            self.derive_daemons_of(&key.0);
        }
    }
}

impl Followed for LimitRange {
    fn applied(self, view: &View) {
        // One that cannot be read gives nothing, rather than what it once gave.
        let items = read::limit_range(&self).unwrap_or_default();
        view.lock().limit_range(&key(&self), items);
    }

    fn deleted(self, view: &View) {
        view.lock().limit_range(&key(&self), Vec::new());
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, _: Epoch) {
        let mut inner = view.lock();
        let known = inner.admission.limit_ranges.keys();
        for gone in known.filter(|key| !keys.contains(*key)).cloned().collect::<Vec<_>>() {
            inner.limit_range(&gone, Vec::new());
        }
    }
}
