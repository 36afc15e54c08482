//! Set-ups that are nothing out of the ordinary, and in which nothing may be called wrong: a new EKS cluster, Karpenter
//! installed as the pages say, and what users do besides.

use serde_json::{Value, json};

use super::account_cases::{by_pod_identity, by_web_identity, map_roles};
use super::cluster_cases::daemon_set;
use super::world::{
    answers, change, controller, definitions, documents, first, last, object, push, recorded, set,
};
use super::{Case, healthy};
use crate::check::Severity;
use crate::diagnose::{Health, Report, diagnose};
use crate::facts::{Answer, Facts, Objects};

/// Findings that are more than advice.
fn ills(report: &Report) -> Vec<&str> {
    let ills = report.findings.iter().filter(|finding| finding.severity > Severity::Advice);
    ills.map(|finding| finding.id).collect()
}

fn ids(facts: &Facts) -> Vec<&'static str> {
    diagnose(facts, &[]).findings.iter().map(|finding| finding.id).collect()
}

#[test]
fn a_new_eks_cluster_is_healthy() {
    let report = diagnose(&recorded(), &[]);
    assert_eq!((report.health(), &report.unseen), (Health::Healthy, &vec![]), "{:#?}", report.findings);
    // Prerequisites of Karpenter that its account lacks are reported all the same.
    assert_eq!(ids(&recorded()), ["P-16", "P-17", "P-22", "D-18"]);
}

#[test]
fn a_cluster_of_eks_auto_mode_lacks_no_definitions_of_a_controller_that_is_not_there() {
    let mut facts = recorded();
    // Those of AWS, of another release than ours, and the class that its pools refer to.
    for mut crd in karpenter_api::crd_values() {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if name == "nodepools.karpenter.sh" || name == "nodeclaims.karpenter.sh" {
            let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
            crd.pointer_mut(schema).unwrap().as_object_mut().unwrap().clear();
            push(&mut facts.cluster.definitions, crd.clone());
        }
        if name == "ec2nodeclasses.karpenter.k8s.aws" {
            crd["metadata"]["name"] = json!("nodeclasses.eks.amazonaws.com");
            push(&mut facts.cluster.definitions, crd);
        }
    }
    auto_mode(&mut facts);
    let report = diagnose(&facts, &[]);
    assert_eq!((report.health(), &report.unseen), (Health::Healthy, &vec![]), "{:#?}", report.findings);
    assert_eq!(ids(&facts), ids(&recorded()));
    // With a class of ours an installation has begun.
    push(&mut facts.cluster.definitions, karpenter_api::crd_values().remove(1));
    assert!(ids(&facts).contains(&"D-05"));
}

#[test]
fn pools_of_eks_auto_mode_launch_nothing_of_ours() {
    let mut facts = healthy();
    require(
        &mut facts,
        json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
    );
    auto_mode(&mut facts);
    facts.account.spot_role = Answer::Seen(false);
    facts.account.vcpu_quotas.as_mut().unwrap().insert("spot".to_owned(), 0);
    assert_eq!(ids(&facts), Vec::<&str>::new());
}

#[test]
fn karpenter_as_the_pages_install_it_is_healthy() {
    let mut facts = recorded();
    let mut objects = documents(include_str!("../../../recorded/eks.yaml"));
    objects.extend(documents(include_str!("../../../../../charts/tests/defaults.golden.yaml")));
    objects.extend(documents(include_str!("../../../../../docs/examples/nodepool.yaml")));
    objects.extend(definitions());
    facts.cluster = answers(&objects);
    facts.account = healthy().account;
    for subnet in facts.account.subnets.as_mut().unwrap() {
        subnet.classes = ["default".to_owned()].into();
    }
    for group in facts.account.security_groups.as_mut().unwrap() {
        group.classes = ["default".to_owned()].into();
    }
    let deployed = controller(&mut facts).clone();
    let labels = deployed.spec.unwrap().template.metadata.unwrap().labels;
    for (pod, node) in [("karpenter-a", "ip-10-0-1-10"), ("karpenter-b", "ip-10-0-2-10")] {
        push(
            &mut facts.cluster.pods,
            json!({
                "metadata": {"name": pod, "namespace": "kube-system", "labels": labels},
                "spec": {
                    "nodeName": format!("{node}.us-west-2.compute.internal"),
                    "containers": [{"name": "controller"}],
                },
                "status": {"phase": "Running"},
            }),
        );
    }
    // The pages give the queue with `--set`, which the rendered defaults are without.
    set(&mut facts, "INTERRUPTION_QUEUE", "demo");
    let report = diagnose(&facts, &[]);
    assert_eq!((report.health(), &report.unseen), (Health::Healthy, &vec![]), "{:#?}", report.findings);
    // The example follows new images.
    assert_eq!(ids(&facts), ["D-43"]);
}

