//! Objects drawn by seed: right, odd and wrong in the fields that are read, each unlike the others.

use fastrand::Rng;
use serde_json::{Value, json};

/// Forms of amounts, right and wrong ones.
const AMOUNTS: [&str; 28] = [
    "1", "2", "500m", "1.5", "1Gi", "1500Mi", "1G", "1e3", "1E3", "1e-3", "+1", ".5", "5.", "1k", "1Ki", "0",
    "100u", "5n", "0.1m", "12P", "-1", "1K", "1GB", "1 Gi", "abc", "", "1e1.5", "1.5.2",
];
const RESOURCES: [&str; 7] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "nvidia.com/gpu",
    "hugepages-2Mi",
    "gpu",
    "kubernetes.io/batteries",
];
const KEYS: [&str; 6] =
    ["topology.kubernetes.io/zone", "kubernetes.io/hostname", "app", "tier", "a b", "example.com/"];
const VALUES: [&str; 5] = ["web", "a", "", "b_c.d", "no spaces"];
const CLASSES: [&str; 4] = ["sandbox", "plain", "picky", "missing"];
const PRIORITIES: [&str; 5] = ["high", "late", "system-node-critical", "missing", "Not a name"];

/// Returns true in `percent` of a hundred cases.
fn happens(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

/// Returns one of some values; the first half is drawn more often.
fn one<'a, T>(rng: &mut Rng, values: &'a [T]) -> &'a T {
    let usual = values.len().div_ceil(2);
    let most = if happens(rng, 96) { usual } else { values.len() };
    &values[rng.usize(0..most)]
}

/// A text of a list in which the last one is wrong.
fn word(rng: &mut Rng, values: &[&str]) -> Value {
    json!(one(rng, values))
}

/// Sets a field in `percent` of a hundred cases.
fn maybe(
    rng: &mut Rng,
    percent: u32,
    object: &mut Value,
    field: &str,
    value: impl FnOnce(&mut Rng) -> Value,
) {
    if happens(rng, percent) {
        object[field] = value(rng);
    }
}

/// An object of any kind; its name is unlike that of every other number.
pub(super) fn object(number: u64, rng: &mut Rng) -> Value {
    let mut drawn = match rng.u32(0..20) {
        0..=7 => json!({"apiVersion": "v1", "kind": "Pod", "spec": pod(rng)}),
        8 | 9 => deployment(rng),
        10 if rng.bool() => cron_job(rng),
        10 => job(rng),
        11 => budget(rng),
        12 => limit_range(rng),
        13 => claim(rng),
        14 => class(rng),
        15..=17 => pool(rng),
        _ => node_class(rng),
    };
    drawn["metadata"]["name"] = json!(format!("drawn-{number}"));
    if ["Pod", "PersistentVolumeClaim"].contains(&drawn["kind"].as_str().unwrap_or_default()) {
        drawn["metadata"]["namespace"] = json!(["default", "limited", "ranged"][rng.usize(0..3)]);
    }
    maybe(rng, 30, &mut drawn["metadata"], "labels", labels);
    if happens(rng, 4) {
        let field = *one(rng, &["lables", "weigth", "spec", "nodeselector"]);
        let at = if happens(rng, 50) { "metadata" } else { "spec" };
        drawn[at][field] = json!({"a": "b"});
    }
    if happens(rng, 3) {
        drawn["metadata"]["name"] = word(rng, &["with.dot", "Capital", "under_score", "-dash", ""]);
    }
    drawn
}

fn labels(rng: &mut Rng) -> Value {
    let mut labels = json!({});
    for _ in 0..rng.usize(1..3) {
        labels[*one(rng, &KEYS)] = word(rng, &VALUES);
    }
    labels
}

fn amounts(rng: &mut Rng) -> Value {
    let mut amounts = json!({});
    for _ in 0..rng.usize(1..3) {
        let written = *one(rng, &AMOUNTS);
        let number = written.parse::<u32>().ok().filter(|_| rng.bool());
        amounts[*one(rng, &RESOURCES)] = number.map_or_else(|| json!(written), |number| json!(number));
    }
    amounts
}

