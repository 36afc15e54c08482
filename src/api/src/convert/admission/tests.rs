//! Pods as they are written and as an API server stores them.

use serde_json::json;

use super::*;

/// The spec of a pod once it is admitted, and the reasons for which it is refused.
fn admitted(objects: &[Value], spec: &Value) -> (Value, Vec<String>) {
    let metadata = json!({"namespace": "shop", "labels": {"app": "a", "tenant": "t"}});
    let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let refused = Admission::of(objects).admit(&mut pod);
    (serde_json::to_value(pod.spec).unwrap(), refused.iter().map(ToString::to_string).collect())
}

fn container(resources: &Value) -> Value {
    json!({"containers": [{"name": "c", "resources": resources}]})
}

fn range(item: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"namespace": "shop", "name": "r"},
        "spec": {"limits": [item]}})
}

#[test]
fn a_container_gets_what_its_namespace_gives() {
    let table = [
        (json!({"type": "Container"}), json!({}), json!({})),
        (
            json!({"type": "Container", "max": {"cpu": "3"}}),
            json!({}),
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}),
        ),
        (
            json!({"type": "Container", "max": {"cpu": "3"}, "default": {"cpu": "2"}}),
            json!({}),
            json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
        ),
        (
            json!({"type": "Container", "max": {"cpu": "3"}, "defaultRequest": {"cpu": "1"}}),
            json!({}),
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}),
        ),
        (
            json!({"type": "Container", "max": {"cpu": "3"}}),
            json!({"requests": {"cpu": "1"}}),
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}}),
        ),
        (
            json!({"type": "Container", "max": {"cpu": "3"}}),
            json!({"limits": {"cpu": "2"}}),
            json!({"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
        ),
        (json!({"type": "Container", "min": {"cpu": "1"}}), json!({}), json!({"requests": {"cpu": "1"}})),
        (
            json!({"type": "Container", "defaultRequest": {"cpu": "3", "memory": "1Gi"}}),
            json!({"requests": {"cpu": "0"}}),
            json!({"requests": {"cpu": "0", "memory": "1Gi"}}),
        ),
        (
            json!({"type": "Pod", "min": {"cpu": "0"}, "default": {"cpu": "1"}}),
            json!({"requests": {"cpu": "1"}}),
            json!({"requests": {"cpu": "1"}}),
        ),
    ];
    for (item, resources, expected) in table {
        let (spec, refused) = admitted(&[range(&item)], &container(&resources));
        assert_eq!(refused, Vec::<String>::new(), "{item} {resources}");
        assert_eq!(spec["containers"][0]["resources"], expected, "{item} {resources}");
    }
}

#[test]
fn what_is_outside_of_limits_is_refused() {
    let table = [
        (
            json!({"type": "Container", "max": {"cpu": "3"}}),
            json!({"limits": {"cpu": "4"}}),
            "maximum cpu usage per Container is 3, but limit is 4",
        ),
        (
            json!({"type": "Container", "min": {"cpu": "1"}}),
            json!({"requests": {"cpu": "500m"}}),
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
            "cpu max limit to request ratio per Container is 1500m, but the limit is 2 for a request of 1",
        ),
        (
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}),
            "",
        ),
        (
            json!({"type": "Pod", "max": {"memory": "1Gi"}}),
            json!({"requests": {"memory": "1Gi"}}),
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            json!({"type": "Container"}),
            json!({"requests": {"cpu": "-1"}}),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            json!({"type": "Container"}),
            json!({"limits": {"memory": "-1Gi"}}),
            "spec.containers[0].resources.limits[memory]: Invalid value: \"-1Gi\": must be greater than or equal to 0; \
             spec.containers[0].resources.requests[memory]: Invalid value: \"-1Gi\": must be greater than or equal to 0",
        ),
        (
            json!({"type": "Container"}),
            json!({"limits": {"example.com/gpu": "1500m"}, "requests": {"example.com/gpu": "1500m"}}),
            "spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"1500m\": must be an integer; \
             spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
        ),
        (json!({"type": "Container"}), json!({"requests": {"cpu": "1n", "memory": "128974848000m"}}), ""),
        (
            json!({"type": "Container"}),
            json!({"requests": {"memory": "8E", "cpu": "9223372036854775807"}}),
            "",
        ),
        (
            json!({"type": "Container"}),
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
    ];
    for (item, resources, expected) in table {
        let (_, refused) = admitted(&[range(&item)], &container(&resources));
        assert_eq!(refused.join("; "), expected, "{item} {resources}");
    }
}

