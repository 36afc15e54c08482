//! The stand-ins together with the node agent: what a workload looks like from outside.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, ServiceAccount},
    policy::v1::PodDisruptionBudget,
    scheduling::v1::PriorityClass,
    storage::v1::{CSINode, VolumeAttachment},
};
use karpenter_kube_sim::{
    apiserver::ApiServer,
    kube_system::{self, Options},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::world::{code, server, typed};

struct World {
    server: ApiServer,
    _running: DropGuard,
}

impl World {
    fn new() -> Self {
        let server = server();
        let shutdown = CancellationToken::new();
        let (shared, token) = (server.clone(), shutdown.clone());
        tokio::spawn(async move { kube_system::run(&shared, Options::default(), token).await });
        Self { server, _running: shutdown.drop_guard() }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::default_namespaced(self.server.client())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.server.client())
    }

    async fn node(&self, name: &str, zone: &str, taints: Value) {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
            "spec": {"taints": taints},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        self.nodes().create(&PostParams::default(), &typed(node)).await.expect("created");
    }

    async fn deployment(&self, replicas: i64, spec: Value) {
        let mut template =
            json!({"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]});
        template.as_object_mut().expect("a map").extend(spec.as_object().expect("a map").clone());
        let deployment = json!({"metadata": {"name": "web"}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template}}});
        self.api::<Deployment>().create(&PostParams::default(), &typed(deployment)).await.expect("created");
    }

    async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.expect("listed").items
    }

    /// Nodes of all pods in order, empty for those that wait.
    async fn placements(&self) -> Vec<String> {
        let pods = self.pods().await;
        let mut nodes: Vec<String> =
            pods.into_iter().map(|p| p.spec.and_then(|s| s.node_name).unwrap_or_default()).collect();
        nodes.sort();
        nodes
    }

    async fn all_ready(&self) {
        for pod in self.pods().await.iter().filter(|p| p.spec.as_ref().is_some_and(|s| s.node_name.is_some()))
        {
            let ready =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            let patch = Patch::Strategic(ready);
            self.api::<Pod>()
                .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                .await
                .expect("patched");
        }
        settle().await;
    }
}

/// Spread constraint of deployments whose pods spread over zones.
fn by_zone() -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_bound_pods_as_far_as_there_is_room() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.deployment(6, json!({})).await;
    settle().await;
    assert_eq!(world.placements().await, ["", "", "a", "a", "a", "a"]);
    let waiting =
        world.pods().await.into_iter().find(|p| p.spec.as_ref().is_some_and(|s| s.node_name.is_none()));
    let conditions = waiting.and_then(|p| p.status).and_then(|s| s.conditions).unwrap_or_default();
    assert_eq!(conditions[0].reason.as_deref(), Some("Unschedulable"));
    assert_eq!(conditions[0].message.as_deref(), Some("0/1 nodes are available: 1 Insufficient cpu."));
    world.node("b", "z1", json!([])).await;
    settle().await;
    assert_eq!(world.placements().await, ["a", "a", "a", "a", "b", "b"]);
    world.all_ready().await;
    let status = world.api::<Deployment>().get("web").await.expect("found").status.unwrap_or_default();
    assert_eq!((status.ready_replicas, status.updated_replicas), (Some(6), Some(6)));
}