fn requirements(rng: &mut Rng) -> Value {
    let mut both = json!({});
    maybe(rng, 70, &mut both, "requests", amounts);
    maybe(rng, 50, &mut both, "limits", amounts);
    if happens(rng, 30) && both["requests"].is_object() {
        both["limits"] = both["requests"].clone();
    }
    both
}

fn container(name: &str, rng: &mut Rng) -> Value {
    let mut drawn = json!({"name": name, "image": "none"});
    maybe(rng, 70, &mut drawn, "resources", requirements);
    maybe(rng, 30, &mut drawn, "ports", |rng| {
        let mut port = json!({"containerPort": one(rng, &[80, 8080, 443, 0, 70_000])});
        maybe(rng, 40, &mut port, "hostPort", |rng| json!(one(rng, &[80, 8080, 0, 70_000])));
        maybe(rng, 20, &mut port, "protocol", |rng| word(rng, &["TCP", "UDP", "SCTP", "HTTP"]));
        maybe(rng, 20, &mut port, "name", |rng| {
            word(rng, &["http", "web-1", "--", "a-name-that-is-too-long"])
        });
        json!([port])
    });
    maybe(rng, 5, &mut drawn, "livenessProbe", |rng| {
        one(rng, &[json!({"exec": {"command": ["x"]}}), json!({"tcpSocket": {"port": 80}}), json!({})])
            .clone()
    });
    maybe(rng, 3, &mut drawn, "image", |rng| word(rng, &["", " x"]));
    maybe(rng, 5, &mut drawn, "imagePullPolicy", |rng| word(rng, &["Always", "Never", "Sometimes"]));
    drawn
}

fn pod(rng: &mut Rng) -> Value {
    let containers: Vec<Value> =
        (0..rng.usize(1..3)).map(|index| container(&format!("c{index}"), rng)).collect();
    let mut drawn = json!({"containers": containers});
    maybe(rng, 30, &mut drawn, "initContainers", |rng| {
        let mut init = container("i", rng);
        maybe(rng, 50, &mut init, "restartPolicy", |rng| word(rng, &["Always", "Always", "Sometimes"]));
        json!([init])
    });
    maybe(rng, 25, &mut drawn, "hostNetwork", |_| json!(true));
    maybe(rng, 20, &mut drawn, "resources", |rng| {
        let mut both = json!({});
        for field in ["requests", "limits"] {
            maybe(rng, 60, &mut both, field, |rng| {
                let resource = *one(rng, &["cpu", "memory", "ephemeral-storage"]);
                json!({resource: word(rng, &["4", "8Gi", "1", "500m", "-1", "x"])})
            });
        }
        both
    });
    maybe(rng, 20, &mut drawn, "runtimeClassName", |rng| word(rng, &CLASSES));
    maybe(rng, 20, &mut drawn, "priorityClassName", |rng| word(rng, &PRIORITIES));
    maybe(rng, 3, &mut drawn, "preemptionPolicy", |rng| {
        word(rng, &["PreemptLowerPriority", "Never", "Often"])
    });
    maybe(rng, 3, &mut drawn, "dnsPolicy", |rng| word(rng, &["ClusterFirst", "Default", "None"]));
    maybe(rng, 3, &mut drawn, "resourceClaims", |rng| {
        json!([one(
            rng,
            &[json!({"name": "gpu", "resourceClaimTemplateName": "gpu"}), json!({"name": "gpu"})]
        )])
    });
    maybe(rng, 3, &mut drawn, "overhead", |_| json!({"cpu": "250m"}));
    maybe(rng, 3, &mut drawn, "priority", |rng| json!(one(rng, &[7, 1000, 1])));
    maybe(rng, 20, &mut drawn, "nodeSelector", labels);
    maybe(rng, 25, &mut drawn, "tolerations", |rng| json!([toleration(rng)]));
    maybe(rng, 25, &mut drawn, "topologySpreadConstraints", |rng| {
        (0..rng.usize(1..3)).map(|_| spread(rng)).collect()
    });
    maybe(rng, 30, &mut drawn, "affinity", affinity);
    maybe(rng, 8, &mut drawn, "schedulingGates", |rng| {
        (0..rng.usize(1..3)).map(|_| json!({"name": one(rng, &["a/wait", "wait", "a b"])})).collect()
    });
    maybe(rng, 10, &mut drawn, "volumes", |rng| {
        let mut template = json!({"spec": claim_spec(rng)});
        maybe(rng, 10, &mut template, "spec", |_| json!({}));
        json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}])
    });
    maybe(rng, 5, &mut drawn, "terminationGracePeriodSeconds", |rng| json!(one(rng, &[0, 30, -1])));
    maybe(rng, 5, &mut drawn, "restartPolicy", |rng| word(rng, &["Always", "Never", "OnFailure", "Often"]));
    maybe(rng, 2, &mut drawn, "nodeName", |_| json!("n1"));
    drawn
}

