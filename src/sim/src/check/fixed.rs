//! Pools with a fixed number of machines: none has more than it was to have lately, and those that take the place of
//! others: as many as its budget lets go at once.

use std::collections::BTreeMap;

use karpenter_kube_sim::apiserver::object::{self, Key};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use serde_json::Value;

use super::{Found, OUTDATED, Scene, budgets, pool_of};

/// Numbers pools were to have before, and until when.
#[derive(Default)]
pub(super) struct Fixed(BTreeMap<Key, Vec<(usize, u64)>>);

impl Fixed {
    /// A pool changes.
    pub(super) fn pool(&mut self, change: &Change, now: u64) {
        let key = Key::of(&change.object);
        let Some(before) = change.previous.as_ref().and_then(|pool| replicas(pool)) else { return };
        if change.kind == ChangeKind::Deleted {
            self.0.remove(&key);
        } else if replicas(&change.object) != Some(before) {
            self.0.entry(key).or_default().push((before, now));
        }
    }

    /// A claim changes.
    pub(super) fn claim(&self, scene: &Scene, change: &Change, now: u64, found: &mut Found) {
        let name = pool_of(&change.object);
        let key = Key::new("", name);
        let Some(pool) = scene.pools.get(&key).filter(|_| change.kind == ChangeKind::Added) else { return };
        let Some(wanted) = replicas(pool) else { return };
        let earlier = self.0.get(&key).into_iter().flatten();
        let lately = earlier.filter(|(_, until)| until + OUTDATED >= now).map(|(number, _)| *number);
        let most = lately.fold(wanted, usize::max) + budgets::budget(pool).unwrap_or_default();
        let there = machines(scene, name).count() + 1;
        if there > most {
            let what = format!(
                "pool {name} is to have {wanted} machines, with those replaced {most}, and gets {there}"
            );
            found.push(("fixed number", what));
        }
    }
}

/// Returns the wanted number of machines of a pool, if that is fixed.
pub(super) fn replicas(pool: &Value) -> Option<usize> {
    pool.pointer("/spec/replicas")?.as_u64().and_then(|number| usize::try_from(number).ok())
}

/// Claims of a pool that are to stay.
pub(super) fn machines<'s>(scene: &'s Scene, pool: &'s str) -> impl Iterator<Item = &'s Value> {
    let of_pool = scene.claims.values().map(AsRef::as_ref).filter(move |claim| pool_of(claim) == pool);
    of_pool.filter(|claim| !object::is_deleting(claim))
}
