//! The newest version of each object of one kind, whatever order its events arrive in.
//!
//! A deleted object leaves a tombstone with the version of its deletion, so that a late event about it changes
//! nothing; an object created again under the same name has a higher version. Tombstones are bounded: the
//! oldest ones go first, and by then nothing that old is under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most tombstones kept per kind.
const TOMBSTONES_MAX: usize = 16_384;

/// The resource version of an object: a number that only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl Version {
    /// Reads `metadata.resourceVersion`.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A point in the history of the index, taken before a list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(pub(crate) u64);

/// What an accepted event replaced and what is there now.
#[derive(Debug)]
pub(crate) struct Change<T> {
    pub(crate) old: Option<Arc<T>>,
    pub(crate) new: Option<Arc<T>>,
}

/// All objects of one kind.
#[derive(Debug)]
pub(crate) struct Store<K, T> {
    live: BTreeMap<K, Entry<T>>,
    gone: BTreeMap<K, Version>,
    gone_order: BTreeSet<(Version, K)>,
}

#[derive(Debug)]
struct Entry<T> {
    object: Arc<T>,
    version: Version,
    touched: Epoch,
}

impl<K, T> Default for Store<K, T> {
    fn default() -> Self {
        Self { live: BTreeMap::new(), gone: BTreeMap::new(), gone_order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, T: PartialEq> Store<K, T> {
    /// Takes an object in unless something as new is known; `None` when nothing visible changed.
    pub(crate) fn upsert(&mut self, key: K, version: Version, object: T, now: Epoch) -> Option<Change<T>> {
        if self.gone.get(&key).is_some_and(|gone| *gone >= version) {
            return None;
        }
        let Some(entry) = self.live.get_mut(&key) else {
            self.forget_tombstone(&key);
            let object = Arc::new(object);
            let entry = Entry { object: Arc::clone(&object), version, touched: now };
            self.live.insert(key, entry);
            return Some(Change { old: None, new: Some(object) });
        };
        entry.touched = now;
        if entry.version >= version {
            return None;
        }
        entry.version = version;
        if *entry.object == object {
            return None;
        }
        let object = Arc::new(object);
        let old = std::mem::replace(&mut entry.object, Arc::clone(&object));
        Some(Change { old: Some(old), new: Some(object) })
    }

    /// Takes an object out unless a newer version of it is known.
    pub(crate) fn remove(&mut self, key: &K, version: Version) -> Option<Change<T>> {
        if self.live.get(key).is_some_and(|entry| entry.version > version) {
            return None;
        }
        self.bury(key.clone(), version);
        let old = self.live.remove(key)?;
        Some(Change { old: Some(old.object), new: None })
    }

    /// Keys that a list begun at this epoch did not contain although it would have: those not touched since.
    pub(crate) fn missing(&self, listed: &BTreeSet<K>, began: Epoch) -> Vec<(K, Version)> {
        self.live
            .iter()
            .filter(|(key, entry)| entry.touched < began && !listed.contains(key))
            .map(|(key, entry)| (key.clone(), entry.version))
            .collect()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&Arc<T>> {
        self.live.get(key).map(|entry| &entry.object)
    }

    /// All objects in key order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Arc<T>)> {
        self.live.iter().map(|(key, entry)| (key, &entry.object))
    }

    fn bury(&mut self, key: K, version: Version) {
        let known = self.gone.get(&key).copied();
        if known.is_some_and(|known| known >= version) {
            return;
        }
        self.forget_tombstone(&key);
        self.gone_order.insert((version, key.clone()));
        self.gone.insert(key, version);
        if self.gone.len() > TOMBSTONES_MAX
            && let Some((_, oldest)) = self.gone_order.pop_first()
        {
            self.gone.remove(&oldest);
        }
    }

    fn forget_tombstone(&mut self, key: &K) {
        if let Some(version) = self.gone.remove(key) {
            self.gone_order.remove(&(version, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Epoch = Epoch(1);

    fn value(store: &Store<&'static str, u32>) -> Option<u32> {
        store.get(&"a").map(|value| **value)
    }

    #[test]
    fn the_newest_version_wins_in_every_order() {
        // Created at 1, changed at 2, deleted at 3, created again at 4.
        type Apply = fn(&mut Store<&'static str, u32>);
        let events: [Apply; 4] = [
            |store| drop(store.upsert("a", Version(1), 10, NOW)),
            |store| drop(store.upsert("a", Version(2), 20, NOW)),
            |store| drop(store.remove(&"a", Version(3))),
            |store| drop(store.upsert("a", Version(4), 40, NOW)),
        ];
        for order in 0..256_usize {
            // Every sequence of four picks, repetitions included.
            let picks = [order % 4, order / 4 % 4, order / 16 % 4, order / 64 % 4];
            let mut store = Store::default();
            for pick in picks {
                events[pick](&mut store);
            }
            let newest = picks.iter().max().expect("four picks");
            assert_eq!(value(&store), [Some(10), Some(20), None, Some(40)][*newest], "{picks:?}");
        }
    }

    #[test]
    fn only_visible_changes_are_reported() {
        let mut store = Store::default();
        assert!(store.upsert("a", Version(1), 10, NOW).is_some());
        assert!(store.upsert("a", Version(1), 10, NOW).is_none(), "a repetition");
        assert!(store.upsert("a", Version(2), 10, NOW).is_none(), "a heartbeat");
        assert!(store.upsert("a", Version(1), 11, NOW).is_none(), "an old version");
        assert!(store.upsert("a", Version(3), 11, NOW).is_some());
        assert!(store.remove(&"b", Version(9)).is_none(), "never seen");
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_came_after_it_began() {
        let mut store = Store::default();
        store.upsert("old", Version(1), 1, Epoch(1));
        store.upsert("kept", Version(2), 2, Epoch(1));
        store.upsert("new", Version(3), 3, Epoch(3));
        let missing = store.missing(&BTreeSet::from(["kept"]), Epoch(2));
        assert_eq!(missing, [("old", Version(1))]);
    }

    #[test]
    fn tombstones_are_bounded_and_the_oldest_go_first() {
        let mut store: Store<u64, u32> = Store::default();
        for key in 0..=TOMBSTONES_MAX as u64 {
            store.remove(&key, Version(key + 1));
        }
        assert_eq!(store.gone.len(), TOMBSTONES_MAX);
        assert_eq!(store.gone_order.len(), TOMBSTONES_MAX);
        assert!(!store.gone.contains_key(&0));
    }
}
