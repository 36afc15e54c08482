//! Cost of a large cluster for the controller: 100,000 pods on 10,000 nodes, then one pod in a hundred replaced every
//! second. `cargo bench -p karpenter-compose --bench large_cluster` prints the table of docs/performance.md and which bar is
//! missed; `-- 600` replaces pods for that number of seconds instead of sixty.
//!
//! The controller is the one of the program, put together by the same file, and looks for something to consolidate all the
//! time: pods fill their nodes, so there is nothing. The API server of the tests runs in a process of its own, where pods
//! come and go too, so nothing of it is measured; what the account in memory holds is measured before the controller
//! starts, and after it has its machines.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]

#[path = "memory/held.rs"]
mod held;
#[path = "memory/parts.rs"]
mod parts;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use held::held;
use jiff::Timestamp;
use karpenter_api::{ConditionStatus, EC2NodeClass, NodeClaim, NodePool};
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{Instance, InstanceState, Tenancy};
use karpenter_aws_sim::{Account, Options};
use karpenter_bootstrap::make_ready;
use karpenter_compose::WallClock;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_model::names::{annotation, label, tag};
use karpenter_telemetry::metrics::Metrics;
use karpenter_testkit::objects::{class_ref, node_class, node_pool, one_of};
use kube::api::{Api, DeleteParams, ListParams};
use parts::parts;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NODES: usize = 10_000;
const PODS_OF_NODE: usize = 10;
const CLUSTER: &str = "large";
const TYPE: &str = "m5.2xlarge";
/// Memory that the controller may hold, in MiB, without that of the account in memory.
const BAR: u64 = 500;
/// Seconds in which pods come and go, and of how many one goes every second.
const CHURN: u64 = 60;
const ONE_IN: usize = 100;
/// Longest time that anything may take before the measurement is called broken.
const PATIENCE: Duration = Duration::from_mins(10);

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    if std::env::args().any(|word| word == "--serve") {
        return runtime.block_on(serve());
    }
    let churn = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(CHURN);
    let mut server = Server::start()?;
    runtime.block_on(measure(&mut server, churn))
}

/// The API server: prints its address, loads the cluster that is described in a line of standard input, and lets pods come
/// and go for the seconds in each further line.
async fn serve() -> Result<()> {
    let server = ApiServer::new(Arc::new(WallClock));
    for object in karpenter_api::crd_values().into_iter().chain([class(), pool()]) {
        server.load(&object).map_err(|refusal| anyhow!("{refusal}"))?;
    }
    let serving = server.serve(tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?)?;
    say(&serving.url())?;
    let mut lines = std::io::stdin().lines();
    let Some(description) = lines.next() else { return Ok(()) };
    let shared: Value = serde_json::from_str(&description?)?;
    for number in 0..NODES {
        for object in machine(number, &shared) {
            server.restore(&object).map_err(|refusal| anyhow!("{refusal}"))?;
        }
    }
    say("loaded")?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut age = vec![0_u64; NODES * PODS_OF_NODE];
    for line in lines {
        let (began, seconds) = (Instant::now(), line?.trim().parse::<u64>()?);
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(server.client(), "default");
        for second in 0..seconds {
            for _ in 0..age.len() / ONE_IN {
                let number = random.usize(0..age.len());
                pods.delete(&pod_name(number, age[number]), &DeleteParams::default().grace_period(0)).await?;
                age[number] += 1;
                server.restore(&pod(number, age[number])).map_err(|refusal| anyhow!("{refusal}"))?;
            }
            let next = began + Duration::from_secs(second + 1);
            tokio::time::sleep(next.saturating_duration_since(Instant::now())).await;
        }
        say(&format!("{:.1}", began.elapsed().as_secs_f64()))?;
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// The process the API server runs in.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the API server")?;
        let input = process.stdin.take().context("the API server has no input")?;
        let output = BufReader::new(process.stdout.take().context("the API server has no output")?);
        Ok(Self { process, input, output })
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").context("the API server has ended")
    }

    fn hear(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the API server has ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_by_itself = self.process.kill();
        let _reaped = self.process.wait();
    }
}

