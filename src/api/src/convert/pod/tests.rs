//! Pods field by field.

use karpenter_model::{NodeInclusion, Operator, WhenUnsatisfiable};
use serde_json::{Value, json};

use super::*;

fn read_pod(patch: &Value) -> Result<Pod, Error> {
    let mut value = json!({
        "metadata": {"namespace": "ns", "name": "web-0", "uid": "u"},
        "spec": {"containers": [{"name": "c"}]},
    });
    crate::cases::merge(&mut value, patch);
    pod(&serde_json::from_value(value).unwrap())
}

#[test]
fn least_pod() {
    let pod = read_pod(&json!({})).unwrap();
    let mut expected = Pod::pending(PodKey::new("ns", "web-0"), "u", jiff::Timestamp::UNIX_EPOCH);
    expected.owner = PodOwner::None;
    expected.unschedulable = false;
    assert_eq!(pod, expected);
}

#[test]
fn owners_are_told_apart_by_api_version_and_kind() {
    let cases = [
        ("apps/v1", "DaemonSet", PodOwner::DaemonSet),
        ("extensions/v1", "DaemonSet", PodOwner::Other),
        ("apps/v1", "StatefulSet", PodOwner::StatefulSet),
        ("apps/v1", "ReplicaSet", PodOwner::ReplicaSet),
        ("batch/v1", "Job", PodOwner::Job),
        ("v1", "Node", PodOwner::Mirror),
        ("argoproj.io/v1", "Workflow", PodOwner::Other),
    ];
    for (api_version, kind, owner) in cases {
        let reference = json!({"apiVersion": api_version, "kind": kind, "name": "o", "uid": "o"});
        let pod = read_pod(&json!({"metadata": {"ownerReferences": [reference]}})).unwrap();
        assert_eq!(pod.owner, owner, "{api_version} {kind}");
    }
}

#[test]
fn the_controlling_owner_is_the_workload() {
    let reference = |uid, controller| json!({"apiVersion": "v1", "kind": "K", "name": "o", "uid": uid, "controller": controller});
    let read = |references: serde_json::Value| {
        let pod = read_pod(&json!({"metadata": {"ownerReferences": references}})).unwrap();
        pod.owner_uid.as_ref().map(ToString::to_string)
    };
    assert_eq!(read(json!([reference("a", false), reference("b", true)])).as_deref(), Some("b"));
    assert_eq!(read(json!([reference("a", false)])), None);
    assert_eq!(read(json!([])), None);
}

#[test]
fn do_not_disrupt_is_true_or_a_positive_duration() {
    let invalid = |text: &str| DoNotDisrupt::Invalid(text.to_owned());
    let cases = [
        ("true", DoNotDisrupt::Always),
        ("90m", DoNotDisrupt::For(Duration::from_mins(90))),
        ("false", invalid("false")),
        ("True", invalid("True")),
        ("0s", invalid("0s")),
        ("-5m", invalid("-5m")),
        ("", invalid("")),
    ];
    for (text, expected) in cases {
        let pod = read_pod(&json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": text}}}));
        assert_eq!(pod.unwrap().do_not_disrupt, expected, "`{text}`");
    }
}

#[test]
fn status_and_life_cycle() {
    let pod = read_pod(&json!({
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:01:00Z",
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-10"},
        },
        "spec": {
            "nodeName": "",
            "priority": 7,
            "preemptionPolicy": "Never",
            "priorityClassName": "system-node-critical",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "mine",
            "resourceClaims": [{"name": "gpu"}],
        },
        "status": {
            "phase": "Running",
            "nominatedNodeName": "n",
            "startTime": "2026-01-01T00:00:30Z",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                {"type": "Ready", "status": "False"},
            ],
        },
    }))
    .unwrap();
    assert_eq!(pod.phase, PodPhase::Running);
    assert_eq!((pod.unschedulable, pod.ready, pod.critical), (true, Some(false), true));
    assert_eq!((pod.priority, pod.preempts, pod.deletion_cost), (Some(7), false, -10));
    assert_eq!(pod.grace_period, Some(Duration::from_secs(30)));
    assert_eq!(pod.node_name, None, "an empty name is no name");
    assert_eq!(pod.nominated_node.as_ref().map(karpenter_model::NodeName::as_str), Some("n"));
    assert_eq!(pod.scheduler_name, "mine");
    assert!(pod.has_resource_claims && pod.started_at.is_some() && pod.deletion.is_some());
}

