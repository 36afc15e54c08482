//! Faults of the cluster, and what is said about them.

use serde_json::{Value, json};

use super::Case;
use super::account_cases::map_roles;
use super::wording;
use super::world::{app_pod, change, controller, definition, first, object, push, set};
use crate::facts::{Answer, Facts};

/// A Node waits for a controller that is not installed any more.
pub(super) fn abandoned(facts: &mut Facts) {
    deleted(facts, "2026-01-01T11:00:00Z");
}

/// A Node waits for an absent controller, deleted at this time; it is noon.
pub(super) fn deleted(facts: &mut Facts, at: &str) {
    facts.cluster.deployments = Answer::Seen(Vec::new());
    change(
        first(&mut facts.cluster.nodes),
        json!({"metadata": {"deletionTimestamp": at, "finalizers": ["karpenter.sh/termination"]}}),
    );
}

/// A Lease, and when it was renewed.
pub(super) fn lease(name: &str, renewed: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed},
    })
}

/// A gate is open whose right the chart grants with it.
pub(super) fn open_gate(facts: &mut Facts) {
    set(facts, "FEATURE_GATES", "PodDeletionCostManagement=true");
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]});
    first(&mut facts.cluster.cluster_roles).rules.get_or_insert_default().push(object(rule));
}