fn toleration(rng: &mut Rng) -> Value {
    let mut drawn = json!({});
    maybe(rng, 80, &mut drawn, "key", |rng| word(rng, &KEYS));
    maybe(rng, 70, &mut drawn, "operator", |rng| word(rng, &["Exists", "Equal", "Is"]));
    maybe(rng, 30, &mut drawn, "value", |rng| word(rng, &VALUES));
    maybe(rng, 60, &mut drawn, "effect", |rng| {
        word(rng, &["NoExecute", "NoSchedule", "PreferNoSchedule", "Never"])
    });
    maybe(rng, 20, &mut drawn, "tolerationSeconds", |_| json!(60));
    drawn
}

fn selector(rng: &mut Rng) -> Value {
    let mut drawn = json!({});
    maybe(rng, 70, &mut drawn, "matchLabels", labels);
    maybe(rng, 30, &mut drawn, "matchExpressions", |rng| {
        json!([expression(rng, &["In", "NotIn", "Exists", "DoesNotExist", "Gt"])])
    });
    drawn
}

fn expression(rng: &mut Rng, operators: &[&str]) -> Value {
    let mut drawn = json!({"key": one(rng, &KEYS), "operator": one(rng, operators)});
    let needs = ["In", "NotIn", "Gt", "Lt"].iter().any(|one| drawn["operator"] == *one);
    if happens(rng, if needs { 95 } else { 5 }) {
        drawn["values"] = (0..rng.usize(1..3)).map(|_| word(rng, &["1", "2", "a", "no spaces"])).collect();
    }
    drawn
}

fn spread(rng: &mut Rng) -> Value {
    let mut drawn = json!({
        "maxSkew": one(rng, &[1, 2, 0, -1]), "topologyKey": one(rng, &KEYS),
        "whenUnsatisfiable": one(rng, &["DoNotSchedule", "ScheduleAnyway", "Never"]),
    });
    maybe(rng, 80, &mut drawn, "labelSelector", selector);
    maybe(rng, 20, &mut drawn, "minDomains", |rng| json!(one(rng, &[1, 3, 0])));
    maybe(rng, 20, &mut drawn, "matchLabelKeys", |rng| json!([one(rng, &["tier", "app", "a b"])]));
    maybe(rng, 15, &mut drawn, "nodeAffinityPolicy", |rng| word(rng, &["Honor", "Ignore", "Obey"]));
    maybe(rng, 15, &mut drawn, "nodeTaintsPolicy", |rng| word(rng, &["Honor", "Ignore", "Obey"]));
    drawn
}

fn affinity(rng: &mut Rng) -> Value {
    let mut drawn = json!({});
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Is"];
    maybe(rng, 50, &mut drawn, "nodeAffinity", |rng| {
        let terms: Vec<Value> = (0..rng.usize(0..3))
            .map(|_| json!({"matchExpressions": [expression(rng, &operators)]}))
            .collect();
        let mut drawn = json!({});
        maybe(
            rng,
            60,
            &mut drawn,
            "requiredDuringSchedulingIgnoredDuringExecution",
            |_| json!({"nodeSelectorTerms": terms}),
        );
        maybe(rng, 50, &mut drawn, "preferredDuringSchedulingIgnoredDuringExecution", |rng| {
            let term = json!({"matchExpressions": [expression(rng, &operators)]});
            json!([{"weight": one(rng, &[1, 100, 0, 101]), "preference": term}])
        });
        drawn
    });
    for kind in ["podAffinity", "podAntiAffinity"] {
        maybe(rng, 40, &mut drawn, kind, |rng| {
            let mut drawn = json!({});
            maybe(rng, 60, &mut drawn, "requiredDuringSchedulingIgnoredDuringExecution", |rng| {
                json!([pod_term(rng)])
            });
            maybe(
                rng,
                40,
                &mut drawn,
                "preferredDuringSchedulingIgnoredDuringExecution",
                |rng| json!([{"weight": one(rng, &[1, 100, 0]), "podAffinityTerm": pod_term(rng)}]),
            );
            drawn
        });
    }
    drawn
}