async fn measure(server: &mut Server, churn: u64) -> Result<()> {
    println!("{:<44} {:>9} {:>9} {:>9}", "MiB", "anonymous", "resident", "peak");
    let options =
        Options { cluster: CLUSTER.to_owned(), kubernetes_version: "1.35".to_owned(), ..Options::default() };
    let account = Account::with_clock(options, Arc::new(WallClock));
    make_ready(&account.clients(), CLUSTER).await?;
    let config = kube::Config::new(server.hear()?.parse()?);
    let kubernetes = kube::Client::try_from(config.clone())?;
    let metrics = Arc::new(Metrics::new());
    let (shutdown, parts) =
        (CancellationToken::new(), parts(&account, &metrics, &kubernetes, &config, CLUSTER)?);
    // The account has its machines before their claims are there: a claim without a machine is collected.
    let alone = held().anonymous;
    let controller = tokio::spawn(karpenter_compose::run(parts, shutdown.clone()));
    let world = World { kubernetes, account, metrics };
    let stages = async {
        let shared = world.shared().await?;
        let before = held().anonymous;
        world.launch(&shared)?;
        let machines = held().anonymous.saturating_sub(before);
        println!("{:<44} {alone:>9}", "the account without machines");
        println!("{:<44} {machines:>9}", "its machines");
        let began = Instant::now();
        server.tell(&shared.to_string())?;
        ensure!(tokio::task::block_in_place(|| server.hear())? == "loaded", "the cluster was not loaded");
        world.until("every node is known", || world.knows(NODES)).await?;
        println!("{:<44} {:>9.1} s", "until all of it is known", began.elapsed().as_secs_f64());
        let bar = BAR + alone + machines;
        world.scrape();
        let settled = world.calm("100,000 pods on 10,000 nodes").await;
        let (processor, calls) = (seconds()?, world.account.calls().0.len());
        server.tell(&churn.to_string())?;
        let took = tokio::task::block_in_place(|| server.hear())?;
        let (used, calls) = (seconds()? - processor, world.account.calls().0.len() - calls);
        println!(
            "{churn} s of churn took {took} s: {used:.1} s of processor time of the controller, {calls} calls of AWS"
        );
        let churned = world.calm("after the churn").await;
        let claims =
            Api::<NodeClaim>::all(world.kubernetes.clone()).list(&ListParams::default()).await?.items;
        let leaving = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_some()).count();
        ensure!(
            claims.len() == NODES && leaving == 0,
            "{} claims, {leaving} of which leave: nothing was to happen",
            claims.len()
        );
        ensure!(
            settled.max(churned) <= bar,
            "{} MiB, the bar is {BAR} besides what the account holds",
            settled.max(churned)
        );
        println!("no bar missed");
        Ok(())
    };
    tokio::select! {
        ended = controller => bail!("the controller has ended: {ended:?}"),
        measured = stages => measured?,
    }
    shutdown.cancel();
    Ok(())
}

/// The ways to what the controller works on.
struct World {
    kubernetes: kube::Client,
    account: Account,
    metrics: Arc<Metrics>,
}