#[tokio::test(start_paused = true)]
async fn scaling_down_takes_pods_that_run_nowhere_first() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.deployment(6, json!({})).await;
    settle().await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    world.api::<Deployment>().patch_scale("web", &PatchParams::default(), &patch).await.expect("scaled");
    settle().await;
    assert_eq!(world.placements().await, ["a", "a", "a", "a"]);
    world.api::<Deployment>().delete("web", &DeleteParams::default()).await.expect("deleted");
    settle().await;
    assert!(world.pods().await.iter().all(|p| p.metadata.deletion_timestamp.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_goes_below_what_is_allowed() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.node("b", "z1", json!([])).await;
    world.deployment(4, json!({})).await;
    settle().await;
    world.all_ready().await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "y"}]}}}});
    let patch = Patch::Strategic(image);
    world.api::<Deployment>().patch("web", &PatchParams::default(), &patch).await.expect("patched");
    for _ in 0..10 {
        settle().await;
        let pods = world.pods().await;
        let serving = pods.iter().filter(|p| p.metadata.deletion_timestamp.is_none()).count();
        assert!((3..=5).contains(&serving), "{serving} pods");
        for pod in pods.iter().filter(|p| p.metadata.deletion_timestamp.is_some()) {
            world
                .api::<Pod>()
                .delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
                .await
                .expect("gone");
        }
        world.all_ready().await;
    }
    let images: Vec<_> =
        world.pods().await.into_iter().filter_map(|p| p.spec?.containers[0].image.clone()).collect();
    assert_eq!(images, ["y"; 4]);
    let sets = world.api::<ReplicaSet>().list(&ListParams::default()).await.expect("listed").items;
    assert_eq!(sets.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_respects_taints_selectors_affinity_and_spread() {
    let taint = json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]);
    let toleration = json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]});
    let by_host =
        json!([{"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]);
    let required = |kind: &str, terms: &Value| json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    let cases = [
        (json!({}), ["", "b", "c"].as_slice(), "one core each on free nodes of one core"),
        (toleration, &["a", "b", "c"], "tolerated"),
        (json!({"nodeSelector": {"kubernetes.io/hostname": "c"}}), &["", "", "c"], "selected"),
        (required("podAntiAffinity", &by_host), &["", "b", "c"], "one per host"),
        (required("podAffinity", &by_host), &["", "", "b"], "together with the first"),
        (by_zone(), &["", "b", "c"], "spread over the zones"),
    ];
    for (spec, expected, why) in cases {
        let world = World::new();
        for (name, zone) in [("a", "z1"), ("b", "z1"), ("c", "z2")] {
            world.node(name, zone, if name == "a" { taint.clone() } else { json!([]) }).await;
            let small = json!({"status": {"allocatable": {"cpu": "1"}}});
            world
                .nodes()
                .patch_status(name, &PatchParams::default(), &Patch::Merge(small))
                .await
                .expect("patched");
        }
        world.deployment(3, spec).await;
        settle().await;
        assert_eq!(world.placements().await, expected, "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_drawn_to_pods_that_all_of_its_affinity_terms_select() {
    let world = World::new();
    for (name, zone) in [("a", "z1"), ("b", "z2")] {
        world.node(name, zone, json!([])).await;
    }
    let running = async |name: &str, labels: Value, node: &str| {
        let spec = json!({"nodeName": node, "containers": [{"name": "main", "image": "x"}]});
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        world.api::<Pod>().create(&PostParams::default(), &typed(pod)).await.expect("created");
    };
    running("one", json!({"one": "x"}), "a").await;
    running("two", json!({"two": "x"}), "a").await;
    let term = |label: &str| json!({"labelSelector": {"matchLabels": {label: "x"}}, "topologyKey": "topology.kubernetes.io/zone"});
    let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term("one"), term("two")]});
    world.deployment(1, json!({"affinity": {"podAffinity": terms}})).await;
    settle().await;
    assert_eq!(world.placements().await, ["", "a", "a"], "no pod in the first zone matches both terms");
    running("both", json!({"one": "x", "two": "x"}), "b").await;
    settle().await;
    assert_eq!(world.placements().await, ["a", "a", "b", "b"]);
}

#[tokio::test(start_paused = true)]
async fn pods_on_a_node_that_is_being_deleted_count_for_those_that_spread() {
    let world = World::new();
    for (name, zone) in [("a", "z1"), ("b", "z2"), ("c", "z2")] {
        world.node(name, zone, json!([])).await;
    }
    let full = Patch::Merge(json!({"status": {"allocatable": {"cpu": "500m"}}}));
    world.nodes().patch_status("c", &PatchParams::default(), &full).await.expect("patched");
    world.deployment(2, by_zone()).await;
    settle().await;
    assert_eq!(world.placements().await, ["a", "b"]);
    let taint = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    let drained = json!({"metadata": {"finalizers": ["example.com/drain"]}, "spec": {"taints": taint}});
    world.nodes().patch("b", &PatchParams::default(), &Patch::Merge(drained)).await.expect("patched");
    world.nodes().delete("b", &DeleteParams::default()).await.expect("deleted");
    let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
    world.api::<Deployment>().patch("web", &PatchParams::default(), &more).await.expect("patched");
    settle().await;
    assert_eq!(world.placements().await, ["a", "a", "b"], "one in each zone, so the next may go to either");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_pod_names_is_tried_first_and_its_room_is_kept() {
    let world = World::new();
    world.deployment(2, json!({"nodeSelector": {"kubernetes.io/hostname": "a"}})).await;
    settle().await;
    let named = world.pods().await[1].name_any();
    let name = Patch::Merge(json!({"status": {"nominatedNodeName": "a"}}));
    world.api::<Pod>().patch_status(&named, &PatchParams::default(), &name).await.expect("patched");
    // Room for one of both, and the other one is older.
    let small = json!({"metadata": {"name": "a", "labels": {"kubernetes.io/hostname": "a"}},
        "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"}}});
    world.nodes().create(&PostParams::default(), &typed(small)).await.expect("created");
    settle().await;
    for pod in world.pods().await {
        let (spec, status) = (pod.spec.clone().unwrap_or_default(), pod.status.clone().unwrap_or_default());
        let here = (pod.name_any() == named).then(|| "a".to_owned());
        assert_eq!((spec.node_name, status.nominated_node_name), (here, None), "{}", pod.name_any());
    }
}

