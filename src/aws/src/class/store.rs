//! The EC2NodeClasses the provider launches from, as the controller last saw them.
//!
//! The `NodeClass` reconciler fills the store; the provider only reads. Before the first fill a lookup says
//! [`Lookup::NotSynced`], which is never the same as "deleted".

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use karpenter_api::EC2NodeClass;

/// Shared, replaceable view of all EC2NodeClasses.
#[derive(Debug, Default)]
pub struct NodeClassStore {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    synced: bool,
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
}

/// Answer to a lookup.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The object.
    Found(Arc<EC2NodeClass>),
    /// There is no such object.
    Absent,
    /// Nothing is known yet.
    NotSynced,
}

impl NodeClassStore {
    /// Inserts or replaces one object.
    pub fn put(&self, class: EC2NodeClass) {
        if let Some(name) = class.metadata.name.clone() {
            let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
            inner.classes.insert(name, Arc::new(class));
        }
    }

    /// Replaces one object by what a write was answered with. One that has gone in the meantime stays gone: no event
    /// would ever take it out again.
    pub fn written(&self, class: EC2NodeClass) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let name = class.metadata.name.as_deref().unwrap_or_default();
        if let Some(known) = inner.classes.get_mut(name) {
            *known = Arc::new(class);
        }
    }

    /// Forgets one object.
    pub fn remove(&self, name: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).classes.remove(name);
    }

    /// A complete list has been read: objects of other names are gone.
    pub fn synced(&self, names: &std::collections::BTreeSet<String>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.classes.retain(|name, _| names.contains(name));
        inner.synced = true;
    }

    /// Replaces everything with a complete list.
    pub fn replace(&self, classes: impl IntoIterator<Item = EC2NodeClass>) {
        let classes = classes
            .into_iter()
            .filter_map(|class| Some((class.metadata.name.clone()?, Arc::new(class))))
            .collect();
        *self.inner.write().unwrap_or_else(PoisonError::into_inner) = Inner { synced: true, classes };
    }

    /// One object by name.
    pub fn get(&self, name: &str) -> Lookup {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        match inner.classes.get(name) {
            Some(class) => Lookup::Found(Arc::clone(class)),
            None if inner.synced => Lookup::Absent,
            None => Lookup::NotSynced,
        }
    }

    /// Every object, by name; `None` before the first complete list.
    pub fn all(&self) -> Option<Vec<Arc<EC2NodeClass>>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.synced.then(|| inner.classes.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_only_claimed_after_a_complete_list() {
        let store = NodeClassStore::default();
        assert!(matches!(store.get("a"), Lookup::NotSynced));
        assert!(store.all().is_none());
        store.put(EC2NodeClass::new("a", Default::default()));
        assert!(matches!(store.get("a"), Lookup::Found(_)));
        store.replace([]);
        assert!(matches!(store.get("a"), Lookup::Absent));
        assert_eq!(store.all().unwrap().len(), 0);
    }

    #[test]
    fn the_answer_to_a_write_does_not_bring_back_what_has_gone() {
        let store = NodeClassStore::default();
        store.replace([EC2NodeClass::new("a", Default::default())]);
        let mut written = EC2NodeClass::new("a", Default::default());
        written.metadata.generation = Some(2);
        store.written(written.clone());
        assert!(matches!(store.get("a"), Lookup::Found(class) if class.metadata.generation == Some(2)));
        store.remove("a");
        store.written(written);
        assert!(matches!(store.get("a"), Lookup::Absent));
    }
}
