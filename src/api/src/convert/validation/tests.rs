//! One table: an object, and the fields that an API server refuses of it.

use serde_json::{Value, json};

use crate::manifest::{refusals, unknown_fields};

fn deployment(pod: &Value, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    for (field, value) in pod.as_object().into_iter().flatten() {
        object["spec"]["template"]["spec"][field] = value.clone();
    }
    object
}

fn fields(object: &Value) -> Vec<String> {
    refusals(object).into_iter().map(|cause| cause.field).collect()
}

/// Fields of the pod that are refused.
fn of_pod(pod: &Value) -> Vec<String> {
    let found = fields(&deployment(pod, &json!({})));
    found.iter().map(|field| field.trim_start_matches("spec.template.spec.").to_owned()).collect()
}

fn container(fields: &Value) -> Value {
    let mut one = json!({"name": "c", "image": "x"});
    for (field, value) in fields.as_object().into_iter().flatten() {
        one[field] = value.clone();
    }
    json!({"containers": [one]})
}

#[test]
fn pods_that_an_api_server_takes_are_not_refused() {
    for pod in [
        json!({}),
        json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}, "tolerations": [{"operator": "Exists"}]}),
        json!({"tolerations": [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}]}),
        container(&json!({"resources": {"requests": {"cpu": 1, "memory": 1.5e9, "nvidia.com/gpu": "1"},
            "limits": {"nvidia.com/gpu": 1}}})),
        container(&json!({"ports": [{"containerPort": 80, "name": "http"}], "image": "x", "env": null})),
        json!({"volumes": [{"name": "v", "emptyDir": {}}], "affinity": null}),
    ] {
        assert_eq!(of_pod(&pod), Vec::<String>::new(), "{pod}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn every_field_of_a_pod_that_an_api_server_refuses_is_named() {
    let spread = |fields: &Value| {
        let mut one = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
        for (field, value) in fields.as_object().into_iter().flatten() {
            one[field] = value.clone();
        }
        json!({"topologySpreadConstraints": [one]})
    };
    let node = |expression: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}})
    };
    let term = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let with = "affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let pods = |term: Value| json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}});
    let table: Vec<(Value, Vec<String>)> = vec![
        (json!({"containers": []}), vec!["containers".into()]),
        (
            json!({"containers": [{"name": "A b"}]}),
            vec!["containers[0].name".into(), "containers[0].image".into()],
        ),
        (
            json!({"containers": [{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]}),
            vec!["containers[1].name".into()],
        ),
        (json!({"containers": "c"}), vec!["containers".into()]),
        (
            container(&json!({"ports": [{"containerPort": 99_999}]})),
            vec!["containers[0].ports[0].containerPort".into()],
        ),
        (
            container(&json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]})),
            vec!["containers[0].volumeMounts[0].name".into()],
        ),
        (container(&json!({"imagePullPolicy": "Sometimes"})), vec!["containers[0].imagePullPolicy".into()]),
        (
            container(&json!({"resources": {"requests": {"cpu": "-1"}}})),
            vec!["containers[0].resources.requests[cpu]".into()],
        ),
        (
            container(&json!({"resources": {"requests": {"gpu": "1"}}})),
            vec!["containers[0].resources.requests".into()],
        ),
        (
            container(&json!({"resources": {"requests": {"cpu": "abc"}}})),
            vec!["containers[0].resources.requests.cpu".into()],
        ),
        (
            container(&json!({"resources": {"requests": {"cpu": [1]}}})),
            vec!["containers[0].resources.requests.cpu".into()],
        ),
        (
            container(&json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}})),
            vec!["containers[0].resources.requests".into()],
        ),
        (
            container(&json!({"resources": {"requests": {"nvidia.com/gpu": 1}}})),
            vec!["containers[0].resources.limits".into()],
        ),
        (
            container(&json!({"resources": {"limits": {"nvidia.com/gpu": "500m"}}})),
            vec!["containers[0].resources.limits[nvidia.com/gpu]".into()],
        ),
        (json!({"restartPolicy": "OnFailure"}), vec!["restartPolicy".into()]),
        (json!({"dnsPolicy": "None"}), vec!["dnsConfig".into()]),
        (
            json!({"volumes": [{"name": "v", "configMap": {"name": "a", "defaultMode": 777}}]}),
            vec!["volumes[0].configMap.defaultMode".into()],
        ),
        (
            json!({"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}),
            vec!["volumes[0].hostPath".into()],
        ),
        (json!({"resourceClaims": [{"name": "gpu"}]}), vec!["resourceClaims[0]".into()]),
        (
            container(&json!({"resources": {"claims": [{"name": "gpu"}]}})),
            vec!["containers[0].resources.claims[0]".into()],
        ),
        (container(&json!({"livenessProbe": {}})), vec!["containers[0].livenessProbe".into()]),
        (json!({"nodeSelector": {"a b": "c"}}), vec!["nodeSelector".into()]),
        (json!({"tolerations": [{"key": "a", "operator": "Is"}]}), vec!["tolerations[0].operator".into()]),
        (json!({"tolerations": [{"effect": "NoSchedule"}]}), vec!["tolerations[0].operator".into()]),
        (json!({"tolerations": [{"key": "a", "effect": "No"}]}), vec!["tolerations[0].effect".into()]),
        (
            json!({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}),
            vec!["tolerations[0].effect".into()],
        ),
        (spread(&json!({"maxSkew": 0})), vec!["topologySpreadConstraints[0].maxSkew".into()]),
        (
            spread(&json!({"whenUnsatisfiable": "Never"})),
            vec!["topologySpreadConstraints[0].whenUnsatisfiable".into()],
        ),
        (spread(&json!({"minDomains": 0})), vec!["topologySpreadConstraints[0].minDomains".into()]),
        (
            spread(&json!({"matchLabelKeys": ["a"]})),
            vec!["topologySpreadConstraints[0].matchLabelKeys".into()],
        ),
        (node(json!({"key": "a", "operator": "In"})), vec![format!("{term}[0].matchExpressions[0].values")]),
        (
            node(json!({"key": "a", "operator": "Is"})),
            vec![format!("{term}[0].matchExpressions[0].operator")],
        ),
        (
            node(json!({"key": "a", "operator": "Gt", "values": ["1", "2"]})),
            vec![format!("{term}[0].matchExpressions[0].values")],
        ),
        (pods(json!({"labelSelector": {}})), vec![format!("{with}.topologyKey")]),
        (json!({"schedulingGates": [{"name": "a/b"}, {"name": "a/b"}]}), vec!["schedulingGates[1]".into()]),
        (
            json!({"hostNetwork": true, "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
            vec!["containers[0].ports[0].hostPort".into()],
        ),
        (
            json!({"resources": {"requests": {"cpu": 1}}, "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": 2}}}]}),
            vec!["resources.requests[cpu]".into()],
        ),
        (
            json!({"volumes": [{"name": "v", "ephemeral": {}}]}),
            vec!["volumes[0].ephemeral.volumeClaimTemplate".into()],
        ),
    ];
    for (pod, expected) in table {
        assert_eq!(of_pod(&pod), expected, "{pod}");
    }
}

