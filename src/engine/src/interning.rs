//! Maps that give everything a number, in the order it is first seen.
//!
//! Most of the time a pass spends before it places anything goes into hashing what pods ask for, so the hash is a
//! fast one. It is seeded per process, and the order of these maps does not depend on it.

use foldhash::fast::RandomState;
pub(crate) use indexmap::map::Entry;

/// Values by key; each key has a number.
pub(crate) type InternedMap<K, V> = indexmap::IndexMap<K, V, RandomState>;

/// Things with a number each.
pub(crate) type Interned<T> = indexmap::IndexSet<T, RandomState>;