fn pod_term(rng: &mut Rng) -> Value {
    let mut drawn = json!({});
    maybe(rng, 95, &mut drawn, "topologyKey", |rng| word(rng, &KEYS));
    maybe(rng, 85, &mut drawn, "labelSelector", selector);
    maybe(rng, 20, &mut drawn, "matchLabelKeys", |rng| json!([one(rng, &["tier", "app"])]));
    maybe(rng, 20, &mut drawn, "mismatchLabelKeys", |rng| json!([one(rng, &["tier", "team"])]));
    maybe(rng, 10, &mut drawn, "namespaces", |rng| json!([one(rng, &["default", "other", "No"])]));
    maybe(rng, 10, &mut drawn, "namespaceSelector", selector);
    drawn
}

fn template(rng: &mut Rng) -> Value {
    let mut drawn = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod(rng)});
    maybe(rng, 5, &mut drawn, "metadata", |rng| json!({"labels": labels(rng)}));
    drawn
}

fn deployment(rng: &mut Rng) -> Value {
    let kind = *one(rng, &["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]);
    let mut drawn = json!({
        "apiVersion": "apps/v1", "kind": kind,
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(rng)},
    });
    if kind != "DaemonSet" {
        maybe(rng, 60, &mut drawn["spec"], "replicas", |rng| json!(one(rng, &[0, 3, -1])));
    }
    maybe(rng, 8, &mut drawn["spec"], "selector", selector);
    drawn
}

fn job(rng: &mut Rng) -> Value {
    let mut template = template(rng);
    template["spec"]["restartPolicy"] = word(rng, &["Never", "OnFailure", "Always"]);
    let mut spec = json!({"template": template});
    maybe(rng, 50, &mut spec, "parallelism", |rng| json!(one(rng, &[1, 3, 0, -1])));
    maybe(rng, 50, &mut spec, "completions", |rng| json!(one(rng, &[1, 2, 0, -1])));
    maybe(rng, 30, &mut spec, "completionMode", |rng| word(rng, &["Indexed", "NonIndexed", "Other"]));
    maybe(rng, 20, &mut spec, "backoffLimit", |rng| json!(one(rng, &[0, 3, -1])));
    maybe(rng, 10, &mut spec, "backoffLimitPerIndex", |rng| json!(one(rng, &[1, 3, -1])));
    maybe(rng, 20, &mut spec, "suspend", |_| json!(true));
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": spec})
}

fn cron_job(rng: &mut Rng) -> Value {
    let schedule = one(rng, &["@daily", "0 9 * * mon-fri", "*/5 * * * *", "x y", ""]);
    let mut spec = json!({"schedule": schedule, "jobTemplate": {"spec": job(rng)["spec"]}});
    maybe(rng, 20, &mut spec, "concurrencyPolicy", |rng| word(rng, &["Allow", "Forbid", "Sometimes"]));
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec})
}

fn budget(rng: &mut Rng) -> Value {
    let share = |rng: &mut Rng| {
        one(rng, &[json!(1), json!("50%"), json!(0), json!("101%"), json!("1"), json!(-1)]).clone()
    };
    let mut spec = json!({});
    maybe(rng, 50, &mut spec, "minAvailable", share);
    maybe(rng, 40, &mut spec, "maxUnavailable", share);
    maybe(rng, 80, &mut spec, "selector", selector);
    maybe(rng, 30, &mut spec, "unhealthyPodEvictionPolicy", |rng| {
        word(rng, &["AlwaysAllow", "IfHealthyBudget", "Never"])
    });
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec})
}

