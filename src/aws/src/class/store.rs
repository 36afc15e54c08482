//! The EC2NodeClasses the provider launches from, as the controller last saw them.
//!
//! The `NodeClass` reconciler fills the store; the provider only reads. Before the first fill a lookup returns
//! [`Lookup::NotSynced`], and for a class that is there and cannot be decoded [`Lookup::Undecoded`]: neither is ever the same
//! as "deleted".
//!
//! The watch and the answers to our own writes come in any order: of one object the higher resource version stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_api::EC2NodeClass;
use parking_lot::RwLock;

/// Shared, replaceable view of all EC2NodeClasses.
#[derive(Debug, Default)]
pub struct NodeClassStore {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    synced: bool,
    classes: BTreeMap<String, Arc<EC2NodeClass>>,
    /// Names of objects that are there and cannot be decoded.
    undecoded: BTreeSet<String>,
}

/// Answer to a lookup.
#[derive(Clone, Debug)]
pub enum Lookup {
    Found(Arc<EC2NodeClass>),
    /// There is no such object.
    Absent,
    /// Nothing is known yet.
    NotSynced,
    /// The object is there, and cannot be decoded.
    Undecoded,
}

impl NodeClassStore {
    /// Inserts one object as the watch shows it, unless a newer version of the same object is known. Returns whether
    /// claims have to be compared with it again.
    pub fn put(&self, class: EC2NodeClass) -> bool {
        let Some(name) = class.metadata.name.clone() else { return false };
        let mut inner = self.inner.write();
        inner.undecoded.remove(&name);
        let known = inner.classes.get(&name);
        if known.is_some_and(|known| is_older(&class, known)) {
            return false;
        }
        let is_news = known.is_none_or(|known| differs(&class, known));
        inner.classes.insert(name, Arc::new(class));
        is_news
    }

    /// Replaces one object by what a write was answered with, unless a newer version is known. One that has gone in the
    /// meantime stays gone: no event would ever take it out again. So does one whose name another object has taken.
    /// Returns whether claims have to be compared with it again: the watch brings nothing more of this version.
    pub fn put_answer(&self, class: EC2NodeClass) -> bool {
        let mut inner = self.inner.write();
        let name = class.metadata.name.as_deref().unwrap_or_default();
        if let Some(known) = inner.classes.get_mut(name)
            && known.metadata.uid == class.metadata.uid
            && !is_older(&class, known)
        {
            let is_news = differs(&class, known);
            *known = Arc::new(class);
            return is_news;
        }
        false
    }

    /// Forgets one object; with a `uid` only that very object, and not another that has taken its name.
    pub fn remove(&self, name: &str, uid: Option<&str>) {
        let mut inner = self.inner.write();
        let Some(known) = inner.classes.get(name) else {
            inner.undecoded.remove(name);
            return;
        };
        if uid.is_none_or(|uid| known.metadata.uid.as_deref().is_none_or(|known| known == uid)) {
            inner.classes.remove(name);
        }
    }

    /// The object of this name is there and cannot be decoded, whatever its contents were before.
    pub fn put_undecoded(&self, name: &str) {
        let mut inner = self.inner.write();
        inner.classes.remove(name);
        inner.undecoded.insert(name.to_owned());
    }

    /// Returns whether any object cannot be decoded, so that an absence from all others proves nothing.
    pub fn has_undecoded(&self) -> bool {
        !self.inner.read().undecoded.is_empty()
    }

    /// A complete list has been read: objects of other names are gone.
    pub fn keep_listed(&self, names: &BTreeSet<String>) {
        let mut inner = self.inner.write();
        inner.classes.retain(|name, _| names.contains(name));
        inner.undecoded.retain(|name| names.contains(name));
        inner.synced = true;
    }

    /// Replaces everything with a complete list.
    pub fn replace_all(&self, classes: impl IntoIterator<Item = EC2NodeClass>) {
        let classes = classes
            .into_iter()
            .filter_map(|class| Some((class.metadata.name.clone()?, Arc::new(class))))
            .collect();
        *self.inner.write() = Inner { synced: true, classes, undecoded: BTreeSet::new() };
    }

