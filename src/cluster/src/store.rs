//! The newest state of each object of one kind, whatever order its events arrive in.
//!
//! One rule says what is newer, for what a watch tells and for what our own writes are answered with: a higher resource
//! version. One rule says what is gone: a deletion leaves a tombstone, and neither a version up to that of the deletion
//! nor the uid that was deleted comes back; an object created again under the same name has both a higher version and
//! another uid. Tombstones are bounded: the oldest ones go first, and by then nothing that old is under way.

use std::borrow::Borrow;
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

/// Identity and version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Uid of the object; `None` where it is not known.
    pub uid: Option<Arc<str>>,
    /// Resource version of the object, in an event about its end that of its deletion.
    pub version: Version,
}

impl From<Version> for Stamp {
    fn from(version: Version) -> Self {
        Self { uid: None, version }
    }
}

/// A point in the history of a store, taken before a list is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Epoch(u64);

impl Epoch {
    /// The point after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// An object as shown and as read.
#[derive(Debug)]
pub struct Known<T, O> {
    /// Object as the API server shows it, where that is kept; else `()`.
    pub object: O,
    /// Object as decisions read it. It stays the same allocation while it stays equal.
    pub model: Arc<T>,
}

impl<T, O: Clone> Clone for Known<T, O> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), model: Arc::clone(&self.model) }
    }
}

/// State that a newer one replaced.
#[derive(Debug)]
pub struct Put<T, O> {
    /// Value known under the name before, of this object or of an earlier one.
    pub before: Option<Known<T, O>>,
    /// True if decisions read something else now; a heartbeat changes what is shown and nothing more.
    pub changed: bool,
}

/// All objects of one kind.
#[derive(Debug)]
pub struct Store<K, T, O = ()> {
    live: BTreeMap<K, Entry<T, O>>,
    gone: BTreeMap<K, Stamp>,
    gone_order: BTreeSet<(Version, K)>,
}

#[derive(Debug)]
struct Entry<T, O> {
    known: Known<T, O>,
    stamp: Stamp,
    touched: Epoch,
}