impl World {
    /// Returns the parts that all machines have in common, once pool and class are ready.
    async fn shared(&self) -> Result<Value> {
        let pools = Api::<NodePool>::all(self.kubernetes.clone());
        let classes = Api::<EC2NodeClass>::all(self.kubernetes.clone());
        let began = Instant::now();
        loop {
            let (pool, class) = (pools.get("general").await?, classes.get("default").await?);
            let conditions = pool.status.iter().flat_map(|status| &status.conditions);
            let mut ready =
                conditions.filter(|one| one.kind == "Ready" && one.status == ConditionStatus::True);
            if ready.next().is_some() {
                let (pool, class) = (json!(pool), json!(class));
                return Ok(json!({
                    "annotations": {
                        annotation::POOL_HASH: pool["metadata"]["annotations"][annotation::POOL_HASH],
                        annotation::POOL_HASH_VERSION: pool["metadata"]["annotations"][annotation::POOL_HASH_VERSION],
                        annotation::aws::EC2_NODE_CLASS_HASH: class["metadata"]["annotations"][annotation::aws::EC2_NODE_CLASS_HASH],
                        annotation::aws::EC2_NODE_CLASS_HASH_VERSION: class["metadata"]["annotations"][annotation::aws::EC2_NODE_CLASS_HASH_VERSION],
                    },
                    "pool": pool["metadata"]["uid"],
                    "image": class["status"]["amis"].as_array().and_then(|amis| amis.iter().find(|ami| ami["requirements"].to_string().contains("amd64"))).map(|ami| &ami["id"]),
                    "subnets": class["status"]["subnets"],
                    "groups": class["status"]["securityGroups"],
                }));
            }
            ensure!(began.elapsed() < PATIENCE, "pool and class are not ready: {pool:?} {class:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The account gets the machines.
    fn launch(&self, shared: &Value) -> Result<()> {
        let subnets = shared["subnets"].as_array().context("the class has no subnets")?;
        let groups = shared["groups"].as_array().into_iter().flatten();
        let groups: Vec<_> = groups.filter_map(|group| Some(group["id"].as_str()?.into())).collect();
        let launched_at: Timestamp = BEFORE.parse()?;
        for number in 0..NODES {
            let subnet = subnets
                .iter()
                .find(|subnet| subnet["zone"] == zone(number))
                .context("a zone without subnet")?;
            let tags: Tags = [
                (tag::NODE_CLAIM.to_owned(), claim_name(number)),
                (label::NODE_POOL.to_owned(), "general".to_owned()),
                (tag::CLUSTER_NAME.to_owned(), CLUSTER.to_owned()),
                (format!("{}{CLUSTER}", tag::CLUSTER_PREFIX), "owned".to_owned()),
                ("Name".to_owned(), node_name(number)),
            ]
            .into();
            let instance = Instance {
                id: instance(number).as_str().into(),
                instance_type: TYPE.into(),
                image: shared["image"].as_str().context("the class has no image")?.into(),
                state: InstanceState::Running,
                zone: zone(number).as_str().into(),
                zone_id: None,
                tenancy: Tenancy::Default,
                placement_group: None,
                partition: None,
                lifecycle: None,
                spot_request: None,
                reservation: None,
                reservation_preference: None,
                launched_at,
                subnet: subnet["id"].as_str().map(Into::into),
                vpc: None,
                security_groups: groups.clone(),
                interfaces: Vec::new(),
                private_dns: Some(node_name(number)),
                private_ip: None,
                instance_profile: None,
                tags,
            };
            self.account.put_instance(instance, None);
        }
        Ok(())
    }

    /// Returns whether the controller's view is complete and has this number of nodes.
    fn knows(&self, nodes: usize) -> bool {
        let state = &self.metrics.cluster_state;
        #[expect(clippy::cast_precision_loss, reason = "a gauge")]
        let all = state.node_count.value([]) >= nodes as f64;
        all && state.synced.value([]) > 0.0
    }

    async fn until(&self, what: &str, reached: impl Fn() -> bool) -> Result<()> {
        let began = Instant::now();
        while !reached() {
            ensure!(began.elapsed() < PATIENCE, "not reached: {what}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Is scraped once, and prints how long that took.
    fn scrape(&self) {
        let (began, mut bytes, mut lines) = (Instant::now(), 0, 0);
        self.metrics.write(|piece| {
            bytes += piece.len();
            lines += piece.lines().count();
            true
        });
        let took = began.elapsed().as_secs_f64();
        println!("a scrape: {} MB in {lines} lines, {took:.1} s", bytes / 1_000_000);
    }

    /// Waits until memory no longer changes, prints it under `name` and returns what is anonymous of it, in MiB.
    async fn calm(&self, name: &str) -> u64 {
        self.account.forget_calls();
        self.metrics.write(|_| true);
        held::calm(name, 8).await
    }
}

/// Processor time of this process so far.
fn seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u32 = fields[11].parse::<u32>()? + fields[12].parse::<u32>()?;
    // Linux counts in hundredths of a second everywhere.
    Ok(f64::from(ticks) / 100.0)
}

const BEFORE: &str = "2026-01-01T00:00:00Z";

fn zone(number: usize) -> String {
    format!("us-west-2{}", ["a", "b", "c"][number % 3])
}

fn instance(number: usize) -> String {
    format!("i-{number:017x}")
}

fn claim_name(number: usize) -> String {
    format!("general-{number}")
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}

fn pod_name(number: usize, age: u64) -> String {
    format!("app-{number}-{age}")
}

fn class() -> Value {
    node_class("default", CLUSTER, &json!({}))
}

/// A pool whose nodes may be consolidated, all of one type.
fn pool() -> Value {
    let requirements = [one_of(label::INSTANCE_TYPE, &[TYPE]), one_of(label::CAPACITY_TYPE, &["on-demand"])];
    let spec = json!({
        "template": {"spec": {"expireAfter": "Never"}},
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"},
    });
    node_pool("general", &requirements, &spec)
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": BEFORE})
}

/// Claim, Node and pods of a machine.
fn machine(number: usize, shared: &Value) -> Vec<Value> {
    let (claim, node) = (claim_name(number), node_name(number));
    let labels = json!({
        label::NODE_POOL: "general", label::INSTANCE_TYPE: TYPE, label::ZONE: zone(number),
        label::CAPACITY_TYPE: "on-demand", label::ARCH: "amd64", label::OS: "linux", label::HOSTNAME: node,
        label::REGISTERED: "true", label::INITIALIZED: "true", "karpenter.k8s.aws/ec2nodeclass": "default",
    });
    let room = json!({"cpu": "7910m", "memory": "29Gi", "pods": "58"});
    let id = format!("aws:///{}/{}", zone(number), instance(number));
    let states = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "general", "uid": shared["pool"]}]);
    let mut objects = vec![
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": claim, "uid": format!("claim-{number}"), "labels": labels, "annotations": shared["annotations"],
                "creationTimestamp": BEFORE, "ownerReferences": owner, "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {"requirements": pool()["spec"]["template"]["spec"]["requirements"], "expireAfter": "Never", "nodeClassRef": class_ref("default")},
            "status": {
                "providerID": id, "nodeName": node, "imageID": shared["image"], "capacity": room, "allocatable": room,
                "conditions": states,
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": node, "uid": format!("node-{number}"), "labels": labels, "creationTimestamp": BEFORE,
                "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {"providerID": id},
            "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
        }),
    ];
    objects.extend((0..PODS_OF_NODE).map(|index| pod(number * PODS_OF_NODE + index, 0)));
    objects
}

/// The pod with this number, which was replaced so often.
fn pod(number: usize, age: u64) -> Value {
    let (name, app) = (pod_name(number, age), format!("app-{}", number % 500));
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "labels": {"app": app, "pod-template-hash": "6d4b75cb6d"},
            "creationTimestamp": BEFORE, "ownerReferences": owner,
        },
        "spec": {
            "nodeName": node_name(number / PODS_OF_NODE), "serviceAccountName": "default",
            "containers": [{
                "name": "app", "image": format!("registry.example.com/shop/{app}:1.27.3"),
                "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"requests": {"cpu": "780m", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
            }],
        },
        "status": {
            "phase": "Running", "startTime": BEFORE, "podIP": "10.1.2.3",
            "conditions": [condition("PodScheduled"), condition("Ready")],
        },
    })
}
