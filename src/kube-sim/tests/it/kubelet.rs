//! The node agent against the simulated API server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Node, Pod},
    storage::v1::CSINode,
};
use karpenter_kube_sim::{
    VirtualClock,
    apiserver::ApiServer,
    kube_system,
    kubelet::{Agent, Behaviour, Difference, Flaps, Machine, MachineState, Machines, Options},
};
use karpenter_model::clock::Clock;
use karpenter_model::taint::{Effect, Taint};
use karpenter_model::{Quantity, Resources};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::world::{pod, typed};

#[derive(Default)]
struct Account(Mutex<Vec<Machine>>);

#[async_trait]
impl Machines for Account {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.0.lock().clone())
    }
}

struct World {
    server: ApiServer,
    account: Arc<Account>,
    agent: Arc<Agent>,
    clock: VirtualClock,
    _running: DropGuard,
}

const USER_DATA: &str = "apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: prod}
  kubelet:
    config:
      maxPods: 20
      registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]
    flags: ['--node-labels=\"team=a,kubernetes.io/arch=wrong\"']
";

impl World {
    fn new(options: Options) -> Self {
        let clock = VirtualClock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let server = ApiServer::new(Arc::new(clock.clone()));
        let account = Arc::new(Account::default());
        let agent = Agent::new(server.client(), account.clone(), Arc::new(clock.clone()), options);
        let agent = Arc::new(agent);
        let shutdown = CancellationToken::new();
        let (running, token) = (agent.clone(), shutdown.clone());
        tokio::spawn(async move { running.run(token).await });
        Self { server, account, agent, clock, _running: shutdown.drop_guard() }
    }

    fn launch(&self, id: &str, user_data: &str) -> String {
        self.launch_differing(id, user_data, Difference::default())
    }

    fn launch_differing(&self, id: &str, user_data: &str, difference: Difference) -> String {
        let quantity = |text: &str| text.parse::<Quantity>().expect("a quantity");
        let machine = Machine {
            instance_id: id.to_owned(),
            provider_id: format!("aws:///us-east-1a/{id}"),
            instance_type: "m5.large".to_owned(),
            zone: "us-east-1a".to_owned(),
            zone_id: "use1-az1".to_owned(),
            region: "us-east-1".to_owned(),
            private_dns_name: format!("{id}.ec2.internal"),
            private_ip: "10.0.0.1".to_owned(),
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            capacity: Resources::new()
                .with("cpu", quantity("2"))
                .with("memory", quantity("8Gi"))
                .with("pods", quantity("29")),
            volumes: BTreeMap::new(),
            local_disks: Quantity::ZERO,
            state: MachineState::Running,
            launched_at: self.clock.now(),
            reboots: 0,
            user_data: user_data.as_bytes().to_vec(),
            difference,
        };
        let name = machine.private_dns_name.clone();
        self.account.0.lock().push(machine);
        name
    }

