//! Limit ranges: what a namespace gives containers that do not say what they need. They matter only for daemon sets
//! that have no pod yet; a pod that exists has been given it already (spec scheduling 16).
//!
//! The reference does not read them, so its roles may not allow it: nothing waits for this list.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::LimitRange;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::{Key, key};
use karpenter_model::resources::limit_range::ContainerDefaults;

use super::follow::Followed;
use super::{Inner, View};
use crate::view::read;

/// What each limit range gives, by namespace and name.
#[derive(Default)]
pub(super) struct LimitRanges(BTreeMap<Key, Vec<ContainerDefaults>>);

impl LimitRanges {
    /// What the containers of a namespace are given, in the order of the names of the objects.
    pub(super) fn of(&self, namespace: &str) -> Vec<ContainerDefaults> {
        let from = (namespace.to_owned(), String::new());
        let all = self.0.range(from..).take_while(|((of, _), _)| of == namespace);
        all.flat_map(|(_, items)| items).cloned().collect()
    }

    /// Takes what an object says now; whether that is news.
    fn put(&mut self, key: &Key, items: Vec<ContainerDefaults>) -> bool {
        if items.is_empty() {
            return self.0.remove(key).is_some();
        }
        let before = self.0.insert(key.clone(), items);
        before.as_ref() != self.0.get(key)
    }
}

impl Inner {
    fn limit_range(&mut self, key: &Key, items: Vec<ContainerDefaults>) {
        if self.limit_ranges.put(key, items) {
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
        let known = inner.limit_ranges.0.keys();
        for gone in known.filter(|key| !keys.contains(*key)).cloned().collect::<Vec<_>>() {
            inner.limit_range(&gone, Vec::new());
        }
    }
}
