//! Nodes or claims, found by name and by the instance they are about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_kube_sim::apiserver::object::{Key, text};
use serde_json::Value;

/// The objects of one kind.
#[derive(Default)]
pub(crate) struct ByInstance {
    objects: BTreeMap<Key, Arc<Value>>,
    /// Keys by provider id, which is empty for those that name no instance yet.
    keys: BTreeMap<String, BTreeSet<Key>>,
}

/// Returns the instance that a Node or a claim names; empty when it names none.
fn instance_of(object: &Value) -> &str {
    let of_node = text(object, "/spec/providerID");
    if of_node.is_empty() { text(object, "/status/providerID") } else { of_node }
}

impl ByInstance {
    /// The object of this name.
    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// Returns all objects, in order of their names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.values()
    }

    /// Returns the objects about an instance, in order of their names.
    pub(crate) fn of_instance(&self, provider_id: &str) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let keys = self.keys.get(provider_id).into_iter().flatten();
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    /// Puts an object in the place of the one that has its name; returns that.
    pub(crate) fn insert(&mut self, key: Key, object: Arc<Value>) -> Option<Arc<Value>> {
        let before = self.remove(&key);
        self.keys.entry(instance_of(&object).to_owned()).or_default().insert(key.clone());
        self.objects.insert(key, object);
        before
    }

    /// Removes an object and returns it.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        if let Some(keys) = self.keys.get_mut(instance_of(&before)) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(instance_of(&before));
            }
        }
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_found_by_the_instance_it_names_last() {
        let mut claims = ByInstance::default();
        let key = |name: &str| Key::new("", name);
        let names = |claims: &ByInstance, id: &str| -> Vec<String> {
            claims.of_instance(id).map(|(key, _)| key.name.clone()).collect()
        };
        claims.insert(key("b"), Arc::new(json!({"metadata": {"name": "b"}})));
        claims.insert(key("a"), Arc::new(json!({"metadata": {"name": "a"}})));
        assert_eq!(names(&claims, ""), ["a", "b"]);
        claims.insert(key("b"), Arc::new(json!({"status": {"providerID": "i"}})));
        assert_eq!((names(&claims, ""), names(&claims, "i")), (vec!["a".into()], vec!["b".into()]));
        claims.remove(&key("b"));
        assert!(names(&claims, "i").is_empty() && claims.get(&key("b")).is_none());
    }
}
