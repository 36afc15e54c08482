//! Obstacles that keep pods of a scenario waiting at its end, as the objects of the cluster report them: a person who reads
//! that pods wait has to know whether it is the role, the class, a claim or the pod.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert;
use karpenter_kube_sim::apiserver::object::{self, text};
use karpenter_kube_sim::apiserver::store::ListQuery;
use karpenter_model::names::reason;
use serde::Deserialize;
use serde_json::Value;

use crate::world::World;

/// Kinds whose conditions state why nothing is launched.
const KINDS: [&str; 3] = ["EC2NodeClass", "NodeClaim", "NodePool"];

/// The component that writes the events of the controller.
const CONTROLLER: &str = "karpenter";

/// Largest number of obstacles that are reported.
const SAID: usize = 8;

/// Returns the obstacles while pods wait; empty when none does.
pub(super) fn found(world: &World) -> Vec<String> {
    let objects = world.server.read(|store| {
        let resources = store.registry().iter().filter(|one| {
            KINDS.contains(&one.kind.as_str())
                || ["Pod", "Event"].contains(&one.kind.as_str()) && one.group.is_empty()
        });
        let pages = resources.filter_map(|resource| store.list(resource, &ListQuery::default()).ok());
        pages.flat_map(|page| page.items).map(|object| Value::clone(&object)).collect::<Vec<Value>>()
    });
    of_objects(&objects)
}

fn of_objects(objects: &[Value]) -> Vec<String> {
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| text(object, "/kind") == kind);
    let waiting: Vec<&Value> = of_kind("Pod").filter(|pod| waits(pod)).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let failing = KINDS.into_iter().flat_map(of_kind).flat_map(failing);
    let unreadable = waiting.iter().filter_map(|pod| {
        let pod = Pod::deserialize(*pod).ok()?;
        convert::pod(&pod).err().map(|error| error.to_string())
    });
    let names: BTreeSet<&str> = waiting.iter().map(|pod| object::name(pod)).collect();
    let refused = of_kind("Event").filter(|event| {
        text(event, "/reason") == reason::FAILED_SCHEDULING
            && text(event, "/reportingComponent") == CONTROLLER
            && names.contains(text(event, "/involvedObject/name"))
    });
    let refused = refused
        .map(|event| format!("Pod `{}`: {}", text(event, "/involvedObject/name"), text(event, "/message")));
    let mut seen = BTreeSet::new();
    let all = failing.chain(unreadable).chain(refused);
    all.filter(|said| seen.insert(said.clone())).take(SAID).collect()
}

fn waits(pod: &Value) -> bool {
    text(pod, "/status/phase") == "Pending" && text(pod, "/spec/nodeName").is_empty()
}

/// Conditions that are false, and those of node classes that AWS leaves undecided, with their messages; not those that only sum
/// others up.
fn failing(object: &Value) -> Vec<String> {
    let is_class = text(object, "/kind") == "EC2NodeClass";
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let failing = conditions.into_iter().flatten().filter(|one| {
        (text(one, "/status") == "False" || is_class && text(one, "/status") == "Unknown")
            && ![
                reason::UNHEALTHY_DEPENDENTS,
                reason::RECONCILING_DEPENDENTS,
                reason::AWAITING_RECONCILIATION,
            ]
            .contains(&text(one, "/reason"))
            && !text(one, "/message").is_empty()
    });
    let said = failing.map(|one| {
        let (kind, name) = (text(object, "/kind"), object::name(object));
        format!(
            "{kind} `{name}`: {} is {} ({}): {}",
            text(one, "/type"),
            text(one, "/status"),
            text(one, "/reason"),
            text(one, "/message")
        )
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_the_way_is_said_while_pods_wait() {
        let class = json!({
            "kind": "EC2NodeClass", "metadata": {"name": "default"},
            "status": {"conditions": [
                {"type": "InstanceProfileReady", "status": "False", "reason": "NotFound", "message": "role `x` is not there"},
                {"type": "AMIsReady", "status": "True", "reason": "AMIsReady", "message": "fine"},
                {"type": "SubnetsReady", "status": "Unknown", "reason": "SubnetsUnknown", "message": "no answer"},
                {"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "SubnetsReady=Unknown"},
                {"type": "ValidationSucceeded", "status": "Unknown", "reason": "AwaitingReconciliation", "message": "waits"},
            ]},
        });
        let pod = |name: &str, node: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Pending"},
            })
        };
        let event = |component: &str, pod: &str| {
            json!({
                "kind": "Event", "reason": "FailedScheduling", "reportingComponent": component,
                "involvedObject": {"kind": "Pod", "name": pod}, "message": "no pool takes it",
            })
        };
        let objects = [
            class,
            pod("a", ""),
            pod("b", "node"),
            event("karpenter", "a"),
            event("karpenter", "a"),
            event("default-scheduler", "a"),
            event("karpenter", "b"),
        ];
        assert_eq!(
            of_objects(&objects),
            [
                "EC2NodeClass `default`: InstanceProfileReady is False (NotFound): role `x` is not there",
                "EC2NodeClass `default`: SubnetsReady is Unknown (SubnetsUnknown): no answer",
                "Pod `a`: no pool takes it",
            ]
        );
        assert_eq!(of_objects(&objects[2..]), Vec::<String>::new(), "no pod waits");
    }
}