#[test]
fn limits_of_another_namespace_do_not_count() {
    let mut elsewhere = range(&json!({"type": "Container", "max": {"cpu": "3"}}));
    elsewhere["metadata"]["namespace"] = json!("shop-2");
    let (spec, refused) = admitted(&[elsewhere], &container(&json!({"limits": {"cpu": "4"}})));
    assert_eq!((refused.len(), &spec["containers"][0]["resources"]["requests"]["cpu"]), (0, &json!("4")));
}

#[test]
fn a_pod_with_limits_as_a_whole_requests_what_its_containers_do_or_its_limits() {
    let table = [
        (json!({"limits": {"cpu": "3"}}), json!({}), json!({"cpu": "3"})),
        (json!({"limits": {"cpu": "3"}}), json!({"requests": {"cpu": "1"}}), json!({"cpu": "1"})),
        (
            json!({"limits": {"cpu": "3"}}),
            json!({"requests": {"memory": "1Gi"}}),
            json!({"cpu": "3", "memory": "1Gi"}),
        ),
        (
            json!({"limits": {"cpu": "3"}, "requests": {"cpu": "2"}}),
            json!({"requests": {"cpu": "1"}}),
            json!({"cpu": "2"}),
        ),
        (json!({"requests": {"memory": "2Gi"}}), json!({"requests": {"cpu": "1"}}), json!({"memory": "2Gi"})),
    ];
    for (whole, resources, expected) in table {
        let mut spec = container(&resources);
        spec["resources"] = whole.clone();
        assert_eq!(admitted(&[], &spec).0["resources"]["requests"], expected, "{whole} {resources}");
    }
}

#[test]
fn ports_on_the_network_of_the_host_are_ports_of_the_host() {
    let port = |host_network: bool, port: Value| {
        let spec = json!({"hostNetwork": host_network, "containers": [{"name": "c", "ports": [port]}]});
        admitted(&[], &spec).0["containers"][0]["ports"][0]["hostPort"].clone()
    };
    assert_eq!(port(true, json!({"containerPort": 80})), 80);
    assert_eq!(port(true, json!({"containerPort": 80, "hostPort": 80})), 80);
    assert_eq!(port(false, json!({"containerPort": 80})), Value::Null);
}

#[test]
fn label_keys_become_part_of_selectors() {
    let term = |keys: Value| {
        let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
        term.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        term
    };
    let spec = json!({
        "containers": [],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "matchLabelKeys": ["app", "absent"]}],
        "affinity": {
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term(json!({"matchLabelKeys": ["tenant"]}))},
            ]},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                term(json!({"mismatchLabelKeys": ["tenant"]})),
                {"topologyKey": "zone", "mismatchLabelKeys": ["tenant"]},
            ]},
        },
    });
    let (spec, _) = admitted(&[], &spec);
    let expression = |key: &str, operator: &str, value: &str| json!([{"key": key, "operator": operator, "values": [value]}]);
    let at = |pointer: &str| spec.pointer(pointer).cloned().unwrap_or_default();
    let spread = at("/topologySpreadConstraints/0/labelSelector/matchExpressions");
    assert_eq!(spread, expression("app", "In", "a"));
    let preferred = "/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm";
    assert_eq!(at(&format!("{preferred}/labelSelector/matchExpressions")), expression("tenant", "In", "t"));
    let required = "/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    assert_eq!(
        at(&format!("{required}/0/labelSelector/matchExpressions")),
        expression("tenant", "NotIn", "t")
    );
    assert_eq!(at(&format!("{required}/1/labelSelector")), Value::Null, "no selector selects no pod");
}

