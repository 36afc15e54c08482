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
    /// Labels by namespace; read where a term selects namespaces.
    namespaces: BTreeMap<String, Value>,
    services: Vec<Arc<Value>>,
    /// Selectors of replica sets and stateful sets, by kind and key.
    owners: BTreeMap<(&'static str, Key), Value>,
}

impl Surroundings {
    /// Reads what matters to one of these pods.
    pub(super) fn of(objects: &impl Lists, pods: &[Arc<Pod>]) -> Self {
        let mut found = Self { namespaces: namespaces(objects), ..Self::default() };
        if pods.iter().any(|pod| uses_claims(&pod.object)) {
            found.volumes = Volumes::of(objects);
        }
        if pods.iter().any(|pod| list(&pod.object, "/spec/topologySpreadConstraints").is_empty()) {
            found.services = objects.list("", "services");
            for (kind, plural) in [("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets")] {
                if pods.iter().any(|pod| owner(&pod.object).is_some_and(|(owner, _)| owner == kind)) {
                    let sets = objects.list("apps", plural);
                    let selectors =
                        sets.iter().map(|set| ((kind, Key::of(set)), set["spec"]["selector"].clone()));
                    found.owners.extend(selectors);
                }
            }
        }
        found
    }

    /// Labels of a namespace; it has its name as a label in any case.
    pub(super) fn namespace_is_selected(&self, selector: &Value, name: &str) -> bool {
        let unknown = || json!({"kubernetes.io/metadata.name": name});
        let labels = self.namespaces.get(name).cloned().unwrap_or_else(unknown);
        label_selector_matches(selector, &labels)
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
        let of_owner = |field: &str| owner.and_then(|selector| selector.get(field)).cloned();
        if let Some(Value::Object(more)) = of_owner("matchLabels") {
            labels.extend(more);
        }
        let expressions = of_owner("matchExpressions").unwrap_or_else(|| json!([]));
        let selects_all = labels.is_empty() && expressions == json!([]);
        (!selects_all).then(|| json!({"matchLabels": labels, "matchExpressions": expressions}))
    }
}

fn namespaces(objects: &impl Lists) -> BTreeMap<String, Value> {
    let namespaces = objects.list("", "namespaces");
    namespaces.iter().map(|one| (object::name(one).to_owned(), one["metadata"]["labels"].clone())).collect()
}

/// Kind and key of the replica set or stateful set that controls a pod.
fn owner(pod: &Value) -> Option<(&'static str, Key)> {
    let owner = object::controller(pod)?;
    let kind = ["ReplicaSet", "StatefulSet"].into_iter().find(|kind| text(owner, "/kind") == *kind)?;
    Some((kind, Key::new(object::namespace(pod), text(owner, "/name"))))
}
