//! The eviction subresource: a delete that asks the disruption budgets first.

use std::sync::Arc;

use karpenter_api::convert::{Allowance, allowance};
use serde_json::{Value, json};

use super::{DeleteOptions, Store};
use crate::apiserver::{
    object::{self, Key, condition, text},
    refusal::Refusal,
    resource::{Resource, TableName},
    selector::label_selector_matches,
};

impl Store {
    /// Evicts a pod: deletes it if every budget that covers it allows one more disruption, else 429.
    pub fn evict(&mut self, resource: &Resource, key: &Key, options: &DeleteOptions) -> Result<(), Refusal> {
        let pod = self.find(resource, key)?;
        if needs_permission(&pod) {
            self.spend_budget(&pod)?;
        }
        self.delete(resource, key, options).map(drop)
    }

    fn spend_budget(&mut self, pod: &Value) -> Result<(), Refusal> {
        let table = TableName::new("policy", "poddisruptionbudgets");
        let covers = |budget: &Value| {
            object::namespace(budget) == object::namespace(pod)
                && label_selector_matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
        };
        let budgets: Vec<Arc<Value>> =
            self.table(&table).map(|(_, b)| b).filter(|b| covers(b)).cloned().collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget.clone(),
            _ => {
                return Err(Refusal::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let name = object::name(&budget);
        let ready = condition(pod, "Ready") == Some("True");
        let pods = self.pods_of(&budget);
        let allowed =
            allowed_disruptions(&budget, pods.iter().map(Arc::as_ref), |pod| self.wanted_replicas(pod));
        let always_unhealthy = text(&budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        // A budget that wants no healthy pod keeps none of them healthy, so the API server lets it decide by its count.
        let enough_healthy = allowed.healthy >= allowed.desired_healthy && allowed.desired_healthy > 0;
        if !ready && (always_unhealthy || enough_healthy) {
            return Ok(());
        }
        // A status written in the role of the disruption controller is binding, as in a real cluster.
        let written = budget.pointer("/status/disruptionsAllowed").and_then(Value::as_i64);
        let left = written.unwrap_or(allowed.disruptions);
        if left <= 0 {
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                allowed.desired_healthy, allowed.healthy
            );
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(Refusal::disruption_budget(message, why));
        }
        if written.is_some() {
            let mut spent = Value::clone(&budget);
            spent["status"]["disruptionsAllowed"] = json!(left - 1);
            let disrupted = object::map_mut(&mut spent["status"], "disruptedPods");
            disrupted.insert(object::name(pod).to_owned(), json!(object::rfc3339(self.now())));
            self.commit(&table, spent);
        }
        Ok(())
    }

    fn pods_of(&self, budget: &Value) -> Vec<Arc<Value>> {
        let covered = |pod: &Value| {
            object::namespace(pod) == object::namespace(budget)
                && label_selector_matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
        };
        self.table(&TableName::new("", "pods")).map(|(_, p)| p).filter(|p| covered(p)).cloned().collect()
    }

    /// Returns the number of pods that the controller of `pod` wants, when it is a workload of this store.
    fn wanted_replicas(&self, pod: &Value) -> Option<(String, i64)> {
        let owner = object::controller(pod)?;
        let uid = text(owner, "/uid").to_owned();
        let group = text(owner, "/apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
        let resource = self.registry.of_kind(group, "", text(owner, "/kind"))?;
        let namespace = if resource.namespaced { object::namespace(pod) } else { "" };
        let workload = self.find(&resource, &Key::new(namespace, text(owner, "/name"))).ok()?;
        Some((uid, workload.pointer("/spec/replicas")?.as_i64()?))
    }
}

/// Computes what kube-controller-manager writes into the status of a budget. `wanted` tells uid and wanted
/// replicas of the controller of a pod, when it has one.
pub fn allowed_disruptions<'a>(
    budget: &Value,
    pods: impl Iterator<Item = &'a Value>,
    wanted: impl Fn(&Value) -> Option<(String, i64)>,
) -> Allowance {
    let active = pods.filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"));
    let healthy = |pod: &Value| condition(pod, "Ready") == Some("True") && !object::is_deleting(pod);
    allowance(budget, active.map(|pod| (healthy(pod), wanted(pod))))
}

/// Pods that run nothing may go without asking.
fn needs_permission(pod: &Value) -> bool {
    let phase = text(pod, "/status/phase");
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && !object::is_deleting(pod)
}