#[test]
fn a_pod_is_bound_when_it_was_scheduled_and_not_when_that_failed() {
    for (status, bound) in [("True", true), ("False", false)] {
        let at = "2026-01-01T00:00:20Z";
        let pod = read_pod(&json!({"status": {
            "startTime": "2026-01-01T00:00:30Z",
            "conditions": [{"type": "PodScheduled", "status": status, "lastTransitionTime": at}],
        }}));
        assert_eq!(pod.unwrap().bound_at, bound.then(|| at.parse().unwrap()), "PodScheduled={status}");
    }
}

#[test]
fn volumes_are_claims_by_name() {
    let pod = read_pod(&json!({"spec": {"volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "config", "configMap": {"name": "c"}},
    ]}}))
    .unwrap();
    let names: Vec<&str> = pod.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["data-web-0", "web-0-scratch"]);
}

#[test]
fn tolerations_and_host_ports() {
    let pod = read_pod(&json!({"spec": {
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a", "value": "b", "effect": "NoSchedule"},
            {"key": "n", "operator": "Gt", "value": "5"},
        ],
        "containers": [{"name": "c", "ports": [
            {"containerPort": 80},
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"},
        ]}],
        "initContainers": [
            {"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 2, "hostPort": 9901}]},
        ],
    }}))
    .unwrap();
    assert_eq!(pod.tolerations[0], Toleration::everything());
    assert_eq!(pod.tolerations[1].effect, Some(Effect::NoSchedule));
    assert_eq!(pod.tolerations[2].operator, TolerationOperator::Gt);
    let ports: Vec<String> = pod.host_ports.iter().map(ToString::to_string).collect();
    assert_eq!(ports, ["0.0.0.0:8080/TCP", "10.0.0.1:53/UDP", "0.0.0.0:9901/TCP"]);
}

#[test]
fn affinities_and_spread() {
    let term =
        json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["x"]});
    let pod = read_pod(&json!({"spec": {
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "p", "operator": "Exists"}]}},
                ],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 9, "podAffinityTerm": {"topologyKey": "host", "namespaceSelector": {}}},
            ]},
        },
        "topologySpreadConstraints": [{
            "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3,
            "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["pod-template-hash"],
        }],
    }}))
    .unwrap();
    assert_eq!(pod.required_terms[0].expressions[0].operator, Operator::Gt);
    assert!(!pod.required_terms[1].fields.is_empty() && pod.required_terms[1].expressions.is_empty());
    assert_eq!(pod.preferred_terms[0].0, 5);
    assert!(pod.pod_affinity.required[0].namespaces.contains("x"));
    let anti = &pod.pod_anti_affinity.preferred[0];
    assert_eq!(
        (anti.weight, anti.term.selector.is_none(), anti.term.namespace_selector.is_some()),
        (9, true, true)
    );
    let spread = &pod.spread[0];
    assert_eq!((spread.max_skew, spread.min_domains), (2, Some(3)));
    assert_eq!(spread.when_unsatisfiable, WhenUnsatisfiable::ScheduleAnyway);
    assert_eq!(spread.node_affinity_policy, NodeInclusion::Honor, "the default");
    assert_eq!(spread.node_taints_policy, NodeInclusion::Honor);
    assert_eq!(spread.selector, None);
}

#[test]
fn an_empty_node_selector_term_is_no_alternative() {
    let terms_of = |terms: &serde_json::Value| {
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }});
        read_pod(&json!({"spec": {"affinity": affinity}})).unwrap().required_terms.clone()
    };
    let zone = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let stated = terms_of(&json!([{}, zone, {"matchExpressions": []}]));
    assert_eq!((stated.len(), stated[0].is_empty()), (1, false));
    let nothing = terms_of(&json!([{}]));
    assert!(nothing.len() == 1 && nothing[0].is_empty(), "which matches no node, unlike no terms at all");
}