/// The scheduler tries a pod as if all others that name the node were there. Each try takes a name away, so that the next one
/// succeeds.
#[tokio::test(start_paused = true)]
async fn pods_that_spread_and_name_one_node_keep_each_other_out() {
    let mut waited = Vec::new();
    for named in [1, 2] {
        let world = World::new();
        world.deployment(2, by_zone()).await;
        // A zone that counts and takes no pod.
        world.node("b", "z2", json!([{"key": "wait", "effect": "NoSchedule"}])).await;
        settle().await;
        let name = Patch::Merge(json!({"status": {"nominatedNodeName": "a"}}));
        for pod in world.pods().await.iter().take(named) {
            let pods = world.api::<Pod>();
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &name).await.expect("patched");
        }
        world.node("a", "z1", json!([])).await;
        let began = tokio::time::Instant::now();
        while world.placements().await != ["", "a"] {
            assert!(began.elapsed() < Duration::from_secs(30), "{named}: {:?}", world.placements().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        waited.push(began.elapsed());
    }
    assert!(waited[1] > waited[0], "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_where_its_first_pod_goes_and_keeps_later_ones_in_that_zone() {
    let world = World::new();
    world
        .deployment(2, json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}))
        .await;
    world.node("a", "z1", json!([])).await;
    settle().await;
    assert_eq!(world.placements().await, ["", ""], "there is no claim");
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world
        .api::<PersistentVolumeClaim>()
        .create(&PostParams::default(), &typed(claim))
        .await
        .expect("created");
    settle().await;
    assert_eq!(world.placements().await, ["a", "a"]);
    let volumes = Api::<PersistentVolume>::all(world.server.client());
    let volumes = volumes.list(&ListParams::default()).await.expect("listed").items;
    assert_eq!(volumes.len(), 1);

    let attachments = Api::<VolumeAttachment>::all(world.server.client());
    let attached_to = async || -> Vec<String> {
        let all = attachments.list(&ListParams::default()).await.expect("listed").items;
        all.into_iter().map(|one| one.spec.node_name).collect()
    };
    assert_eq!(attached_to().await, ["a"]);
    world.node("b", "z2", json!([])).await;
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    world.nodes().patch("a", &PatchParams::default(), &cordon).await.expect("cordoned");
    for pod in world.pods().await {
        let at_once = DeleteParams::default().grace_period(0);
        world.api::<Pod>().delete(&pod.name_any(), &at_once).await.expect("deleted");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(attached_to().await, ["a"], "detaching takes five seconds");
    settle().await;
    assert_eq!(attached_to().await, [] as [&str; 0]);
    assert_eq!(world.placements().await, ["", ""], "no other zone will do");
    world.node("c", "z1", json!([])).await;
    settle().await;
    assert_eq!(
        (world.placements().await, attached_to().await),
        (vec!["c".to_owned(); 2], vec!["c".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn daemons_run_on_every_node_they_tolerate() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.node("b", "z1", json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}])).await;
    let set = json!({"metadata": {"name": "log"}, "spec": {"selector": {"matchLabels": {"app": "log"}},
        "template": {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "main"}]}}}});
    world.api::<DaemonSet>().create(&PostParams::default(), &typed(set)).await.expect("created");
    settle().await;
    assert_eq!(world.placements().await, ["a"]);
    let registered = Patch::Merge(json!({"spec": {"taints": null}}));
    world.nodes().patch("b", &PatchParams::default(), &registered).await.expect("patched");
    settle().await;
    assert_eq!(world.placements().await, ["a", "b"]);
    let status = world.api::<DaemonSet>().get("log").await.expect("found").status.unwrap_or_default();
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn taints_follow_conditions_and_push_pods_away_after_their_patience() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.deployment(1, json!({})).await;
    settle().await;
    let ready = async |status: &str| {
        let patch =
            Patch::Strategic(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
        world.nodes().patch_status("a", &PatchParams::default(), &patch).await.expect("patched");
        settle().await;
        let spec = world.nodes().get("a").await.expect("found").spec.unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        taints
            .iter()
            .map(|t| format!("{}:{}", t.key.trim_start_matches("node.kubernetes.io/"), t.effect))
            .collect::<Vec<_>>()
    };
    assert_eq!(ready("Unknown").await, ["unreachable:NoSchedule", "unreachable:NoExecute"]);
    assert_eq!(ready("False").await, ["not-ready:NoSchedule", "not-ready:NoExecute"]);
    tokio::time::sleep(Duration::from_secs(280)).await;
    assert_eq!(world.pods().await.len(), 1, "default patience is five minutes");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let pods = world.pods().await;
    assert_eq!(pods.iter().filter(|p| p.metadata.deletion_timestamp.is_some()).count(), 1);
    assert!(ready("True").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_becomes_unreachable() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(world.server.client(), "kube-node-lease");
    let lease = json!({"metadata": {"name": "a"}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    leases.create(&PostParams::default(), &typed(lease)).await.expect("created");
    tokio::time::sleep(Duration::from_secs(70)).await;
    let node = world.nodes().get("a").await.expect("found");
    let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
    assert_eq!(conditions[0].status, "Unknown");
    assert_eq!(node.spec.and_then(|s| s.taints).map_or(0, |t| t.len()), 2);
}

#[tokio::test(start_paused = true)]
async fn less_important_pods_are_sent_away_for_one_that_fits_nowhere() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let pod = |name: &str, cpu: &str, more: Value| {
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
        });
        pod["spec"].as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        typed::<Pod>(pod)
    };
    let class = |name: &str, value: i32| {
        let policy = if name == "gentle" { "Never" } else { "PreemptLowerPriority" };
        json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})
    };
    for (name, value) in [("middling", 10), ("important", 100), ("gentle", 100)] {
        let classes: Api<PriorityClass> = Api::all(world.server.client());
        classes.create(&PostParams::default(), &typed(class(name, value))).await.expect("created");
    }
    let pods = world.api::<Pod>();
    for (name, cpu, more) in [
        ("small", "500m", json!({})),
        ("large", "1500m", json!({})),
        ("middling", "1500m", json!({"priorityClassName": "middling"})),
    ] {
        pods.create(&PostParams::default(), &pod(name, cpu, more)).await.expect("created");
    }
    settle().await;
    let gentle = json!({"priorityClassName": "gentle"});
    pods.create(&PostParams::default(), &pod("gentle", "1500m", gentle)).await.expect("created");
    settle().await;
    let leaving = async || {
        let all = world.pods().await;
        let leaving = all.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        leaving.map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    assert!(leaving().await.is_empty(), "it waits for room");
    let important = json!({"priorityClassName": "important"});
    pods.create(&PostParams::default(), &pod("important", "1500m", important)).await.expect("created");
    settle().await;
    assert_eq!(leaving().await, ["large"], "the smaller one stays, and so does the more important one");
    let named =
        pods.get("important").await.expect("found").status.and_then(|status| status.nominated_node_name);
    assert_eq!(named.as_deref(), Some("a"));
}

