//! The objects of a cluster as JSON, one per kind, namespace and name; what files, exports and API servers say alike.
//!
//! A later object takes the place of an earlier one of the same name, so a file given last wins.

pub(crate) mod kinds;

use std::collections::BTreeMap;
use std::fmt;

use karpenter_api::convert::Admission;
use karpenter_api::yaml::without_nulls;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Returns whether an object only shares the name of its kind with one that is read: it is of another API group, like a Job of
/// `batch.volcano.sh`. One that says no group is of the core group, as the controller's view takes it.
pub(crate) fn is_foreign(object: &Value) -> bool {
    let (group, _, of) = type_of(object);
    kinds::is_of_another_group(of, group)
}

/// Group, version and kind; all empty where the object does not say.
pub(crate) fn type_of(object: &Value) -> (&str, &str, &str) {
    let (group, version) =
        text(object, "/apiVersion").split_once('/').unwrap_or(("", text(object, "/apiVersion")));
    (group, version, text(object, "/kind"))
}

/// Key of an object. API groups are left out: the kinds that are read have different names, and [`Objects`] have no
/// [foreign](is_foreign) ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ObjectKey {
    pub(crate) kind: String,
    /// Empty for objects of the whole cluster.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    /// The key of an object.
    pub(crate) fn of(object: &Value) -> Self {
        let kind = text(object, "/kind").to_owned();
        let mut namespace = text(object, "/metadata/namespace").to_owned();
        if namespace.is_empty() && kinds::has_namespace(&kind) {
            "default".clone_into(&mut namespace);
        } else if kinds::is_of_cluster(&kind) {
            // An API server takes it away.
            namespace.clear();
        }
        Self { kind, namespace, name: text(object, "/metadata/name").to_owned() }
    }
}

impl fmt::Display for ObjectKey {
    /// Kind and name, with the namespace where there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match (name.is_empty(), namespace.is_empty()) {
            (true, _) => write!(f, "{kind} without a name"),
            (false, true) => write!(f, "{kind}/{name}"),
            (false, false) => write!(f, "{kind}/{namespace}/{name}"),
        }
    }
}

/// The kind of pod disruption budgets.
pub(crate) const BUDGET: &str = "PodDisruptionBudget";

/// The objects of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    by_key: BTreeMap<ObjectKey, Value>,
}

impl Objects {
    /// Returns the objects that pods and claims of manifests are admitted by.
    pub(crate) fn admission(&self) -> Admission {
        let kinds = ["LimitRange", "RuntimeClass", "PriorityClass", "StorageClass"].into_iter();
        Admission::of(kinds.flat_map(|kind| self.of_kind(kind)).map(|(_, object)| object))
    }

    /// Puts an object in, instead of an earlier one of its name. Objects without a name are left out, and
    /// [foreign](is_foreign) ones. Fields that are null are absent.
    pub(crate) fn put(&mut self, mut object: Value) {
        let key = ObjectKey::of(&object);
        if key.name.is_empty() || is_foreign(&object) {
            return;
        }
        without_nulls(&mut object);
        if key.namespace.is_empty() {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove("namespace");
            }
        } else {
            object["metadata"]["namespace"] = json!(key.namespace);
        }
        self.by_key.insert(key, object);
    }

    /// Puts in what a manifest asks for: an object that exists keeps its identity, its status and the annotations and
    /// labels the manifest is silent about, as after `kubectl apply`.
    pub(crate) fn apply(&mut self, mut object: Value) {
        let key = ObjectKey::of(&object);
        if let Some(before) = self.by_key.get(&key) {
            let mut metadata = before["metadata"].clone();
            for map in ["labels", "annotations"] {
                for (name, value) in object["metadata"][map].as_object().into_iter().flatten() {
                    metadata[map][name] = value.clone();
                }
            }
            object["metadata"] = metadata;
            // The disruption controller works the status of a changed budget out again.
            let is_changed_budget = key.kind == BUDGET && before["spec"] != object["spec"];
            if let Some(status) = before.get("status").filter(|_| !is_changed_budget) {
                object["status"] = status.clone();
            }
        }
        self.put(object);
    }

    /// The object with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.by_key.get(key)
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> Option<Value> {
        self.by_key.remove(key)
    }

    /// Every object of a kind, by namespace and name.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        self.by_key.iter().filter(move |(key, _)| key.kind == kind)
    }

    /// Returns every object of a kind, to be changed.
    pub(crate) fn of_kind_mut<'a>(
        &'a mut self,
        kind: &'a str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a mut Value)> {
        self.by_key.iter_mut().filter(move |(key, _)| key.kind == kind)
    }

    /// Every object.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.by_key.iter()
    }

    /// Every object by itself.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.by_key.values().cloned().collect()
    }
}

impl FromIterator<Value> for Objects {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        let mut all = Self::default();
        objects.into_iter().for_each(|object| all.put(object));
        all
    }
}

/// The text at `pointer`, empty when there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_changes_what_it_says_and_keeps_what_it_does_not() {
        let mut objects: Objects = [json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "uid": "1", "annotations": {"x": "1", "y": "1"}},
            "spec": {"weight": 1}, "status": {"nodes": 3},
        })]
        .into_iter()
        .collect();
        let changed = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "annotations": {"x": "2"}}, "spec": {"weight": 2},
        });
        objects.apply(changed);
        let expected = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "a", "uid": "1", "annotations": {"x": "2", "y": "1"}},
            "spec": {"weight": 2}, "status": {"nodes": 3},
        });
        assert_eq!(objects.values(), [expected]);
    }

    #[test]
    fn objects_of_a_namespace_are_in_the_default_one_unless_they_say() {
        let objects: Objects =
            [json!({"kind": "Pod", "metadata": {"name": "a"}}), json!({"kind": "Pod", "metadata": {}})]
                .into_iter()
                .collect();
        let values = objects.values();
        assert_eq!(values.len(), 1);
        assert_eq!(values[0]["metadata"]["namespace"], "default");
    }
}