#[test]
fn priorities_come_from_classes() {
    let class = |name: &str, value: i32, fields: Value| {
        let mut class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        class
    };
    let high = class("high", 100, json!({"preemptionPolicy": "Never"}));
    let usual = class("usual", 5, json!({"globalDefault": true}));
    let table = [
        (json!({}), vec![], json!([null, 0, "PreemptLowerPriority"]), ""),
        (json!({"priorityClassName": "high"}), vec![&high], json!(["high", 100, "Never"]), ""),
        (json!({}), vec![&high, &usual], json!(["usual", 5, "PreemptLowerPriority"]), ""),
        (
            json!({"priorityClassName": "system-node-critical"}),
            vec![],
            json!(["system-node-critical", 2_000_001_000, "PreemptLowerPriority"]),
            "",
        ),
        (
            json!({"priorityClassName": "low"}),
            vec![&high],
            json!(["low", null, null]),
            "no PriorityClass with name low was found",
        ),
    ];
    for (fields, classes, expected, refusal) in table {
        let mut spec = container(&json!({}));
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let classes: Vec<Value> = classes.into_iter().cloned().collect();
        let (spec, refused) = admitted(&classes, &spec);
        assert_eq!(json!([spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]]), expected);
        assert_eq!(refused.join("; "), refusal);
    }
}

#[test]
fn a_runtime_class_adds_overhead_selector_and_tolerations() {
    let toleration = json!({"key": "sandbox", "operator": "Exists"});
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"sandbox": "true"}, "tolerations": [toleration]}});
    let with = |selector: Value| {
        let mut spec = container(&json!({}));
        spec["runtimeClassName"] = json!("vm");
        spec["nodeSelector"] = selector;
        admitted(std::slice::from_ref(&class), &spec)
    };
    let (spec, refused) = with(json!({"disk": "ssd"}));
    assert_eq!((&spec["overhead"], refused.len()), (&json!({"cpu": "250m"}), 0));
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "sandbox": "true"}));
    assert!(spec["tolerations"].as_array().unwrap().contains(&toleration));
    let (_, refused) = with(json!({"sandbox": "false"}));
    assert!(
        refused[0].starts_with("conflict: runtimeClass.scheduling.nodeSelector[sandbox] = true"),
        "{refused:?}"
    );
    let (_, refused) = admitted(&[], &json!({"containers": [], "runtimeClassName": "vm"}));
    assert_eq!(refused, ["pod rejected: RuntimeClass \"vm\" not found"]);
}

#[test]
fn pods_tolerate_a_node_that_is_not_ready_for_a_while() {
    let (spec, _) = admitted(&[], &json!({"containers": []}));
    let seconds: Vec<&Value> =
        spec["tolerations"].as_array().unwrap().iter().map(|one| &one["tolerationSeconds"]).collect();
    assert_eq!(seconds, [300, 300]);
    let own = json!({"containers": [], "tolerations": [{"operator": "Exists"}]});
    assert_eq!(admitted(&[], &own).0["tolerations"].as_array().unwrap().len(), 1);
}

#[test]
fn a_limit_range_that_cannot_be_read_is_named() {
    let range = range(&json!({"type": "Container", "default": {"cpu": "lots"}}));
    let error = limit_range(&serde_json::from_value(range).unwrap()).unwrap_err();
    assert_eq!(
        (error.object.as_str(), error.field.as_str()),
        ("LimitRange `shop/r`", "spec.limits[0].default.cpu")
    );
}

/// Found by asking an API server about drawn pods.
#[test]
fn a_pod_as_a_whole_requests_what_a_limit_range_gave_to_its_containers() {
    let limits = range(&json!({"type": "Container", "max": {"cpu": "3", "memory": "2Gi"}}));
    for (whole, expected) in [
        (json!({"limits": {"memory": "8Gi"}}), json!({"memory": "8Gi", "cpu": "3"})),
        (json!({"limits": {"cpu": "4"}}), json!({"cpu": "4", "memory": "2Gi"})),
    ] {
        let mut spec = container(&json!({}));
        spec["resources"] = whole.clone();
        let (spec, refused) = admitted(std::slice::from_ref(&limits), &spec);
        assert_eq!((&spec["resources"]["requests"], refused), (&expected, vec![]), "{whole}");
    }
    let mut spec = container(&json!({"requests": {"cpu": "100m"}}));
    spec["resources"] = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    let (_, refused) = admitted(&[limits], &spec);
    let expected = "spec.containers[0].resources.limits[cpu]: Invalid value: \"3\": must be less than or equal to pod limits of 1";
    assert_eq!(refused, [expected], "the limit is that of the namespace");
}

