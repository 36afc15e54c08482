//! Pods that a changed template replaces. A plan shows the end of the roll-out: pods that surge on the way are not in it.
//!
//! A picture of a cluster has no workloads, so a template is compared with the pods there are: with what it asks of nodes, not
//! with its images. Containers and tolerations that webhooks have added to a pod are no difference.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::convert::Admission;
use karpenter_model::Quantity;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Own;
use crate::objects::{ObjectKey, Objects, text};

/// Kinds whose controller replaces the pods of an earlier template. Those of a `DaemonSet` come again on their nodes.
const ROLLING: [&str; 3] = ["Deployment", "StatefulSet", DAEMON_SET];

const DAEMON_SET: &str = "DaemonSet";

/// Fields of a pod that say where it may go.
const PLACES: [&str; 5] =
    ["affinity", "nodeSelector", "topologySpreadConstraints", "runtimeClassName", "resourceClaims"];

/// Takes away the pods that the templates of the workloads `applied` replace, or changes them where they stay on their node.
pub(crate) fn roll_out(objects: &mut Objects, applied: &[ObjectKey]) {
    let admission = objects.admission();
    for key in applied.iter().filter(|key| ROLLING.contains(&key.kind.as_str())) {
        let workload = objects.get(key).filter(|workload| rolls(workload)).cloned();
        let Some(workload) = workload else { continue };
        let Some(new) = spec_of(&workload, &key.namespace, &admission) else { continue };
        for old in Own::of(objects, key, &workload).running {
            let Some(mut pod) = objects.remove(&old) else { continue };
            // The controller of a daemon set adds its node to the places that the template allows.
            let (own, is_daemon) = (&workload["spec"]["template"]["spec"], key.kind == DAEMON_SET);
            let is_replaced = read(&pod).is_some_and(|old| {
                asks_other_amounts(&old, &new) || !is_daemon && goes_elsewhere(&old, &new, own)
            });
            if is_replaced && is_daemon {
                let node = pod["spec"]["nodeName"].take();
                pod["spec"] = new.clone();
                pod["spec"]["nodeName"] = node;
            }
            if !is_replaced || is_daemon {
                objects.put(pod);
            }
        }
    }
}

/// Returns whether pods follow the template by themselves.
fn rolls(workload: &Value) -> bool {
    workload["spec"]["paused"] != true && text(workload, "/spec/updateStrategy/type") != "OnDelete"
}

/// Returns the spec of a new pod as it would be admitted.
fn spec_of(workload: &Value, namespace: &str, admission: &Admission) -> Option<Value> {
    let template = &workload["spec"]["template"];
    let pod = json!({
        "metadata": {"namespace": namespace, "labels": template["metadata"]["labels"]}, "spec": template["spec"],
    });
    let mut pod = Pod::deserialize(pod).ok()?;
    // What would be refused is said of the pods that are made.
    let _refused = admission.admit(&mut pod);
    Some(json!(pod.spec))
}

/// Returns the spec of a pod in the form of [`spec_of`].
fn read(pod: &Value) -> Option<Value> {
    Some(json!(Pod::deserialize(pod).ok()?.spec))
}

/// Returns whether a pod with the spec `old` takes other amounts of its node than one with the spec `new`.
fn asks_other_amounts(old: &Value, new: &Value) -> bool {
    let of_containers = ["containers", "initContainers"].into_iter().any(|list| {
        items(new, list).any(|container| {
            let like = items(old, list).find(|one| one["name"] == container["name"]);
            like.is_none_or(|like| requests(like) != requests(container) || ports(like) != ports(container))
        })
    });
    of_containers || requests(old) != requests(new)
}

/// Returns whether a pod with the spec `old` may not go where one with the spec `new` may. Admission adds tolerations, so those
/// of the template, `own`, count.
fn goes_elsewhere(old: &Value, new: &Value, own: &Value) -> bool {
    let tolerated: Vec<&Value> = items(old, "tolerations").collect();
    items(own, "tolerations").any(|one| !tolerated.contains(&one))
        || !claims(old).is_superset(&claims(new))
        || PLACES.iter().any(|field| unfolded(&old[*field]) != unfolded(&new[*field]))
}

fn items<'a>(spec: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    spec[list].as_array().into_iter().flatten()
}

/// Amounts that a container, or a pod as a whole, asks for.
fn requests(of: &Value) -> BTreeMap<&str, Option<Quantity>> {
    let amounts = ["limits", "requests"].into_iter().filter_map(|kind| of["resources"][kind].as_object());
    let amounts = amounts
        .flatten()
        .map(|(name, amount)| (name.as_str(), amount.as_str().and_then(|amount| amount.parse().ok())));
    amounts.collect()
}

fn ports(container: &Value) -> Vec<&Value> {
    items(container, "ports").map(|port| &port["hostPort"]).filter(|port| !port.is_null()).collect()
}