#[test]
fn workloads_are_refused_for_what_no_template_says() {
    for (spec, expected) in [
        (json!({"replicas": -1}), vec!["spec.replicas"]),
        (json!({"replicas": "2"}), vec!["spec.replicas"]),
        (json!({"replicas": 99_999_999_999_u64}), vec!["spec.replicas"]),
        (json!({"selector": null}), vec!["spec.selector"]),
        (json!({"selector": {}}), vec!["spec.selector"]),
        (json!({"selector": {"matchLabels": {"app": "other"}}}), vec!["spec.template.metadata.labels"]),
        (json!({"template": null}), vec!["spec.template"]),
        (json!({"strategy": {"type": "Sudden"}}), vec!["spec.strategy.type"]),
    ] {
        assert_eq!(fields(&deployment(&json!({}), &spec)), expected, "{spec}");
    }
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
    for (spec, expected) in [
        (json!({}), vec![]),
        (json!({"parallelism": 3, "completions": 2}), vec![]),
        (json!({"completionMode": "Indexed"}), vec![]),
        (json!({"completionMode": "Indexed", "parallelism": 2}), vec!["spec.completions"]),
        (json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1}), vec![]),
        (json!({"backoffLimitPerIndex": 1}), vec!["spec.backoffLimitPerIndex"]),
        (json!({"completions": -1}), vec!["spec.completions"]),
        (
            json!({"template": {"spec": {"containers": [{"name": "c", "image": "x"}]}}}),
            vec!["spec.template.spec.restartPolicy"],
        ),
    ] {
        let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            job["spec"][field] = value.clone();
        }
        assert_eq!(fields(&job), expected, "{spec}");
    }
}

