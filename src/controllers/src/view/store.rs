//! Objects as the API server last showed them to us, by watch or in answer to our own writes.
//!
//! An answer to a write may arrive before or after the watch event about it; the resource version decides which is
//! newer, so the store never goes back in time. An object seen deleted does not come back under the same uid.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use karpenter_model::ProviderId;
use kube::ResourceExt;

/// Uids of deleted objects remembered: enough for every write that may still be under way.
const GONE_MAX: usize = 4096;

/// An object and what it means to us.
#[derive(Debug)]
pub struct Known<K, M> {
    /// As the API server shows it.
    pub object: Arc<K>,
    /// As decisions read it.
    pub model: Arc<M>,
}

impl<K, M> Clone for Known<K, M> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), model: Arc::clone(&self.model) }
    }
}

/// The newest known version of every object of one kind, by name; of namespaced kinds by `namespace/name`.
#[derive(Debug)]
pub(crate) struct Store<K, M> {
    objects: BTreeMap<String, Known<K, M>>,
    machine: fn(&M) -> Option<ProviderId>,
    by_machine: BTreeMap<ProviderId, BTreeSet<String>>,
    gone: BTreeSet<String>,
    gone_order: VecDeque<String>,
}

impl<K: ResourceExt, M> Store<K, M> {
    /// An empty store; `machine` reads the machine an object belongs to.
    pub(crate) fn new(machine: fn(&M) -> Option<ProviderId>) -> Self {
        Self {
            objects: BTreeMap::new(),
            machine,
            by_machine: BTreeMap::new(),
            gone: BTreeSet::new(),
            gone_order: VecDeque::new(),
        }
    }

    /// The object of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Known<K, M>> {
        self.objects.get(name).cloned()
    }

    /// Every object, in name order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Known<K, M>> {
        self.objects.values()
    }

    /// Every object of one machine, in name order.
    pub(crate) fn of(&self, id: &ProviderId) -> Vec<Known<K, M>> {
        self.by_machine.get(id).into_iter().flatten().filter_map(|name| self.get(name)).collect()
    }

    /// Takes `object` if it is news and returns what was known before; `None` when what is known is as new or newer.
    pub(crate) fn put(&mut self, object: Arc<K>, model: Arc<M>) -> Option<Replaced<K, M>> {
        if object.uid().is_some_and(|uid| self.gone.contains(&uid)) {
            return None;
        }
        let name = name_of(&*object);
        if let Some(known) = self.objects.get(&name)
            && known.object.uid() == object.uid()
            && version(&*known.object) >= version(&*object)
        {
            return None;
        }
        let before = self.take(&name);
        if let Some(id) = (self.machine)(&model) {
            self.by_machine.entry(id).or_default().insert(name.clone());
        }
        self.objects.insert(name, Known { object, model });
        Some(Replaced(before))
    }

    /// Forgets the object for good and returns it. One of the same name but another uid stays.
    pub(crate) fn remove(&mut self, name: &str, uid: Option<&str>) -> Option<Known<K, M>> {
        if let Some(uid) = uid
            && self.gone.insert(uid.to_owned())
        {
            self.gone_order.push_back(uid.to_owned());
            if self.gone_order.len() > GONE_MAX
                && let Some(oldest) = self.gone_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
        let known = self.objects.get(name)?;
        let same = uid.is_none() || known.object.uid().as_deref() == uid;
        if same { self.take(name) } else { None }
    }

    /// Forgets what is known of an object of which a newer version cannot be taken, and returns it. A version after that
    /// may come back.
    pub(crate) fn withdraw(&mut self, newer: &K) -> Option<Known<K, M>> {
        let name = name_of(newer);
        let known = self.objects.get(&name)?;
        let is_newer = known.object.uid() != newer.uid() || version(&*known.object) < version(newer);
        if is_newer { self.take(&name) } else { None }
    }

    /// Forgets every object that `keep` refuses and returns them.
    pub(crate) fn retain(&mut self, keep: impl Fn(&M) -> bool) -> Vec<Known<K, M>> {
        let refused = self.objects.iter().filter(|(_, known)| !keep(&known.model));
        let refused: Vec<String> = refused.map(|(name, _)| name.clone()).collect();
        refused.iter().filter_map(|name| self.take(name)).collect()
    }

    fn take(&mut self, name: &str) -> Option<Known<K, M>> {
        let known = self.objects.remove(name)?;
        if let Some(id) = (self.machine)(&known.model)
            && let Some(names) = self.by_machine.get_mut(&id)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_machine.remove(&id);
            }
        }
        Some(known)
    }
}

/// What a new object took the place of, if anything.
#[derive(Debug)]
pub(crate) struct Replaced<K, M>(pub(crate) Option<Known<K, M>>);

fn name_of<K: ResourceExt>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// Resource versions of one kind are ordered numbers; an unreadable one counts as newest, so that it is shown.
fn version<K: ResourceExt>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Node;

    use super::Store;

    fn node(uid: &str, version: &str) -> Arc<Node> {
        let mut node = Node::default();
        node.metadata.name = Some("n".to_owned());
        node.metadata.uid = Some(uid.to_owned());
        node.metadata.resource_version = Some(version.to_owned());
        Arc::new(node)
    }

    #[test]
    fn never_goes_back_in_time() {
        let mut store = Store::new(|()| None);
        let mut put = |uid, version| store.put(node(uid, version), Arc::new(())).is_some();
        assert!(put("a", "5"));
        assert!(!put("a", "5"));
        assert!(!put("a", "4"));
        assert!(put("a", "10"), "numbers, not texts");
    }

    #[test]
    fn the_deleted_do_not_come_back_but_a_new_object_of_the_name_does() {
        let mut store = Store::new(|()| None);
        let unit = || Arc::new(());
        store.put(node("a", "5"), unit());
        assert!(store.remove("n", Some("a")).is_some());
        assert!(store.put(node("a", "6"), unit()).is_none(), "an answer to a write that was under way");
        assert!(store.put(node("b", "7"), unit()).is_some());
        assert!(store.remove("n", Some("a")).is_none(), "a late event about the old one");
        assert!(store.get("n").is_some());
    }
}