/// Ordinary setups of users, and their facts.
const SETUPS: &[Case] = &[
    ("volumes of the in-tree plugin that the CSI driver serves", |facts| {
        daemon_set(facts, "ebs-csi-node", json!([]));
        push(
            &mut facts.cluster.volumes,
            json!({"metadata": {"name": "v"}, "spec": {"awsElasticBlockStore": {"volumeID": "vol-1"}}}),
        );
    }),
    ("another network than the VPC CNI, with many pods on a node", |facts| {
        facts
            .cluster
            .daemon_sets
            .as_mut()
            .unwrap()
            .retain(|set| set.metadata.name.as_deref() != Some("aws-node"));
        daemon_set(facts, "cilium", json!([]));
        crowd(facts, 110);
    }),
    ("many pods on types that have the addresses", |facts| {
        require(
            facts,
            json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.24xlarge"]}),
        );
        relabel(facts, "m5.24xlarge");
        facts.account.pods_by_type.as_mut().unwrap().insert("m5.24xlarge".to_owned(), 737);
        crowd(facts, 110);
    }),
    ("as many pods as a large can have", |facts| crowd(facts, 29)),
    ("on-demand instances only", |facts| {
        require(
            facts,
            json!({"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}),
        );
        facts.account.spot_role = Answer::Seen(false);
        facts.account.vcpu_quotas.as_mut().unwrap().insert("spot".to_owned(), 0);
    }),
    ("no pool yet", |facts| {
        facts.cluster.node_pools = Answer::Seen(Objects::default());
        facts.account.spot_role = Answer::Seen(false);
        facts.account.vcpu_quotas.as_mut().unwrap().insert("spot".to_owned(), 5);
    }),
    ("a region with a long name", |facts| {
        facts.account.region = Answer::Seen("us-isob-east-1".to_owned());
        "us-isob-east-1a".clone_into(&mut first(&mut facts.account.subnets).zone);
    }),
    ("a reservation in a zone that is not used", |facts| reserve(facts, "m5.large", "us-west-2c", 2)),
    ("a reservation that is used up", |facts| reserve(facts, "m5.large", "us-west-2a", 0)),
    ("a reservation of a type that no pool allows", |facts| {
        require(
            facts,
            json!({"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["p5.48xlarge"]}),
        );
        reserve(facts, "p5.48xlarge", "us-west-2a", 2);
    }),
    ("a termination handler that drains nothing", |facts| {
        let off = ["ENABLE_SPOT_INTERRUPTION_DRAINING", "ENABLE_SCHEDULED_EVENT_DRAINING"];
        handler(facts, &off.map(|name| (name, "false")));
    }),
    ("a termination handler that reads a queue", |facts| {
        handler(facts, &[("ENABLE_SQS_TERMINATION_DRAINING", "true"), ("ENABLE_REBALANCE_DRAINING", "true")]);
    }),
    ("a termination handler that keeps off our nodes", |facts| {
        handler(facts, &[("ENABLE_REBALANCE_DRAINING", "true")]);
        let term =
            json!({"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]});
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }});
        let set = facts.cluster.daemon_sets.as_mut().unwrap().last_mut().unwrap();
        change(set, json!({"spec": {"template": {"spec": {"affinity": affinity}}}}));
    }),
    ("no definition of what no gate switches on", |facts| {
        let optional = ["capacitybuffers.autoscaling.x-k8s.io", "nodeoverlays.karpenter.sh"];
        facts.cluster.definitions.as_mut().unwrap().retain(|crd| {
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            !optional.contains(&name)
        });
    }),
    ("the queue's name in a ConfigMap", |facts| {
        from_elsewhere(facts, json!([{"prefix": "INTERRUPTION_", "configMapRef": {"name": "settings"}}]));
        push(
            &mut facts.cluster.config_maps,
            json!({"metadata": {"name": "settings", "namespace": "karpenter"}, "data": {"QUEUE": "demo"}}),
        );
    }),
    ("a budget for every pod of a namespace", |facts| {
        push(
            &mut facts.cluster.budgets,
            json!({
                "metadata": {"name": "all", "namespace": "shop"},
                "spec": {"selector": {}, "maxUnavailable": 1},
                "status": {"disruptionsAllowed": 1, "desiredHealthy": 1, "expectedPods": 2, "currentHealthy": 2},
            }),
        );
    }),
    ("a role for this cluster and namespace only", |facts| by_pod_identity(facts, "demo", "karpenter")),
    ("a role by web identity, without the agent", |facts| {
        facts
            .cluster
            .daemon_sets
            .as_mut()
            .unwrap()
            .retain(|set| set.metadata.name.as_deref() != Some("eks-pod-identity-agent"));
        by_web_identity(facts, "karpenter");
    }),
    ("EKS Auto Mode beside a controller that is taken away for a while", |facts| {
        facts.cluster.deployments = Answer::Seen(Vec::new());
        auto_mode(facts);
        let ending = json!({"metadata": {
            "deletionTimestamp": "2026-01-01T11:00:00Z", "finalizers": ["karpenter.sh/termination"],
        }});
        change(facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap(), ending.clone());
        change(last(&mut facts.cluster.node_claims), ending);
    }),
    ("the controller and CoreDNS on nodes of EKS Auto Mode, of which one is not ready", |facts| {
        auto_mode(facts);
        for pod in facts.cluster.pods.as_mut().unwrap() {
            let labels = pod.metadata.labels.as_ref();
            if labels.is_some_and(|labels| {
                labels.contains_key("app.kubernetes.io/name")
                    || labels.get("k8s-app").is_some_and(|app| app == "kube-dns")
            }) {
                change(pod, json!({"spec": {"nodeName": "auto-1"}}));
            }
        }
        let not_ready = json!({"status": {"conditions": [
            {"type": "Ready", "status": "False", "message": "cni plugin not initialized"},
        ]}});
        let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
        change(node, not_ready);
        node.metadata.labels.as_mut().unwrap().remove("karpenter.sh/initialized");
    }),
    ("a pool of EKS Auto Mode whose class bears the name of one of ours", |facts| {
        let large = json!({
            "key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.24xlarge"],
        });
        require(facts, large);
        relabel(facts, "m5.24xlarge");
        facts.account.pods_by_type.as_mut().unwrap().insert("m5.24xlarge".to_owned(), 737);
        crowd(facts, 110);
        auto_mode(facts);
    }),
    ("a pool of EKS Auto Mode where security groups for pods are on", |facts| {
        daemon_set(facts, "aws-node", json!([{"name": "ENABLE_POD_ENI", "value": "true"}]));
        let label = json!({"vpc.amazonaws.com/has-trunk-attached": "false"});
        change(
            first(&mut facts.cluster.node_pools),
            json!({"spec": {"template": {"metadata": {"labels": label}}}}),
        );
        auto_mode(facts);
    }),
    ("instances with accelerators, which have a quota of their own", |facts| {
        for instance_type in ["p5.48xlarge", "g5.48xlarge", "trn1.32xlarge", "inf2.48xlarge", "dl1.24xlarge"]
        {
            relabel(facts, instance_type);
            let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
            change(node, json!({"status": {"capacity": {"cpu": "1150"}}}));
            assert!(!ids(facts).contains(&"P-22"), "{instance_type}");
        }
    }),
    ("Windows nodes by aws-auth alone", |facts| {
        facts.account.eks =
            Answer::Seen(object(json!({"version": "1.33", "authentication_mode": "CONFIG_MAP"})));
        facts.account.access_entries = Answer::Unseen("the mode of the cluster is CONFIG_MAP".to_owned());
        let of = |role: &str, group: &str| {
            format!(
                "- groups:\n  - system:nodes\n  - {group}\n  rolearn: arn:aws:iam::123456789012:role/{role}\n"
            )
        };
        let roles = of("KarpenterNodeRole-demo", "system:bootstrappers")
            + &of("WindowsNodes", "eks:kube-proxy-windows");
        map_roles(facts, &roles);
    }),
    ("definitions by kubectl", |facts| {
        for crd in facts.cluster.definitions.as_mut().unwrap() {
            crd.metadata.annotations = None;
        }
    }),
];

#[test]
fn what_users_do_is_no_fault() {
    for (setup, make) in SETUPS {
        let mut facts = healthy();
        make(&mut facts);
        let report = diagnose(&facts, &[]);
        assert_eq!((ills(&report), &report.unseen), (vec![], &vec![]), "{setup}: {:#?}", report.findings);
    }
}

#[test]
fn a_variable_that_a_secret_may_set_was_not_seen() {
    let mut facts = healthy();
    from_elsewhere(&mut facts, json!([{"secretRef": {"name": "settings"}}]));
    let report = diagnose(&facts, &["P-10".to_owned()]);
    assert_eq!(report.findings, []);
    assert_eq!(
        report.unseen[0].why,
        "INTERRUPTION_QUEUE may be set by Secret karpenter/settings, which is not read"
    );
    // Values in the Deployment itself go first.
    assert_eq!(facts.cluster.setting("LOG_LEVEL"), Ok(Some("info".to_owned())));
}

/// The controller has the queue's name from somewhere else than its own variables.
fn from_elsewhere(facts: &mut Facts, sources: Value) {
    let pod = controller(facts).spec.as_mut().unwrap().template.spec.as_mut().unwrap();
    let container = &mut pod.containers[0];
    container.env.as_mut().unwrap().retain(|variable| variable.name != "INTERRUPTION_QUEUE");
    container.env_from = Some(object(sources));
}

/// A pool of EKS Auto Mode with a node and its claim. The controller of that mode is outside of the cluster.
fn auto_mode(facts: &mut Facts) {
    let class = json!({"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"});
    push(
        &mut facts.cluster.node_pools,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general-purpose"},
            "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
        }),
    );
    push(
        &mut facts.cluster.node_claims,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "general-purpose-abc"},
            "spec": {"requirements": [], "nodeClassRef": class},
            "status": {"nodeName": "auto-1", "conditions": []},
        }),
    );
    push(
        &mut facts.cluster.nodes,
        json!({
            "metadata": {"name": "auto-1", "creationTimestamp": "2026-01-01T11:00:00Z", "labels": {
                "karpenter.sh/nodepool": "general-purpose", "karpenter.sh/initialized": "true",
                "eks.amazonaws.com/compute-type": "auto", "node.kubernetes.io/instance-type": "c6g.large",
            }},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
}

fn crowd(facts: &mut Facts, most: i32) {
    change(first(&mut facts.cluster.node_classes), json!({"spec": {"kubelet": {"maxPods": most}}}));
}

fn require(facts: &mut Facts, requirement: Value) {
    let change_of_pool = json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}});
    change(first(&mut facts.cluster.node_pools), change_of_pool);
}

fn relabel(facts: &mut Facts, instance_type: &str) {
    let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
    change(node, json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": instance_type}}}));
}

fn reserve(facts: &mut Facts, instance_type: &str, zone: &str, available: u32) {
    push(
        &mut facts.account.reservations,
        json!({
            "id": "cr-1", "match_criteria": "open", "state": "active",
            "instance_type": instance_type, "zone": zone, "available": available,
        }),
    );
    assert!(!ids(facts).contains(&"D-44"), "not even advice");
}

fn handler(facts: &mut Facts, variables: &[(&str, &str)]) {
    let variables: Vec<Value> =
        variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    daemon_set(facts, "aws-node-termination-handler", json!(variables));
}