#[test]
fn amounts_are_rounded_up_to_thousandths() {
    let (spec, _) =
        admitted(&[], &container(&json!({"requests": {"cpu": "5n", "memory": "0.1m", "a/b": "E"}})));
    assert_eq!(
        spec["containers"][0]["resources"]["requests"],
        json!({"a/b": "E", "cpu": "1m", "memory": "1m"})
    );
}

#[test]
fn a_selector_cannot_have_a_key_that_the_pod_adds() {
    let spec = |selector: Value| {
        json!({"containers": [], "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, "matchLabelKeys": ["app"]}]})
    };
    let twice = ["Invalid value: \"app\": exists in both matchLabelKeys and labelSelector"];
    let (_, refused) = admitted(&[], &spec(json!({"matchLabels": {"app": "a"}})));
    assert_eq!(refused, twice);
    let (_, refused) =
        admitted(&[], &spec(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})));
    assert_eq!(refused, twice);
    let (_, refused) = admitted(&[], &spec(json!({"matchLabels": {"tenant": "t"}})));
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn ports_of_the_host_are_there_once_and_overhead_needs_a_class() {
    let ports = |port: u16| json!([{"containerPort": port}]);
    let spec = json!({"hostNetwork": true, "containers": [{"name": "a", "ports": ports(80)}, {"name": "b", "ports": ports(80)}]});
    let (_, refused) = admitted(&[], &spec);
    assert_eq!(refused, ["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//80\""]);
    let (_, refused) = admitted(&[], &json!({"containers": [], "overhead": {"cpu": "1"}}));
    let expected = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!(refused, [expected]);
}

#[test]
fn tolerations_of_a_runtime_class_that_the_pod_has_already_are_not_added() {
    let class = json!({"kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm",
        "scheduling": {"tolerations": [{"key": "vm", "operator": "Exists", "effect": "NoSchedule"}]}});
    let tolerations = |own: Value| {
        let spec = json!({"containers": [], "runtimeClassName": "vm", "tolerations": own});
        admitted(std::slice::from_ref(&class), &spec).0["tolerations"].as_array().unwrap().len()
    };
    // Two more are those of nodes that are not ready or not reachable.
    assert_eq!(tolerations(json!([])), 3);
    assert_eq!(tolerations(json!([{"operator": "Exists"}])), 1);
    assert_eq!(tolerations(json!([{"key": "vm", "operator": "Exists"}])), 3);
    assert_eq!(tolerations(json!([{"key": "vm", "value": "a"}])), 4);
}

// https://github.com/aws/containers-roadmap/issues/739
#[test]
fn pods_tolerate_taints_of_the_extended_resources_they_ask_for() {
    let tolerated = |spec: &Value| -> Vec<String> {
        let (spec, _) = admitted(&[], spec);
        let tolerations = spec["tolerations"].as_array().unwrap().iter();
        let new = tolerations.filter(|one| one["effect"] == "NoSchedule");
        new.map(|one| one["key"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let asks = |amounts: Value| container(&json!({"limits": amounts}));
    assert_eq!(tolerated(&asks(json!({"cpu": "1", "hugepages-2Mi": "2Mi"}))), Vec::<String>::new());
    assert_eq!(tolerated(&asks(json!({"nvidia.com/gpu": "1"}))), ["nvidia.com/gpu"]);
    assert_eq!(tolerated(&asks(json!({"attachable.kubernetes.io/x": "1"}))), Vec::<String>::new());
    let mut own = asks(json!({"nvidia.com/gpu": "1"}));
    own["tolerations"] = json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]);
    assert_eq!(tolerated(&own), ["nvidia.com/gpu"], "once");
    let init = json!([{"name": "i", "resources": {"limits": {"vpc.amazonaws.com/efa": "1"}}}]);
    let own = json!({"containers": [], "initContainers": init});
    assert_eq!(tolerated(&own), ["vpc.amazonaws.com/efa"]);
}