#[test]
fn other_objects_are_refused_as_well() {
    let object = |api_version: &str, kind: &str, rest: &Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        for (field, value) in rest.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        object
    };
    let budget = |spec: Value| object("policy/v1", "PodDisruptionBudget", &json!({"spec": spec}));
    let range = |item: Value| object("v1", "LimitRange", &json!({"spec": {"limits": [item]}}));
    for (object, expected) in [
        (budget(json!({"minAvailable": "50%"})), vec![]),
        (budget(json!({"minAvailable": "50"})), vec!["spec.minAvailable"]),
        (budget(json!({"maxUnavailable": "101%"})), vec!["spec.maxUnavailable"]),
        (budget(json!({"minAvailable": 1, "maxUnavailable": 1})), vec!["spec"]),
        (budget(json!({"unhealthyPodEvictionPolicy": "Never"})), vec!["spec.unhealthyPodEvictionPolicy"]),
        (range(json!({"type": "Container", "max": {"cpu": 2}, "default": {"cpu": 1}})), vec![]),
        (
            range(json!({"type": "Container", "max": {"cpu": 1}, "default": {"cpu": 2}})),
            vec!["spec.limits[0].default[cpu]"],
        ),
        (range(json!({"type": "Pod", "default": {"cpu": 2}})), vec!["spec.limits[0].default"]),
        (range(json!({"type": "PersistentVolumeClaim"})), vec!["spec.limits[0]"]),
        (object("scheduling.k8s.io/v1", "PriorityClass", &json!({"value": 1_000_000_001})), vec!["value"]),
        (object("node.k8s.io/v1", "RuntimeClass", &json!({})), vec!["handler"]),
        (
            object(
                "storage.k8s.io/v1",
                "StorageClass",
                &json!({"provisioner": "a", "volumeBindingMode": "Late"}),
            ),
            vec!["volumeBindingMode"],
        ),
        (
            object(
                "v1",
                "PersistentVolumeClaim",
                &json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}}),
            ),
            vec!["spec.accessModes"],
        ),
        (object("v1", "Namespace", &json!({"metadata": {"name": "a.b"}})), vec!["metadata.name"]),
        (
            object(
                "v1",
                "Pod",
                &json!({"metadata": {"name": "A"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}),
            ),
            vec!["metadata.name"],
        ),
        (object("karpenter.sh/v1", "Other", &json!({})), vec![]),
    ] {
        assert_eq!(fields(&object), expected, "{object}");
    }
}

#[test]
fn fields_that_kubernetes_does_not_have_are_unknown() {
    let mut object = deployment(&json!({"nodeselector": {}, "status": 1}), &json!({"replica": 2}));
    object["metadata"]["lables"] = json!({});
    object["weight"] = json!(1);
    let unknown: Vec<String> = unknown_fields(&object).into_iter().map(|one| one.field).collect();
    assert_eq!(
        unknown,
        [
            "weight",
            "spec.replica",
            "spec.template.spec.nodeselector",
            "spec.template.spec.status",
            "metadata.lables"
        ]
    );
    let foreign = json!({"apiVersion": "example.com/v1", "kind": "Deployment", "spec": {"x": 1}});
    assert_eq!(unknown_fields(&foreign), []);
}