fn limit_range(rng: &mut Rng) -> Value {
    let mut item = json!({"type": one(rng, &["Container", "Pod", "PersistentVolumeClaim", "Node"])});
    for field in ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"] {
        maybe(rng, 35, &mut item, field, |rng| {
            let resource = *one(rng, &["cpu", "memory", "storage"]);
            json!({resource: one(rng, &["1", "2", "500m", "4", "0", "x"])})
        });
    }
    json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [item]}})
}

fn claim_spec(rng: &mut Rng) -> Value {
    let mut spec = json!({"resources": {"requests": {"storage": one(rng, &["1Gi", "5G", "0", "x"])}}});
    maybe(rng, 95, &mut spec, "accessModes", |rng| {
        json!([one(rng, &["ReadWriteOnce", "ReadWriteOncePod", "Often"])])
    });
    maybe(rng, 40, &mut spec, "storageClassName", |rng| word(rng, &["gp3", "", "Not a name"]));
    maybe(rng, 20, &mut spec, "volumeMode", |rng| word(rng, &["Block", "Filesystem", "File"]));
    spec
}

fn claim(rng: &mut Rng) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim_spec(rng)})
}

fn class(rng: &mut Rng) -> Value {
    match rng.u32(0..3) {
        0 => {
            let mut drawn = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "value": one(rng, &[1, 1_000_000_000, 1_000_000_001, -1]),
            });
            maybe(rng, 40, &mut drawn, "preemptionPolicy", |rng| {
                word(rng, &["Never", "PreemptLowerPriority", "Often"])
            });
            drawn
        }
        1 => {
            let mut drawn = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"});
            maybe(rng, 90, &mut drawn, "handler", |rng| word(rng, &["runc", "kata", "Not one"]));
            maybe(
                rng,
                40,
                &mut drawn,
                "overhead",
                |rng| json!({"podFixed": {"cpu": one(rng, &["250m", "1", "-1", "x"])}}),
            );
            maybe(
                rng,
                40,
                &mut drawn,
                "scheduling",
                |rng| json!({"nodeSelector": labels(rng), "tolerations": [toleration(rng)]}),
            );
            drawn
        }
        _ => {
            let mut drawn = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"});
            maybe(rng, 90, &mut drawn, "provisioner", |rng| word(rng, &["ebs.csi.aws.com", "a/b", "ebs"]));
            maybe(rng, 50, &mut drawn, "volumeBindingMode", |rng| {
                word(rng, &["Immediate", "WaitForFirstConsumer", "Late"])
            });
            drawn
        }
    }
}

fn pool(rng: &mut Rng) -> Value {
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Is"];
    let requirements: Vec<Value> = (0..rng.usize(0..3)).map(|_| expression(rng, &operators)).collect();
    let mut template = json!({"nodeClassRef": reference, "requirements": requirements});
    maybe(rng, 40, &mut template, "expireAfter", |rng| {
        word(rng, &["720h", "Never", "1h30m", "3 days", "30d"])
    });
    maybe(rng, 20, &mut template, "terminationGracePeriod", |rng| {
        word(rng, &["1h", "30m", "0s", "Never", "x"])
    });
    maybe(rng, 30, &mut template, "taints", |rng| {
        let mut taint =
            json!({"key": one(rng, &KEYS), "effect": one(rng, &["NoSchedule", "NoExecute", "Maybe"])});
        maybe(rng, 40, &mut taint, "value", |rng| word(rng, &VALUES));
        json!([taint])
    });
    maybe(rng, 5, &mut template, "requirements", |_| Value::Null);
    maybe(rng, 5, &mut template, "nodeClassRef", |rng| {
        one(rng, &[json!({}), json!({"name": "a"}), Value::Null]).clone()
    });
    let mut spec = json!({"template": {"spec": template}});
    maybe(rng, 30, &mut spec["template"], "metadata", |rng| json!({"labels": labels(rng)}));
    maybe(rng, 30, &mut spec, "weight", |rng| {
        one(rng, &[json!(1), json!(100), json!(0), json!(101), json!("1")]).clone()
    });
    maybe(rng, 30, &mut spec, "limits", amounts);
    maybe(rng, 10, &mut spec, "replicas", |rng| json!(one(rng, &[0, 3, -1])));
    maybe(rng, 40, &mut spec, "disruption", |rng| {
        let mut drawn = json!({});
        maybe(rng, 80, &mut drawn, "consolidateAfter", |rng| word(rng, &["0s", "Never", "30s", "soon"]));
        maybe(rng, 50, &mut drawn, "consolidationPolicy", |rng| {
            word(rng, &["WhenEmpty", "WhenEmptyOrUnderutilized", "Always"])
        });
        maybe(rng, 60, &mut drawn, "budgets", |rng| {
            let mut budget = json!({"nodes": one(rng, &["1", "10%", "101%", "-1"])});
            maybe(rng, 40, &mut budget, "schedule", |rng| word(rng, &["@daily", "0 9 * * mon-fri", "x y"]));
            maybe(rng, 40, &mut budget, "duration", |rng| word(rng, &["8h", "30m", "30s", "x"]));
            maybe(rng, 20, &mut budget, "reasons", |rng| json!([one(rng, &["Empty", "Drifted", "Rain"])]));
            json!([budget])
        });
        drawn
    });
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": spec})
}

