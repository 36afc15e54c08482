//! Defaults of pods and pod templates.

use serde_json::{Map, Value, json};

use crate::apiserver::object::{default_to, map_mut};

/// Fills in the defaults of a pod.
pub(super) fn apply(pod: &mut Value) {
    spec(map_mut(pod, "spec"));
    let class = quality_of_service(&pod["spec"]);
    let status = map_mut(pod, "status");
    default_to(status, "phase", "Pending");
    default_to(status, "qosClass", class);
}

/// Fills in the defaults of the spec of a pod or of a pod template.
pub(super) fn spec(spec: &mut Map<String, Value>) {
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "schedulerName", "default-scheduler");
    default_to(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                fill_container(container);
            }
        }
    }
}

fn fill_container(container: &mut Map<String, Value>) {
    default_to(container, "imagePullPolicy", "IfNotPresent");
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    default_to(container, "resources", json!({}));
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(port) = port.as_object_mut() {
            default_to(port, "protocol", "TCP");
        }
    }
    // A limit without a request is a request, too.
    let limits = container["resources"].get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if !limits.is_empty() {
        let requests = map_mut(&mut container["resources"], "requests");
        for (name, quantity) in limits {
            default_to(requests, &name, quantity);
        }
    }
}

/// Tells apart only what evictions and dashboards care about: requests at all, or none.
fn quality_of_service(spec: &Value) -> &'static str {
    let containers = || spec["containers"].as_array().into_iter().flatten();
    let has = |c: &Value, kind: &str| {
        c["resources"].get(kind).and_then(Value::as_object).is_some_and(|r| !r.is_empty())
    };
    let guaranteed = |c: &Value| has(c, "limits") && c["resources"]["limits"] == c["resources"]["requests"];
    if containers().all(guaranteed) && containers().next().is_some() {
        "Guaranteed"
    } else if containers().any(|c| has(c, "requests") || has(c, "limits")) {
        "Burstable"
    } else {
        "BestEffort"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_requests_and_decide_the_class() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}]}});
        apply(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
        assert_eq!(pod["status"]["qosClass"], "Guaranteed");
        assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
    }
}