pub(super) const CASES: &[Case] = &[
    ("P-15", |facts| {
        on_ours(facts, "coredns-7bf648ff5d-4qk9d");
        on_ours(facts, "coredns-7bf648ff5d-zt6xm");
    }),
    ("P-24", |facts| on_ours(facts, "karpenter-1")),
    ("P-25", |facts| facts.cluster.flow_schemas = Answer::Seen(Vec::new())),
    ("P-26", |facts| {
        facts.cluster.deployments = Answer::Seen(Vec::new());
        change(
            first(&mut facts.cluster.node_classes),
            json!({"metadata": {
                "deletionTimestamp": "2026-01-01T11:00:00Z", "finalizers": ["karpenter.k8s.aws/termination"],
            }}),
        );
    }),
    ("P-29", |facts| facts.account.pod_identity = Answer::Seen(None)),
    ("D-01", |facts| set(facts, "LOG_LEVEL", "error")),
    ("D-47", |facts| {
        open_gate(facts);
        // Of one pod alone.
        let rules = first(&mut facts.cluster.cluster_roles).rules.as_mut().unwrap();
        rules.last_mut().unwrap().resource_names = Some(vec!["one".to_owned()]);
    }),
    ("D-47", |facts| {
        set(facts, "SCHEDULER_CONFIG", "podTopologySpread: {}");
        facts.cluster.cluster_role_bindings = Answer::Seen(Vec::new());
    }),
    ("D-47", |facts| {
        set(facts, "FEATURE_GATES", "NodeRepair=true");
        set(facts, "AWS_FEATURE_GATES", "RebootForRepair=true");
        push(
            &mut facts.account.rights,
            json!({
                "role": "arn:aws:iam::123456789012:role/demo-karpenter", "action": "ec2:RebootInstances",
                "resource": "arn:aws:ec2:us-west-2:123456789012:instance/i-0123456789abcdef0", "allowed": false,
            }),
        );
    }),
    ("D-05", |facts| {
        let overlays = Some("nodeoverlays.karpenter.sh");
        facts.cluster.definitions.as_mut().unwrap().retain(|crd| crd.metadata.name.as_deref() != overlays);
        set(facts, "FEATURE_GATES", "ReservedCapacity=true,NodeOverlay=true");
    }),
    ("D-05", |facts| {
        set(facts, "FEATURE_GATES", "ReservedCapacity=true,CapacityBuffer=true");
        let crd = definition(facts, "capacitybuffers.autoscaling.x-k8s.io");
        let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        schema.properties.as_mut().unwrap().remove("spec");
    }),
    ("D-46", |facts| {
        let crd = definition(facts, "nodepools.karpenter.sh");
        let schema = crd.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
        let of_spec = schema.properties.as_mut().unwrap().get_mut("spec").unwrap();
        let of_disruption = of_spec.properties.as_mut().unwrap().get_mut("disruption").unwrap();
        let policy = of_disruption.properties.as_mut().unwrap().get_mut("consolidationPolicy").unwrap();
        policy.enum_ = None;
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        push(
            &mut facts.cluster.node_pools,
            json!({
                "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "newer"},
                "spec": {
                    "disruption": {"consolidateAfter": "0s", "consolidationPolicy": "Sometimes"},
                    "template": {"spec": {"requirements": [], "nodeClassRef": class}},
                },
            }),
        );
    }),
    ("D-06", |facts| {
        let second = Some("ip-10-0-2-10.us-west-2.compute.internal");
        facts.cluster.nodes.as_mut().unwrap().retain(|node| node.metadata.name.as_deref() != second);
    }),
    ("D-07", |facts| {
        let pods = facts.cluster.pods.as_mut().unwrap();
        let pod = pods.iter_mut().find(|pod| pod.metadata.name.as_deref() == Some("karpenter-1")).unwrap();
        let status = json!({
            "name": "controller", "image": "ghcr.io/karpenter-rs/karpenter:9", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        });
        change(pod, json!({"status": {"phase": "Pending", "containerStatuses": [status]}}));
    }),
    ("D-09", |facts| {
        change(
            definition(facts, "nodepools.karpenter.sh"),
            json!({"metadata": {"annotations": {"meta.helm.sh/release-name": "karpenter"}}}),
        );
    }),
    ("D-09", |facts| {
        for crd in facts.cluster.definitions.as_mut().unwrap() {
            crd.metadata.labels = None;
            crd.metadata.annotations = None;
        }
    }),
    ("D-10", abandoned),
    ("D-10", |facts| {
        abandoned(facts);
        push(&mut facts.cluster.leases, lease("karpenter-leader-election", "2026-01-01T11:54:00Z"));
        push(&mut facts.cluster.leases, lease("another", "2026-01-01T11:59:55Z"));
    }),
    ("D-11", |facts| {
        change(
            first(&mut facts.cluster.node_pools),
            json!({"spec": {"template": {"spec": {"requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m1.small", "m5.large"]},
            ]}}}}),
        );
    }),
    ("D-12", |facts| {
        let pod = controller(facts).spec.as_mut().unwrap().template.spec.as_mut().unwrap();
        pod.containers[0].image = Some("public.ecr.aws/karpenter/controller:v0.5.3".to_owned());
    }),
    ("D-13", |facts| {
        let mut pod = app_pod("silent");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        push(&mut facts.cluster.pods, pod);
    }),
    ("D-14", |facts| daemon_set(facts, "aws-node", json!([{"name": "ENABLE_POD_ENI", "value": "true"}]))),
    ("D-15", |facts| {
        push(
            &mut facts.cluster.volume_claims,
            json!({
                "metadata": {"name": "data", "namespace": "shop"},
                "spec": {"storageClassName": "gp2", "accessModes": ["ReadWriteOnce"]},
                "status": {"phase": "Pending"},
            }),
        );
    }),
    ("D-15", |facts| {
        push(
            &mut facts.cluster.volumes,
            json!({"metadata": {"name": "v"}, "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}}),
        );
    }),
    ("D-16", |facts| daemon_set(facts, "ebs-csi-node", json!([]))),
    ("D-17", |facts| {
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"kubelet": {"maxPods": 110}}}));
    }),
    ("D-17", |facts| {
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"kubelet": {"maxPods": 110}}}));
        let nodes = facts.cluster.nodes.as_mut().unwrap();
        nodes
            .last_mut()
            .unwrap()
            .metadata
            .labels
            .as_mut()
            .unwrap()
            .remove("node.kubernetes.io/instance-type");
    }),
    ("D-19", |facts| facts.cluster.config_maps = Answer::Seen(Vec::new())),
    ("D-21", |facts| {
        let entries = facts.account.access_entries.as_mut().unwrap();
        for entry in entries.iter_mut() {
            "EC2_LINUX".clone_into(&mut entry.kind);
        }
    }),
    ("D-21", |facts| {
        // As eksctl writes it: the groups of an entry stand before its role.
        facts.account.access_entries.as_mut().unwrap().retain(|entry| entry.kind == "EC2_LINUX");
        let of = |role: &str, group: &str| {
            format!(
                "- groups:\n  - {group}\n  rolearn: arn:aws:iam::123456789012:role/{role}\n  username: n\n"
            )
        };
        let roles = of("WindowsNodes", "system:nodes") + &of("Others", "eks:kube-proxy-windows");
        map_roles(facts, &roles);
    }),
    ("D-26", |facts| {
        push(&mut facts.cluster.budgets, budget("web", 0, 3, 3));
    }),
    ("D-26", |facts| {
        push(&mut facts.cluster.budgets, budget("one", 1, 1, 2));
        push(&mut facts.cluster.budgets, budget("two", 1, 1, 2));
    }),
    ("D-26", |facts| {
        push(&mut facts.cluster.budgets, budget("one", 1, 1, 2));
        let mut everything = budget("everything", 1, 1, 2);
        everything["spec"]["selector"] = json!({});
        push(&mut facts.cluster.budgets, everything);
    }),
    ("D-27", |facts| {
        let mut pod = app_pod("precious");
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        push(&mut facts.cluster.pods, pod);
    }),
    ("D-30", |facts| {
        let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
        node.metadata.labels.as_mut().unwrap().remove("karpenter.sh/initialized");
    }),
    ("D-32", |facts| {
        let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
        change(
            node,
            json!({"status": {"conditions": [
                {"type": "Ready", "status": "False", "message": "container runtime network not ready: cni plugin not initialized"},
            ]}}),
        );
    }),
    ("D-36", |facts| {
        let variables = json!([{"name": "ENABLE_REBALANCE_DRAINING", "value": "true"}]);
        daemon_set(facts, "aws-node-termination-handler", variables);
    }),
    ("D-37", |facts| condition(facts, "ValidationSucceeded", "UnauthorizedOperation", "not allowed")),
    ("D-40", |facts| {
        let labels = json!({"app": "web"});
        push(
            &mut facts.cluster.deployments,
            json!({
                "metadata": {"name": "web", "namespace": "shop"},
                "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [{"name": "web", "image": "web"}],
                        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}},
                        ]}},
                    },
                }},
            }),
        );
    }),
    ("D-41", |facts| {
        change(
            facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap(),
            json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "us-west-2a"}}}),
        );
        let zones = facts.account.subnets.as_mut().unwrap();
        zones.push(crate::facts::Subnet {
            zone: "us-west-2b".to_owned(),
            id: "subnet-2".to_owned(),
            ..zones[0].clone()
        });
        for name in ["spread-1", "spread-2"] {
            let mut pod = app_pod(name);
            pod["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "spread", "uid": "s"}]);
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            }]);
            push(&mut facts.cluster.pods, pod);
        }
    }),
    ("D-42", |facts| {
        push(
            &mut facts.cluster.pods,
            json!({
                "metadata": {"name": "agent-x", "namespace": "shop", "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"},
                ]},
                "spec": {"containers": [{"name": "agent", "image": "agent"}]},
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 1 Insufficient cpu."},
                ]},
            }),
        );
    }),
    ("D-43", |facts| {
        change(
            first(&mut facts.cluster.node_classes),
            json!({"spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]}}),
        );
    }),
    ("D-45", |facts| {
        change(
            first(&mut facts.cluster.node_classes),
            json!({"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}}),
        );
    }),
];

/// One text for each check of what was said, as its source writes it.
pub(super) const REPORTS: &[Case] = &[
    ("P-2", |facts| log(facts, "LimitExceeded: Cannot exceed quota for PolicySize: 6144")),
    ("P-4", |facts| {
        log(
            facts,
            "is not authorized to perform: ec2:RunInstances with an explicit deny in a permissions boundary",
        );
    }),
    ("P-13", |facts| {
        log(facts, "Post \"https://ec2.us-west-2.amazonaws.com/\": dial tcp 10.0.0.1:443: i/o timeout");
    }),
    ("P-19", |facts| log(facts, "UnauthorizedOperation: with an explicit deny in a service control policy")),
    ("P-22", |facts| {
        event(facts, "NodeClaim", "LaunchFailed", "VcpuLimitExceeded: You have requested more vCPU capacity");
    }),
    ("P-23", |facts| {
        log(
            facts,
            "PendingVerification: Your request for accessing resources in this region is being validated",
        );
    }),
    ("D-02", |facts| {
        without_spot_role(facts);
        log(
            facts,
            "AuthFailure.ServiceLinkedRoleCreationNotPermitted: The provided credentials do not have permission",
        );
    }),
    ("D-03", |facts| log(facts, "dial tcp: lookup sts.us-west-2.amazonaws.com: i/o timeout")),
    // Texts of the SDK about names that cannot be looked up and about addresses that refuse are in `tests/it`.
    ("P-13", |facts| {
        log(
            facts,
            "cannot DescribeCluster `demo`: dispatch failure: timeout: client error (Connect): HTTP connect timeout occurred after 5s: timed out",
        );
    }),
    ("D-38", |facts| {
        log(
            facts,
            "cannot GetProducts `AmazonEC2`: dispatch failure: timeout: client error (Connect): HTTP connect timeout occurred after 5s: timed out",
        );
    }),
    ("D-08", |facts| {
        event(facts, "Pod", "Failed", "failed to pull public.ecr.aws/karpenter/controller: 403 Forbidden");
    }),
    ("D-20", |facts| {
        event(
            facts,
            "Pod",
            "Failed",
            "no matching manifest for windows/amd64 10.0.17763 in the manifest list entries",
        );
    }),
    ("D-22", |facts| {
        event(
            facts,
            "NodeClaim",
            "FailedConsistencyCheck",
            "expected 130.6Gi of resource memory, but found 128Gi (98.0% of expected)",
        );
    }),
    ("D-23", |facts| {
        event(
            facts,
            "Pod",
            "FailedScheduling",
            "unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone",
        );
    }),
    ("D-24", |facts| {
        event(
            facts,
            "Pod",
            "FailedScheduling",
            "no instance type met the scheduling requirements or had a required offering",
        );
    }),
    ("D-23", |facts| event(facts, "Pod", "FailedScheduling", &wording::beyond_the_zone())),
    ("D-24", |facts| event(facts, "Pod", "FailedScheduling", &wording::too_large())),
    ("D-24", |facts| event(facts, "Pod", "FailedScheduling", &wording::volume_elsewhere())),
    ("D-28", |facts| event(facts, "Node", "Unconsolidatable", "Can't replace with a cheaper node")),
    ("D-29", |facts| log(facts, "InvalidBlockDeviceMapping: Invalid device name /dev/xvdx")),
    ("D-31", |facts| {
        condition(facts, "InstanceReady", "Launch", "Client.InternalError: Client error on launch");
    }),
    ("D-34", |facts| log(facts, "No entry for m9g.large in /etc/eks/eni-max-pods.txt")),
    ("D-38", |facts| {
        log(facts, "updating on-demand pricing, context deadline: timeout, using existing pricing data");
    }),
    ("D-38", |facts| log(facts, "on-demand prices are estimates: there is no price list to ask")),
    ("D-39", |facts| {
        log(facts, "AWS.SimpleQueueService.NonExistentQueue: The specified queue does not exist");
    }),
];

/// The account has no service-linked role for spot, and the pools need none, so that it matters to no other check.
pub(super) fn without_spot_role(facts: &mut Facts) {
    facts.account.spot_role = Answer::Seen(false);
    let only = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    change(
        first(&mut facts.cluster.node_pools),
        json!({"spec": {"template": {"spec": {"requirements": only}}}}),
    );
}

pub(super) fn log(facts: &mut Facts, line: &str) {
    facts.cluster.log.as_mut().unwrap().push(line.to_owned());
}

fn event(facts: &mut Facts, kind: &str, reason: &str, message: &str) {
    let value = json!({
        "metadata": {"name": "e", "namespace": "shop"},
        "involvedObject": {"kind": kind, "name": "x"},
        "reason": reason, "message": message, "type": "Warning",
    });
    push(&mut facts.cluster.events, value);
}

fn condition(facts: &mut Facts, kind: &str, reason: &str, message: &str) {
    change(
        first(&mut facts.cluster.node_classes),
        json!({"status": {"conditions": [{
            "type": kind, "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T11:00:00Z",
        }]}}),
    );
}

fn on_ours(facts: &mut Facts, pod: &str) {
    let pods = facts.cluster.pods.as_mut().unwrap();
    let pod = pods.iter_mut().find(|found| found.metadata.name.as_deref() == Some(pod)).unwrap();
    change(
        pod,
        json!({"spec": {"nodeName": "ours-1", "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
        ]}}),
    );
}

pub(super) fn daemon_set(facts: &mut Facts, name: &str, environment: Value) {
    facts.cluster.daemon_sets.as_mut().unwrap().retain(|set| set.metadata.name.as_deref() != Some(name));
    let value = json!({
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {},
            "template": {"spec": {"containers": [{"name": name, "env": environment}]}},
        },
    });
    push(&mut facts.cluster.daemon_sets, value);
}

fn budget(name: &str, allowed: i32, desired: i32, expected: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "disruptionsAllowed": allowed, "desiredHealthy": desired, "expectedPods": expected,
            "currentHealthy": expected,
        },
    })
}