fn node_class(rng: &mut Rng) -> Value {
    let terms = |rng: &mut Rng| {
        json!([one(
            rng,
            &[
                json!({"tags": {"karpenter.sh/discovery": "demo"}}),
                json!({"id": "subnet-12345678"}),
                json!({"id": "sg-12345678"}),
                json!({"id": "x"}),
                json!({}),
                json!({"tags": {"": "a"}}),
            ]
        )])
    };
    let mut spec = json!({"amiSelectorTerms": [one(rng, &[
        json!({"alias": "al2023@latest"}), json!({"alias": "bottlerocket@v1.2.3"}), json!({"id": "ami-1"}), json!({"alias": "x"}), json!({})])]});
    maybe(rng, 95, &mut spec, "subnetSelectorTerms", terms);
    maybe(rng, 95, &mut spec, "securityGroupSelectorTerms", terms);
    maybe(rng, 85, &mut spec, "role", |rng| word(rng, &["nodes", "KarpenterNodeRole-demo", ""]));
    maybe(rng, 10, &mut spec, "instanceProfile", |rng| word(rng, &["nodes", ""]));
    maybe(rng, 30, &mut spec, "amiFamily", |rng| word(rng, &["AL2023", "Bottlerocket", "Custom", "Debian"]));
    maybe(rng, 30, &mut spec, "kubelet", |rng| {
        let mut drawn = json!({});
        maybe(rng, 40, &mut drawn, "maxPods", |rng| json!(one(rng, &[10, 110, -1])));
        maybe(
            rng,
            40,
            &mut drawn,
            "evictionHard",
            |rng| json!({word(rng, &["memory.available", "x"]).as_str().unwrap_or_default(): one(rng, &["5%", "100Mi", "x"])}),
        );
        maybe(rng, 30, &mut drawn, "evictionSoft", |_| json!({"memory.available": "5%"}));
        maybe(
            rng,
            30,
            &mut drawn,
            "kubeReserved",
            |rng| json!({*one(rng, &["cpu", "memory", "gpu"]): one(rng, &["1", "100Mi", "-1"])}),
        );
        drawn
    });
    maybe(rng, 30, &mut spec, "blockDeviceMappings", |rng| {
        let mut disk = json!({});
        maybe(rng, 80, &mut disk, "volumeSize", |rng| word(rng, &["100Gi", "20G", "1Ti", "64Mi", "100"]));
        maybe(rng, 50, &mut disk, "volumeType", |rng| word(rng, &["gp3", "io2", "gp4"]));
        maybe(rng, 20, &mut disk, "iops", |rng| json!(one(rng, &[3000, 100, 1_000_000])));
        json!([{"deviceName": "/dev/xvda", "ebs": disk}])
    });
    maybe(
        rng,
        20,
        &mut spec,
        "tags",
        |rng| json!({word(rng, &["team", "a", "karpenter.sh/nodepool", "kubernetes.io/cluster/demo"]).as_str().unwrap_or_default(): "x"}),
    );
    maybe(
        rng,
        20,
        &mut spec,
        "metadataOptions",
        |rng| json!({"httpTokens": one(rng, &["required", "optional", "none"]), "httpPutResponseHopLimit": one(rng, &[1, 2, 65])}),
    );
    json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": spec})
}