// The simulated history 7000338: its kubelet ended before it made another Lease.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_there_again_without_its_lease_is_silent_too() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let owner = world.nodes().get("a").await.expect("found").uid();
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(world.server.client(), "kube-node-lease");
    let lease = json!({
        "metadata": {
            "name": "a",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": owner}],
        },
        "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    leases.create(&PostParams::default(), &typed(lease)).await.expect("created");
    settle().await;
    world.nodes().delete("a", &DeleteParams::default()).await.expect("deleted");
    world.node("a", "z1", json!([])).await;
    settle().await;
    assert!(leases.get_opt("a").await.expect("asked").is_none(), "it is collected with its Node");
    tokio::time::sleep(Duration::from_secs(70)).await;
    let node = world.nodes().get("a").await.expect("found");
    let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
    assert_eq!(conditions[0].status, "Unknown");
}

#[tokio::test(start_paused = true)]
async fn budgets_count_the_pods_their_workload_wants() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.deployment(4, json!({})).await;
    let budget = json!({"metadata": {"name": "web"}, "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}}});
    world.api::<PodDisruptionBudget>().create(&PostParams::default(), &typed(budget)).await.expect("created");
    settle().await;
    world.all_ready().await;
    let status =
        world.api::<PodDisruptionBudget>().get("web").await.expect("found").status.unwrap_or_default();
    assert_eq!((status.disruptions_allowed, status.current_healthy, status.expected_pods), (1, 4, 4));
    let names: Vec<String> = world.pods().await.iter().map(ResourceExt::name_any).collect();
    world.api::<Pod>().evict(&names[0], &EvictParams::default()).await.expect("one may go");
    assert_eq!(code(world.api::<Pod>().evict(&names[1], &EvictParams::default()).await), 429);
}

/// Pods of which each brings a claim along.
fn bringing() -> Value {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let template = json!({"metadata": {"labels": {"team": "a"}}, "spec": claim});
    json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]})
}

