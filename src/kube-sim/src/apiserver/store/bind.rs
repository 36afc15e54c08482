//! The binding subresource: how a scheduler gives a pod its node.

use serde_json::{Value, json};

use super::Store;
use crate::apiserver::{
    Cause,
    object::{self, Key, text},
    refusal::Refusal,
    resource::Resource,
};

impl Store {
    /// Binds a pod to the node that the `Binding` names. A pod is bound once.
    pub fn bind(&mut self, resource: &Resource, key: &Key, binding: &Value) -> Result<(), Refusal> {
        let node = text(binding, "/target/name");
        if node.is_empty() {
            return Err(Refusal::invalid(resource, &key.name, vec![Cause::required("target.name", "")]));
        }
        let current = self.find(resource, key)?;
        if object::is_deleting(&current) {
            let why = format!("pod {} is being deleted, cannot be assigned to a host", key.name);
            return Err(Refusal::conflict(resource, &key.name, &why));
        }
        let bound = text(&current, "/spec/nodeName");
        if !bound.is_empty() {
            let why = format!("pod {} is already assigned to node \"{bound}\"", key.name);
            return Err(Refusal::conflict(resource, &key.name, &why));
        }
        let mut pod = Value::clone(&current);
        pod["spec"]["nodeName"] = json!(node);
        set_scheduled(&mut pod, &object::rfc3339(self.now()));
        self.commit(&resource.table(), pod);
        Ok(())
    }
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let status = object::map_mut(pod, "status");
    // The expectation has come true, or has not (feature gate ClearingNominatedNodeNameAfterBinding, on since 1.35).
    status.remove("nominatedNodeName");
    object::default_to(status, "conditions", json!([]));
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|c| c["type"] != "PodScheduled");
        conditions.push(scheduled);
    }
}