fn claims(spec: &Value) -> BTreeSet<&str> {
    items(spec, "volumes")
        .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
        .collect()
}

/// Returns rules about other pods without the part of their selectors that follows from label keys: it names the template.
fn unfolded(rules: &Value) -> Value {
    match rules {
        Value::Array(all) => all.iter().map(unfolded).collect(),
        Value::Object(fields) => {
            let keys =
                ["matchLabelKeys", "mismatchLabelKeys"].into_iter().flat_map(|list| items(rules, list));
            let keys: Vec<&Value> = keys.collect();
            let mut plain: serde_json::Map<String, Value> =
                fields.iter().map(|(name, field)| (name.clone(), unfolded(field))).collect();
            let selector = plain.get_mut("labelSelector").and_then(Value::as_object_mut);
            if let Some(selector) = selector.filter(|_| !keys.is_empty()) {
                let expressions = selector.get_mut("matchExpressions").and_then(Value::as_array_mut);
                if let Some(expressions) = expressions {
                    expressions.retain(|one| !keys.contains(&&one["key"]));
                    if expressions.is_empty() {
                        selector.shift_remove("matchExpressions");
                    }
                }
            }
            Value::Object(plain)
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "api", "namespace": "shop"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "api"}},
                "template": {"metadata": {"labels": {"app": "api"}}, "spec": spec},
            },
        })
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "image": "a", "resources": {"requests": {"cpu": cpu}}})
    }

    fn pod(spec: &Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "api-x", "namespace": "shop", "uid": "u", "labels": {"app": "api"}},
            "spec": spec, "status": {"phase": "Running"},
        });
        pod["spec"]["nodeName"] = json!("n");
        pod
    }

    /// The spec of the pod once the workload is applied; `None` when the pod is gone.
    fn after(workload: Value, pod: Value) -> Option<Value> {
        let key = ObjectKey::of(&workload);
        let mut objects: Objects = [workload, pod].into_iter().collect();
        roll_out(&mut objects, &[key]);
        objects.of_kind("Pod").next().map(|(_, pod)| pod["spec"].clone())
    }

    #[test]
    fn a_template_that_asks_for_something_else_replaces_the_pods_there_are() {
        let keys = |folded: Value| {
            let selector = json!({"matchLabels": {"app": "api"}, "matchExpressions": folded});
            let spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]});
            json!({"containers": [container("1")], "topologySpreadConstraints": [spread]})
        };
        let hash = json!([{"key": "pod-template-hash", "operator": "In", "values": ["a"]}]);
        let asks = |fields: Value| {
            let mut spec = json!({"containers": [container("1")]});
            spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
            spec
        };
        let other_image =
            json!({"containers": [{"name": "c", "image": "b", "resources": {"requests": {"cpu": "1000m"}}}]});
        let limited =
            json!({"containers": [{"name": "c", "image": "a", "resources": {"limits": {"cpu": "1"}}}]});
        let injected = json!({"containers": [container("1"), {"name": "proxy", "image": "p"}],
            "tolerations": [{"key": "x", "operator": "Exists"}]});
        let any = || asks(json!({}));
        let table = [
            ("the same", any(), any(), true),
            ("another image", any(), asks(other_image), true),
            ("limits alone", any(), asks(limited), true),
            ("what a webhook adds", injected, any(), true),
            ("more", any(), json!({"containers": [container("2")]}), false),
            (
                "another container",
                any(),
                json!({"containers": [container("1"), {"name": "d", "image": "d"}]}),
                false,
            ),
            ("another place", any(), asks(json!({"nodeSelector": {"disk": "fast"}})), false),
            ("any place again", asks(json!({"nodeSelector": {"disk": "fast"}})), any(), false),
            (
                "a toleration",
                any(),
                asks(json!({"tolerations": [{"key": "x", "operator": "Exists"}]})),
                false,
            ),
            ("label keys", keys(hash), keys(json!([])), true),
        ];
        for (case, old, new, stays) in table {
            for kind in ["Deployment", "StatefulSet"] {
                assert_eq!(after(workload(kind, &new), pod(&old)).is_some(), stays, "{case}");
            }
            let paused = |mut workload: Value| {
                workload["spec"]["paused"] = json!(true);
                workload
            };
            assert!(after(paused(workload("Deployment", &new)), pod(&old)).is_some(), "{case}, but paused");
            assert!(
                after(workload("ReplicaSet", &new), pod(&old)).is_some(),
                "{case}, of a set that replaces none"
            );
        }
    }

    #[test]
    fn a_daemon_pod_asks_for_what_its_template_does_and_stays_on_its_node() {
        let spec = after(
            workload("DaemonSet", &json!({"containers": [container("2")]})),
            pod(&json!({"containers": [container("1")]})),
        );
        let spec = spec.expect("it stays");
        assert_eq!(
            (&spec["nodeName"], &spec["containers"][0]["resources"]["requests"]["cpu"]),
            (&json!("n"), &json!("2"))
        );
    }
}