    /// One object by name.
    pub fn get(&self, name: &str) -> Lookup {
        let inner = self.inner.read();
        match inner.classes.get(name) {
            Some(class) => Lookup::Found(Arc::clone(class)),
            // Also before the first complete list: a class that a newer release wrote would count as not read
            // yet, and its pool would hear nothing of what is wrong.
            None if inner.undecoded.contains(name) => Lookup::Undecoded,
            None if inner.synced => Lookup::Absent,
            None => Lookup::NotSynced,
        }
    }

    /// Every object, by name; `None` before the first complete list.
    pub fn all(&self) -> Option<Vec<Arc<EC2NodeClass>>> {
        let inner = self.inner.read();
        inner.synced.then(|| inner.classes.values().cloned().collect())
    }
}

/// Returns whether both are states of one object, and `class` is the older one. A resource version is a number that only
/// grows.
fn is_older(class: &EC2NodeClass, known: &EC2NodeClass) -> bool {
    let version = |class: &EC2NodeClass| {
        class.metadata.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok())
    };
    let same = class.metadata.uid.is_some() && class.metadata.uid == known.metadata.uid;
    same && version(class).zip(version(known)).is_some_and(|(class, known)| class < known)
}

/// Returns whether the two differ in something that matters to claims. That is all of the status except the order of
/// subnets: it follows their free addresses, which change with every launch.
fn differs(class: &EC2NodeClass, known: &EC2NodeClass) -> bool {
    let said = |class: &EC2NodeClass| {
        let meta = &class.metadata;
        (meta.uid.clone(), meta.generation, meta.deletion_timestamp.clone(), meta.annotations.clone())
    };
    let resolved = |class: &EC2NodeClass| {
        let mut status = class.status.clone().unwrap_or_default();
        status.subnets.sort_by(|one, other| one.id.cmp(&other.id));
        status
    };
    said(class) != said(known) || resolved(class) != resolved(known)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A state of the object with this uid.
    fn state(uid: &str, version: u64) -> EC2NodeClass {
        let mut class = EC2NodeClass::new("a", Default::default());
        class.metadata.uid = Some(uid.to_owned());
        class.metadata.resource_version = Some(version.to_string());
        class
    }

    fn known(store: &NodeClassStore) -> Option<String> {
        let Lookup::Found(class) = store.get("a") else { return None };
        class.metadata.resource_version.clone()
    }

    #[test]
    fn of_one_object_the_higher_version_stays_in_every_order() {
        let takes: [fn(&NodeClassStore, EC2NodeClass) -> bool; 2] =
            [NodeClassStore::put, NodeClassStore::put_answer];
        for (first, second) in [(9, 10), (10, 9)] {
            for take in takes {
                let store = NodeClassStore::default();
                store.replace_all([state("x", first)]);
                take(&store, state("x", second));
                assert_eq!(known(&store).as_deref(), Some("10"), "{first} before {second}");
            }
        }
    }

    #[test]
    fn an_object_created_again_is_not_touched_by_what_is_said_of_the_one_before() {
        let store = NodeClassStore::default();
        store.replace_all([state("x", 5)]);
        store.put(state("y", 7));
        store.put_answer(state("x", 6));
        store.remove("a", Some("x"));
        assert_eq!(known(&store).as_deref(), Some("7"));
        store.remove("a", Some("y"));
        assert_eq!(known(&store), None);
        store.replace_all([state("x", 5)]);
        store.remove("a", Some("x"));
        store.put(state("y", 7));
        assert_eq!(known(&store).as_deref(), Some("7"), "the usual order");
    }

    #[test]
    fn whatever_machines_are_compared_with_is_news_and_the_order_of_subnets_is_not() {
        let subnets = |ids: [&str; 2]| json!(ids.map(|id| json!({"id": id, "zone": "a"})));
        let time = "2026-01-01T00:00:00Z";
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
        let reservation = json!([{
            "availabilityZone": "a", "id": "cr-1", "instanceMatchCriteria": "open", "instanceType": "m5.large",
            "ownerID": "1",
        }]);
        let changes: [(&str, &str, Value, bool); 12] = [
            ("metadata", "managedFields", json!([]), false),
            ("metadata", "labels", json!({"team": "web"}), false),
            ("status", "subnets", subnets(["subnet-b", "subnet-a"]), false),
            ("status", "subnets", subnets(["subnet-a", "subnet-c"]), true),
            ("metadata", "generation", json!(2), true),
            ("metadata", "annotations", json!({"hash": "1"}), true),
            ("metadata", "deletionTimestamp", json!(time), true),
            ("status", "amis", json!([{"id": "ami-1", "requirements": []}]), true),
            ("status", "securityGroups", json!([{"id": "sg-1"}]), true),
            ("status", "capacityReservations", reservation, true),
            ("status", "instanceProfile", json!("profile"), true),
            ("status", "conditions", ready, true),
        ];
        let mut before = json!(state("x", 5));
        before["metadata"]["generation"] = 1.into();
        before["status"] = json!({"subnets": subnets(["subnet-a", "subnet-b"])});
        let read = |class: &Value| -> EC2NodeClass { serde_json::from_value(class.clone()).unwrap() };
        let first = read(&before);
        before["metadata"]["resourceVersion"] = "6".into();
        let takes: [fn(&NodeClassStore, EC2NodeClass) -> bool; 2] =
            [NodeClassStore::put, NodeClassStore::put_answer];
        for (part, field, value, is_news) in changes {
            let mut after = before.clone();
            after[part][field] = value;
            for take in takes {
                let store = NodeClassStore::default();
                store.replace_all([first.clone()]);
                assert_eq!(take(&store, read(&after)), is_news, "{field}");
                assert!(!take(&store, read(&after)), "{field} is known");
                assert!(!take(&store, first.clone()), "{field}: a late answer");
            }
        }
    }

    #[test]
    fn a_class_that_appears_or_can_be_decoded_again_is_news() {
        let store = NodeClassStore::default();
        assert!(store.put(state("x", 5)));
        store.put_undecoded("a");
        assert!(!store.put_answer(state("x", 6)), "its watch says what it is");
        assert!(store.put(state("x", 6)));
        assert!(store.put(state("y", 7)), "another object");
    }

    #[test]
    fn a_class_that_cannot_be_decoded_is_neither_there_nor_absent() {
        let store = NodeClassStore::default();
        store.replace_all([state("x", 5)]);
        store.put_undecoded("a");
        assert!(matches!(store.get("a"), Lookup::Undecoded));
        assert!(store.has_undecoded());
        store.put(state("x", 7));
        assert!(!store.has_undecoded() && known(&store).as_deref() == Some("7"));
        store.put_undecoded("a");
        store.remove("a", Some("x"));
        assert!(matches!(store.get("a"), Lookup::Absent));
    }

    #[test]
    fn absence_is_only_claimed_after_a_complete_list() {
        let store = NodeClassStore::default();
        assert!(matches!(store.get("a"), Lookup::NotSynced));
        assert!(store.all().is_none());
        store.put(EC2NodeClass::new("a", Default::default()));
        assert!(matches!(store.get("a"), Lookup::Found(_)));
        store.replace_all([]);
        assert!(matches!(store.get("a"), Lookup::Absent));
        assert_eq!(store.all().unwrap().len(), 0);
    }

    #[test]
    fn the_answer_to_a_write_does_not_bring_back_what_has_gone() {
        let store = NodeClassStore::default();
        store.replace_all([EC2NodeClass::new("a", Default::default())]);
        let mut written = EC2NodeClass::new("a", Default::default());
        written.metadata.generation = Some(2);
        store.put_answer(written.clone());
        assert!(matches!(store.get("a"), Lookup::Found(class) if class.metadata.generation == Some(2)));
        store.remove("a", None);
        store.put_answer(written);
        assert!(matches!(store.get("a"), Lookup::Absent));
    }
}