#[test]
fn errors_name_pod_and_field() {
    let expressions = json!([{"key": "k", "operator": "Near"}]);
    let cases = [
        (json!({"spec": {"tolerations": [{"operator": "Some"}]}}), "spec.tolerations[0].operator"),
        (json!({"spec": {"tolerations": [{"effect": "Some"}]}}), "spec.tolerations[0].effect"),
        (
            json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 70000}]}]}}),
            "spec.containers[0].ports[0].hostPort",
        ),
        (
            json!({"spec": {"topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
            ]}}),
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
        (
            json!({"spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": [{"matchExpressions": expressions}]},
            }}}}),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator",
        ),
    ];
    for (patch, field) in cases {
        let error = read_pod(&patch).unwrap_err();
        assert_eq!((error.object.as_str(), error.field.as_str()), ("Pod `ns/web-0`", field));
    }
}

#[test]
fn empty_affinities_ask_for_nothing() {
    let plain = read_pod(&json!({"spec": {}})).unwrap();
    let none = json!([]);
    let affinities = [
        json!({}),
        json!({"nodeAffinity": {}, "podAffinity": {}, "podAntiAffinity": {}}),
        json!({
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": none},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": none},
        }),
    ];
    for affinity in affinities {
        assert_eq!(read_pod(&json!({"spec": {"affinity": affinity}})).unwrap(), plain, "{affinity}");
    }
}

#[test]
fn deletion_costs_that_are_no_integers_are_ignored() {
    let table = [
        ("-10", -10),
        ("2147483647", i32::MAX),
        ("NaN", 0),
        ("Inf", 0),
        ("1.5", 0),
        ("", 0),
        ("2147483648", 0),
    ];
    for (text, expected) in table {
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": text});
        let pod = read_pod(&json!({"metadata": {"annotations": annotations}}));
        assert_eq!(pod.unwrap().deletion_cost, expected, "`{text}`");
    }
}

#[test]
fn a_disruption_cost_that_is_no_integer_counts_nothing_and_hides_the_deletion_cost() {
    let table = [
        (None, None),
        (Some("-10"), Some(-10)),
        (Some("2147483648"), Some(0)),
        (Some("1.5"), Some(0)),
        (Some(""), Some(0)),
    ];
    for (text, expected) in table {
        let mut annotations = json!({"controller.kubernetes.io/pod-deletion-cost": "7"});
        if let Some(text) = text {
            annotations["karpenter.sh/disruption-cost"] = json!(text);
        }
        let pod = read_pod(&json!({"metadata": {"annotations": annotations}})).unwrap();
        assert_eq!((pod.disruption_cost, pod.deletion_cost), (expected, 7), "{text:?}");
        assert_eq!(pod.written_deletion_cost, Some(7));
    }
}

#[test]
fn resource_claims_are_those_named_and_those_made_for_the_pod() {
    let pod = read_pod(&json!({
        "spec": {"resourceClaims": [
            {"name": "own", "resourceClaimName": "shared"},
            {"name": "again", "resourceClaimName": "shared"},
            {"name": "made", "resourceClaimTemplateName": "t"},
            {"name": "needless", "resourceClaimTemplateName": "t"},
            {"name": "coming", "resourceClaimTemplateName": "t"},
        ]},
        "status": {"resourceClaimStatuses": [
            {"name": "made", "resourceClaimName": "pod-made-x7"},
            {"name": "needless"},
        ]},
    }))
    .unwrap();
    assert_eq!(pod.resource_claims, ["pod-made-x7", "shared"]);
}

#[test]
fn what_a_pod_takes_up_can_be_read_when_its_rules_cannot() {
    let pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "api-0", "uid": "u"},
        "spec": {
            "nodeName": "n1",
            "tolerations": [{"key": "a", "operator": "NotYetInvented"}],
            "containers": [{
                "name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}},
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.01"}],
            }],
            "initContainers": [{
                "name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 90, "hostPort": 70_000}],
            }],
        },
        "status": {"phase": "Running"},
    }))
    .unwrap();
    assert!(super::pod(&pod).is_err());
    let read = pod_without_rules(&pod).unwrap();
    assert_eq!(read.node_name, Some("n1".into()));
    assert_eq!(read.requests.amount("cpu").to_string(), "2");
    assert!(read.tolerations.is_empty() && read.host_ports.is_empty());
}