    fn terminate_all(&self) {
        self.account.0.lock().clear();
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.server.client())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.server.client())
    }

    async fn bound_pod(&self, name: &str, node: &str) {
        let mut pod = pod(name);
        pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
        self.pods().create(&PostParams::default(), &pod).await.expect("created");
    }

    async fn ready(&self, node: &str) -> String {
        let node = self.nodes().get(node).await.expect("joined");
        let conditions = node.status.and_then(|s| s.conditions).unwrap_or_default();
        conditions.iter().find(|c| c.type_ == "Ready").map(|c| c.status.clone()).unwrap_or_default()
    }

    async fn phase(&self, pod: &str) -> String {
        let pod = self.pods().get_opt(pod).await.expect("answered");
        pod.map_or("gone".to_owned(), |p| p.status.and_then(|s| s.phase).unwrap_or_default())
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_after_its_boot_with_what_the_user_data_says() {
    let world = World::new(Options { cluster_name: "prod".to_owned(), ..Options::default() });
    let name = world.launch("i-1", USER_DATA);
    seconds(29).await;
    assert!(world.nodes().get_opt(&name).await.expect("answered").is_none());
    seconds(2).await;
    let node = world.nodes().get(&name).await.expect("joined");
    let spec = node.spec.clone().unwrap_or_default();
    assert_eq!(spec.provider_id.as_deref(), Some("aws:///us-east-1a/i-1"));
    let taints: Vec<_> =
        spec.taints.unwrap_or_default().iter().map(|t| format!("{}:{}", t.key, t.effect)).collect();
    assert_eq!(taints, ["karpenter.sh/unregistered:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"]);
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    assert_eq!((label("team"), label("kubernetes.io/arch")), ("a".to_owned(), "amd64".to_owned()));
    assert_eq!(label("kubernetes.io/hostname"), name);
    assert_eq!(label("topology.kubernetes.io/zone"), "us-east-1a");
    let status = node.status.clone().unwrap_or_default();
    assert_eq!(status.capacity.unwrap_or_default()["pods"].0, "20");
    assert_eq!(status.allocatable.unwrap_or_default()["cpu"].0, "1930m");
    assert_eq!(world.ready(&name).await, "False");
    seconds(10).await;
    assert_eq!(world.ready(&name).await, "True");
    let leases: Api<Lease> = Api::namespaced(world.server.client(), "kube-node-lease");
    let renewed = || async { leases.get(&name).await.expect("a lease").spec.and_then(|s| s.renew_time) };
    let first = renewed().await.expect("renewed");
    seconds(15).await;
    assert!(renewed().await.expect("renewed").0 > first.0);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_rebooted_is_away_for_a_boot_and_reports_another_boot_id() {
    let world = World::new(Options::default());
    let name = world.launch("i-1", USER_DATA);
    seconds(60).await;
    let boot_id = || async {
        let status = world.nodes().get(&name).await.expect("joined").status.unwrap_or_default();
        status.node_info.unwrap_or_default().boot_id
    };
    let before = (world.ready(&name).await, boot_id().await);
    assert_eq!(before, ("True".to_owned(), "i-1".to_owned()));
    world.account.0.lock()[0].reboots = 1;
    seconds(5).await;
    assert_eq!((world.ready(&name).await, boot_id().await), ("False".to_owned(), "i-1".to_owned()));
    seconds(40).await;
    assert_eq!((world.ready(&name).await, boot_id().await), ("True".to_owned(), "i-1-1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_differ_from_what_is_foreseen() {
    let world = World::new(Options::default());
    let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let difference = Difference {
        room: [("memory".to_owned(), "-1Gi".parse().expect("a change"))].into(),
        labels: [text("team", "b")].into(),
        without_labels: ["topology.kubernetes.io/zone".to_owned()].into(),
        taints: vec![Taint::new("example.com/agent", "", Effect::NoSchedule)],
        volumes: Some(2),
        joins_later: Duration::from_mins(1),
        ready_later: Duration::from_mins(2),
        flaps: Some(Flaps { every: Duration::from_mins(10), lasts: Duration::from_secs(100) }),
        ..Difference::default()
    };
    let usual = world.launch("i-1", USER_DATA);
    let name = world.launch_differing("i-2", USER_DATA, difference);
    seconds(89).await;
    assert!(world.nodes().get_opt(&name).await.expect("answered").is_none());
    seconds(2).await;
    let node = world.nodes().get(&name).await.expect("joined");
    let taints = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
    assert!(taints.iter().any(|taint| taint.key == "example.com/agent"));
    let drivers: Api<CSINode> = Api::all(world.server.client());
    let stated = drivers.get(&name).await.expect("registered").spec.drivers.remove(0);
    assert_eq!(stated.allocatable.and_then(|allocatable| allocatable.count), Some(2));
    assert!(drivers.get_opt(&usual).await.expect("answered").is_none(), "usual machines state no limit");
    let memory = async |name: &str| -> Quantity {
        let status = world.nodes().get(name).await.expect("joined").status.unwrap_or_default();
        status.allocatable.unwrap_or_default()["memory"].0.parse().expect("a quantity")
    };
    let less = memory(&usual).await.saturating_sub(memory(&name).await);
    assert_eq!(less, Quantity::from_bytes(1 << 30));
    let patch = json!({"metadata": {"labels": {"team": "c", "topology.kubernetes.io/zone": "us-east-1a"}}});
    let patch = kube::api::Patch::Merge(patch);
    world.nodes().patch(&name, &Default::default(), &patch).await.expect("patched");
    seconds(120).await;
    let node = world.nodes().get(&name).await.expect("joined");
    assert_eq!(node.labels().get("team").map(String::as_str), Some("b"));
    assert!(!node.labels().contains_key("topology.kubernetes.io/zone"));
    assert_eq!(world.ready(&name).await, "False");
    seconds(12).await;
    assert_eq!(world.ready(&name).await, "True");
    seconds(390).await;
    // In the last of the ten minutes since its registration, and a bit before.
    assert_eq!(world.ready(&name).await, "False");
    seconds(100).await;
    assert_eq!(world.ready(&name).await, "True");
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_launched_together_join_one_after_the_other() {
    let world = World::new(Options { spread: 100, ..Options::default() });
    for number in 0..40 {
        world.launch(&format!("i-{number}"), USER_DATA);
    }
    let joined = || async { world.nodes().list(&ListParams::default()).await.expect("listed").items.len() };
    seconds(29).await;
    assert_eq!(joined().await, 0, "none earlier than without");
    seconds(16).await;
    assert!((10..=30).contains(&joined().await), "half of them after half of the time that is added at most");
    seconds(16).await;
    assert_eq!(joined().await, 40);
}

#[tokio::test(start_paused = true)]
async fn machines_without_a_way_into_this_cluster_never_join() {
    let world = World::new(Options { cluster_name: "prod".to_owned(), ..Options::default() });
    world.launch("i-empty", "");
    world.launch("i-shell", "#!/bin/bash\necho hello");
    world.launch("i-other", &USER_DATA.replace("prod", "test"));
    world.launch("i-told", USER_DATA);
    world.agent.behave("i-told", Behaviour::NeverJoins);
    seconds(600).await;
    assert!(world.nodes().list(&ListParams::default()).await.expect("listed").items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_run_on_ready_nodes_and_keep_their_grace_period() {
    let world = World::new(Options::default());
    let name = world.launch("i-1", USER_DATA);
    world.agent.behave("i-1", Behaviour::NotReady);
    seconds(60).await;
    world.bound_pod("a", &name).await;
    seconds(60).await;
    assert_eq!(world.phase("a").await, "Pending");
    world.agent.behave("i-1", Behaviour::Healthy);
    seconds(5).await;
    assert_eq!(world.phase("a").await, "Running");
    let status = world.pods().get("a").await.expect("there").status.unwrap_or_default();
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
    assert!(status.conditions.unwrap_or_default().iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    world.pods().delete("a", &DeleteParams::default().grace_period(20)).await.expect("accepted");
    seconds(19).await;
    assert_eq!(world.phase("a").await, "Running");
    seconds(2).await;
    assert_eq!(world.phase("a").await, "gone");
    world.agent.behave("i-1", Behaviour::NotReady);
    seconds(5).await;
    assert_eq!(world.ready(&name).await, "False");
}

#[tokio::test(start_paused = true)]
async fn the_node_and_its_pods_go_with_the_machine() {
    let world = World::new(Options::default());
    let name = world.launch("i-1", USER_DATA);
    seconds(60).await;
    world.bound_pod("a", &name).await;
    seconds(10).await;
    assert_eq!(world.phase("a").await, "Running");
    world.terminate_all();
    seconds(30).await;
    assert!(world.nodes().get_opt(&name).await.expect("answered").is_none());
    assert_eq!(world.phase("a").await, "gone");
}

#[tokio::test(start_paused = true)]
async fn without_the_cloud_part_the_node_stays() {
    let world = World::new(Options { cloud_node_lifecycle: false, ..Options::default() });
    let name = world.launch("i-1", USER_DATA);
    seconds(60).await;
    world.terminate_all();
    seconds(300).await;
    assert!(world.nodes().get_opt(&name).await.expect("answered").is_some());
    assert_eq!(world.clock.now(), "2026-01-01T00:06:00Z".parse::<Timestamp>().expect("a time"));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_runs_on_machines_that_arrive_later() {
    let world = World::new(Options::default());
    let shutdown = CancellationToken::new();
    let (server, token) = (world.server.clone(), shutdown.clone());
    tokio::spawn(async move { kube_system::run(&server, kube_system::Options::default(), token).await });
    let _running = shutdown.drop_guard();
    let deployments: Api<Deployment> = Api::default_namespaced(world.server.client());
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [
            {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}}});
    deployments.create(&PostParams::default(), &typed(deployment)).await.expect("created");
    let ready = async || {
        let status = deployments.get("web").await.expect("found").status.unwrap_or_default();
        status.ready_replicas.unwrap_or(0)
    };
    for id in ["i-1", "i-2", "i-3"] {
        world.launch(
            id,
            &USER_DATA.replace(
                "registerWithTaints: [{key: karpenter.sh/unregistered, effect: NoExecute}]",
                "registerWithTaints: []",
            ),
        );
    }
    seconds(35).await;
    assert_eq!(ready().await, 0, "registered, not ready yet");
    seconds(20).await;
    assert_eq!(ready().await, 3);
    let nodes = world.nodes().list(&ListParams::default()).await.expect("listed").items;
    let taints: usize = nodes.iter().filter_map(|n| n.spec.as_ref()?.taints.as_ref()).map(Vec::len).sum();
    assert_eq!(taints, 0, "the not-ready taint is taken off");
    world.agent.behave("i-1", Behaviour::Silent);
    seconds(60 + 300 + 60).await;
    assert_eq!(world.ready("i-1.ec2.internal").await, "Unknown");
}