impl<K, T, O> Default for Store<K, T, O> {
    fn default() -> Self {
        Self { live: BTreeMap::new(), gone: BTreeMap::new(), gone_order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, T: PartialEq, O> Store<K, T, O> {
    /// Takes a state in unless one as new is known or the object is gone; `None` then.
    pub fn put(
        &mut self,
        key: K,
        stamp: Stamp,
        model: impl Into<Arc<T>>,
        object: O,
        now: Epoch,
    ) -> Option<Put<T, O>> {
        if self.gone.get(&key).is_some_and(|gone| gone.version >= stamp.version || same_object(gone, &stamp))
        {
            return None;
        }
        let model = model.into();
        let Some(entry) = self.live.get_mut(&key) else {
            self.forget_tombstone(&key);
            self.live.insert(key, Entry { known: Known { object, model }, stamp, touched: now });
            return Some(Put { before: None, changed: true });
        };
        entry.touched = now;
        if entry.stamp.version >= stamp.version {
            return None;
        }
        entry.stamp = stamp;
        let changed = entry.known.model != model;
        let model = if changed { model } else { Arc::clone(&entry.known.model) };
        let before = std::mem::replace(&mut entry.known, Known { object, model });
        Some(Put { before: Some(before), changed })
    }

    /// Removes an object and returns what was known of it. What is known stays if it belongs to another object, or is newer than
    /// an event without the uid of its object.
    pub fn remove(&mut self, key: &K, stamp: &Stamp) -> Option<Known<T, O>> {
        let Some(entry) = self.live.get(key) else {
            self.bury(key, stamp.clone());
            return None;
        };
        let (newer, same) = (entry.stamp.version > stamp.version, same_object(&entry.stamp, stamp));
        if newer && !same {
            return None;
        }
        let version = stamp.version.max(entry.stamp.version);
        self.bury(key, Stamp { uid: stamp.uid.clone(), version });
        self.live.remove(key).map(|entry| entry.known)
    }

    /// Takes out what a list begun at this epoch did not contain although it would have: what was not touched since. The
    /// objects may show themselves again, with a newer version: a list can be older than it should be.
    pub fn remove_unlisted(&mut self, listed: &BTreeSet<K>, began: Epoch) -> Vec<(K, Known<T, O>)> {
        let missing = self.live.iter().filter(|(key, entry)| entry.touched < began && !listed.contains(key));
        let missing: Vec<(K, Version)> =
            missing.map(|(key, entry)| (key.clone(), entry.stamp.version)).collect();
        let gone = missing.into_iter().filter_map(|(key, version)| {
            let known = self.remove(&key, &version.into())?;
            Some((key, known))
        });
        gone.collect()
    }

    /// Returns the value known of an object.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Known<T, O>>
    where
        K: Borrow<Q>,
    {
        self.live.get(key).map(|entry| &entry.known)
    }

    /// Returns the object as decisions read it.
    pub fn model<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Arc<T>>
    where
        K: Borrow<Q>,
    {
        self.get(key).map(|known| &known.model)
    }

    /// All objects in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Known<T, O>)> {
        self.live.iter().map(|(key, entry)| (key, &entry.known))
    }

    /// All objects in key order, as decisions read them.
    pub fn models(&self) -> impl Iterator<Item = &Arc<T>> {
        self.live.values().map(|entry| &entry.known.model)
    }

    fn bury(&mut self, key: &K, stamp: Stamp) {
        if self.gone.get(key).is_some_and(|known| known.version >= stamp.version) {
            return;
        }
        self.forget_tombstone(key);
        self.gone_order.insert((stamp.version, key.clone()));
        self.gone.insert(key.clone(), stamp);
        if self.gone.len() > TOMBSTONES_MAX
            && let Some((_, oldest)) = self.gone_order.pop_first()
        {
            self.gone.remove(&oldest);
        }
    }

    fn forget_tombstone(&mut self, key: &K) {
        if let Some(stamp) = self.gone.remove(key) {
            self.gone_order.remove(&(stamp.version, key.clone()));
        }
    }
}

/// Returns whether both state which object they are about, and it is the same.
fn same_object(one: &Stamp, other: &Stamp) -> bool {
    one.uid.is_some() && one.uid == other.uid
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Epoch = Epoch(1);

    type Numbers<K> = Store<K, u32, &'static str>;

    fn value(store: &Numbers<&'static str>) -> Option<u32> {
        store.model(&"a").map(|value| **value)
    }

    fn version(version: u64) -> Stamp {
        Version(version).into()
    }

    fn of(uid: &str, version: u64) -> Stamp {
        Stamp { uid: Some(uid.into()), version: Version(version) }
    }

    #[test]
    fn the_newest_version_wins_in_every_order() {
        // Created at 1, changed at 2, deleted at 3, created again at 4; with and without uids.
        type Apply = fn(&mut Numbers<&'static str>, [Stamp; 4]);
        let events: [Apply; 4] = [
            |store, [stamp, ..]| drop(store.put("a", stamp, 10, "", NOW)),
            |store, [_, stamp, ..]| drop(store.put("a", stamp, 20, "", NOW)),
            |store, [_, _, stamp, _]| drop(store.remove(&"a", &stamp)),
            |store, [.., stamp]| drop(store.put("a", stamp, 40, "", NOW)),
        ];
        let bare = [version(1), version(2), version(3), version(4)];
        let named = [of("x", 1), of("x", 2), of("x", 3), of("y", 4)];
        for (order, stamps) in (0..256_usize).flat_map(|order| [(order, &bare), (order, &named)]) {
            // Every sequence of four picks, repetitions included.
            let picks = [order % 4, order / 4 % 4, order / 16 % 4, order / 64 % 4];
            let mut store = Store::default();
            for pick in picks {
                events[pick](&mut store, stamps.clone());
            }
            let newest = picks.iter().max().expect("four picks");
            assert_eq!(value(&store), [Some(10), Some(20), None, Some(40)][*newest], "{picks:?} {stamps:?}");
        }
    }

    #[test]
    fn only_what_decisions_read_is_a_change_and_it_stays_in_place_while_it_is_equal() {
        let mut store = Store::default();
        let changed = |put: Option<Put<u32, &'static str>>| put.map(|put| put.changed);
        assert_eq!(changed(store.put("a", version(1), 10, "first", NOW)), Some(true));
        assert_eq!(changed(store.put("a", version(1), 10, "first", NOW)), None, "a repetition");
        let before = Arc::clone(store.model(&"a").expect("it is there"));
        assert_eq!(changed(store.put("a", version(2), 10, "second", NOW)), Some(false), "a heartbeat");
        let known = store.get(&"a").expect("it is there");
        assert_eq!(known.object, "second", "is shown");
        assert!(Arc::ptr_eq(&known.model, &before));
        assert_eq!(changed(store.put("a", version(1), 11, "old", NOW)), None, "an old version");
        assert_eq!(changed(store.put("a", version(3), 11, "third", NOW)), Some(true));
        assert!(store.remove(&"b", &version(9)).is_none(), "never seen");
    }

    #[test]
    fn the_deleted_do_not_come_back_but_a_new_object_of_the_name_does() {
        let mut store = Store::default();
        store.put("a", of("x", 5), 1, "", NOW);
        assert!(store.remove(&"a", &of("x", 4)).is_some(), "its end is its end, whatever the version");
        assert!(store.put("a", of("x", 6), 2, "", NOW).is_none(), "an answer to a write that was under way");
        assert!(store.put("a", of("y", 7), 3, "", NOW).is_some());
        assert!(store.remove(&"a", &of("x", 6)).is_none(), "a late event about the one before");
        assert_eq!(value(&store), Some(3));
    }

    #[test]
    fn a_list_removes_what_it_lacks_but_not_what_came_after_it_began() {
        let mut store = Store::default();
        store.put("old", of("o", 1), 1, "", Epoch(1));
        store.put("kept", of("k", 2), 2, "", Epoch(1));
        store.put("new", of("n", 3), 3, "", Epoch(3));
        let gone = store.remove_unlisted(&BTreeSet::from(["kept"]), Epoch(2));
        assert_eq!(gone.iter().map(|(key, known)| (*key, *known.model)).collect::<Vec<_>>(), [("old", 1)]);
        assert!(store.put("old", of("o", 1), 1, "", Epoch(4)).is_none(), "a late event");
        assert!(store.put("old", of("o", 9), 1, "", Epoch(4)).is_some(), "the list was an old one");
    }

    #[test]
    fn tombstones_are_bounded_and_the_oldest_go_first() {
        let mut store: Numbers<u64> = Store::default();
        for key in 0..=TOMBSTONES_MAX as u64 {
            store.remove(&key, &version(key + 1));
        }
        assert_eq!(store.gone.len(), TOMBSTONES_MAX);
        assert_eq!(store.gone_order.len(), TOMBSTONES_MAX);
        assert!(!store.gone.contains_key(&0));
    }
}
