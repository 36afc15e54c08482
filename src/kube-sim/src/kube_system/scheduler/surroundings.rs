//! What the scheduler reads beside nodes and pods: claims and volumes, labels of namespaces, and what selects pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::lists::Lists;
use super::volumes::{Volumes, uses_claims};
use crate::apiserver::label_selector_matches;
use crate::apiserver::object::{self, Key, list, text};
use crate::kube_system::pod::Pod;

/// Objects that are looked at during one pass.
#[derive(Default)]
pub(super) struct Surroundings {
    pub(super) volumes: Volumes,
    /// Read where a term selects namespaces by their labels, which pods that are there may do, too.
    namespaces: Vec<Arc<Value>>,
    services: Vec<Arc<Value>>,
    /// Replica sets and stateful sets, by kind and key.
    owners: BTreeMap<(&'static str, Key), Arc<Value>>,
}

impl Surroundings {
    /// Reads what matters to one of these pods.
    pub(super) fn of(objects: &impl Lists, pods: &[Arc<Pod>]) -> Self {
        let mut found = Self { namespaces: objects.list("", "namespaces"), ..Self::default() };
        if pods.iter().any(|pod| uses_claims(&pod.object)) {
            found.volumes = Volumes::of(objects);
        }
        if pods.iter().any(|pod| list(&pod.object, "/spec/topologySpreadConstraints").is_empty()) {
            found.services = objects.list("", "services");
            for (kind, plural) in [("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets")] {
                if pods.iter().any(|pod| owner(&pod.object).is_some_and(|(owner, _)| owner == kind)) {
                    let sets = objects.list("apps", plural);
                    found.owners.extend(sets.into_iter().map(|set| ((kind, Key::of(&set)), set)));
                }
            }
        }
        found
    }

    /// Returns whether a selector selects a namespace. One that is not there has its name as a label in any case.
    pub(super) fn namespace_is_selected(&self, selector: &Value, name: &str) -> bool {
        match self.namespaces.iter().find(|one| object::name(one) == name) {
            Some(namespace) => label_selector_matches(selector, &namespace["metadata"]["labels"]),
            None => label_selector_matches(selector, &json!({"kubernetes.io/metadata.name": name})),
        }
    }

    /// Selector of what a pod is spread with by default: what its services and its owner select, if there are any.
    pub(super) fn selector_of(&self, pod: &Value) -> Option<Value> {
        let mut labels = Map::new();
        for service in &self.services {
            let Some(selector) = service["spec"]["selector"].as_object() else { continue };
            let selects = selector.iter().all(|(key, value)| object::label(pod, key) == value.as_str());
            if object::namespace(service) == object::namespace(pod) && !selector.is_empty() && selects {
                labels.extend(selector.clone());
            }
        }
        let owner = owner(pod).and_then(|owner| self.owners.get(&owner));
        let of_owner = |field: &str| owner.and_then(|set| set["spec"]["selector"].get(field)).cloned();
        if let Some(Value::Object(more)) = of_owner("matchLabels") {
            labels.extend(more);
        }
        let expressions = of_owner("matchExpressions").unwrap_or_else(|| json!([]));
        let selects_all = labels.is_empty() && expressions == json!([]);
        (!selects_all).then(|| json!({"matchLabels": labels, "matchExpressions": expressions}))
    }
}

/// Kind and key of the replica set or stateful set that controls a pod.
fn owner(pod: &Value) -> Option<(&'static str, Key)> {
    let owner = object::controller(pod)?;
    let kind = ["ReplicaSet", "StatefulSet"].into_iter().find(|kind| text(owner, "/kind") == *kind)?;
    Some((kind, Key::new(object::namespace(pod), text(owner, "/name"))))
}
