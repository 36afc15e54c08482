//! Comparison of two snapshots by what they show. The index counts its revisions by it, and a pass that decided nothing is
//! not made again for the same things.
//!
//! Parts that are shared are compared by their addresses, which costs a pointer for each machine and pod: equal things at
//! different addresses may count as different, never the other way round. What has no address of its own is compared by
//! its contents.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Snapshot;

impl Snapshot {
    /// Returns whether `other` shows the same things, apart from the instant and the revision.
    pub fn shows_the_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.settings, &other.settings)
            && Arc::ptr_eq(&self.registry, &other.registry)
            && same_list(&self.pools, &other.pools)
            && same_map(&self.instance_types, &other.instance_types)
            && same_list(&self.nodes, &other.nodes)
            && same_list(&self.pending, &other.pending)
            && self.promises == other.promises
            && same_list(&self.daemons, &other.daemons)
            && same_map(&self.volumes, &other.volumes)
            && self.namespaces == other.namespaces
            && (Arc::ptr_eq(&self.selections, &other.selections) || self.selections == other.selections)
            && self.budgets == other.budgets
            && self.devices == other.devices
            && self.zones_away == other.zones_away
            && self.repair == other.repair
    }
}

fn same_list<T>(one: &[Arc<T>], other: &[Arc<T>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

fn same_map<K: Eq, T: ?Sized>(one: &BTreeMap<K, Arc<T>>, other: &BTreeMap<K, Arc<T>>) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len()
        && pairs.all(|((key, one), (name, other))| key == name && Arc::ptr_eq(one, other))
}