#[tokio::test(start_paused = true)]
async fn a_pod_brings_its_claim_along_and_takes_it_when_it_goes() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    world.deployment(1, bringing()).await;
    settle().await;
    assert_eq!(world.placements().await, ["a"]);
    let claims = async || -> Vec<PersistentVolumeClaim> {
        world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("listed").items
    };
    let pod = world.pods().await.remove(0);
    let made = claims().await.remove(0);
    assert_eq!(made.name_any(), format!("{}-scratch", pod.name_any()));
    assert_eq!(made.labels().get("team").map(String::as_str), Some("a"));
    assert_eq!(made.owner_references()[0].uid, pod.uid().expect("stored"));
    let volumes = Api::<PersistentVolume>::all(world.server.client());
    let attachments = Api::<VolumeAttachment>::all(world.server.client());
    let there = async || {
        let volumes = volumes.list(&ListParams::default()).await.expect("listed").items.len();
        (
            claims().await.len(),
            volumes,
            attachments.list(&ListParams::default()).await.expect("listed").items.len(),
        )
    };
    assert_eq!(there().await, (1, 1, 1));
    world.api::<Deployment>().delete("web", &DeleteParams::default()).await.expect("deleted");
    world
        .api::<Pod>()
        .delete(&pod.name_any(), &DeleteParams::default().grace_period(0))
        .await
        .expect("deleted");
    settle().await;
    settle().await;
    assert_eq!(there().await, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pod_does_not_use_the_claim_of_another_that_has_the_name_of_its_own() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let others = json!({"metadata": {"name": "web-scratch"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    world
        .api::<PersistentVolumeClaim>()
        .create(&PostParams::default(), &typed(others))
        .await
        .expect("created");
    let mut spec = bringing();
    spec["containers"] = json!([{"name": "main", "image": "x"}]);
    let pod = json!({"metadata": {"name": "web"}, "spec": spec});
    world.api::<Pod>().create(&PostParams::default(), &typed(pod)).await.expect("created");
    settle().await;
    assert_eq!(world.placements().await, [""]);
    let now = DeleteParams::default();
    world.api::<PersistentVolumeClaim>().delete("web-scratch", &now).await.expect("deleted");
    settle().await;
    assert_eq!(world.placements().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_no_more_volumes_than_its_driver_states() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let drivers =
        json!([{"name": "ebs.csi.aws.com", "nodeID": "a", "topologyKeys": [], "allocatable": {"count": 2}}]);
    let stated = typed(json!({"metadata": {"name": "a"}, "spec": {"drivers": drivers}}));
    let stating = Api::<CSINode>::all(world.server.client());
    stating.create(&PostParams::default(), &stated).await.expect("created");
    world.deployment(3, bringing()).await;
    settle().await;
    assert_eq!(world.placements().await, ["", "a", "a"]);
    world.node("b", "z1", json!([])).await;
    settle().await;
    assert_eq!(world.placements().await, ["a", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_its_service_account() {
    let world = World::new();
    settle().await;
    let accounts: Api<ServiceAccount> = Api::all(world.server.client());
    assert_eq!(accounts.list(&ListParams::default()).await.expect("listed").items.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_makes_its_pods_in_order_and_keeps_their_claims() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let set = json!({"metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}}});
    world.api::<StatefulSet>().create(&PostParams::default(), &typed(set)).await.expect("created");
    let names = async || -> Vec<String> { world.pods().await.iter().map(ResourceExt::name_any).collect() };
    settle().await;
    assert_eq!(names().await, ["db-0"], "the next one waits until it is ready");
    world.all_ready().await;
    assert_eq!(names().await, ["db-0", "db-1"]);
    world.all_ready().await;
    let now = DeleteParams::default().grace_period(0);
    world.api::<Pod>().delete("db-0", &now).await.expect("deleted");
    settle().await;
    assert_eq!(names().await, ["db-0", "db-1"], "it comes again under its name");
    world.all_ready().await;
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    world.api::<StatefulSet>().patch("db", &PatchParams::default(), &patch).await.expect("scaled");
    settle().await;
    let leaving: Vec<String> = world
        .pods()
        .await
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_some())
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(leaving, ["db-1"], "the last one goes first");
    let claims =
        world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("listed").items;
    let claims: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
    assert_eq!(claims, ["data-db-0", "data-db-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_pods_until_enough_of_them_have_succeeded() {
    let world = World::new();
    world.node("a", "z1", json!([])).await;
    let job = json!({"metadata": {"name": "sum"}, "spec": {"completions": 3, "parallelism": 2,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}}});
    world.api::<Job>().create(&PostParams::default(), &typed(job)).await.expect("created");
    for active in [2, 1, 0] {
        settle().await;
        let pods = world.pods().await;
        let runs = |pod: &&Pod| pod.status.as_ref().is_none_or(|s| s.phase.as_deref() != Some("Succeeded"));
        assert_eq!(pods.iter().filter(runs).count(), active);
        for pod in pods.iter().filter(runs) {
            let (pods, name) = (world.api::<Pod>(), pod.name_any());
            let patch = Patch::Strategic(json!({"status": {"phase": "Succeeded"}}));
            pods.patch_status(&name, &PatchParams::default(), &patch).await.expect("patched");
            settle().await;
            // As with its node: it has succeeded all the same.
            pods.delete(&name, &DeleteParams::default().grace_period(0)).await.expect("deleted");
        }
    }
    let status = world.api::<Job>().get("sum").await.expect("found").status.unwrap_or_default();
    assert_eq!(status.succeeded, Some(3));
    assert_eq!(status.conditions.unwrap_or_default()[0].type_, "Complete");
}
