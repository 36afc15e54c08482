//! Memory of the controller: `cargo bench -p karpenter-compose --bench memory` prints the table of
//! docs/performance.md and which bars are missed.
//!
//! The controller is the one of the program, put together by the same file, on an account in memory that sells 1,100
//! instance types in three zones. The API server, with a scheduler and the garbage collector of a cluster but without
//! nodes, is the one of the tests; it runs in a process of its own, so that nothing of it is measured. What the
//! account holds cannot be separated in the same way: it is measured before the controller starts, printed,
//! and left in the figures.
//!
//! Anonymous resident memory is what counts: pages of the program file can be had back at any time.

#![expect(clippy::print_stdout, reason = "a measurement is printed")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a measurement that does not work stops and says why")]

mod held;
mod parts;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use held::{held, row};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use karpenter_api::{ConditionStatus, EC2NodeClass, NodeClaim, NodePool};
use karpenter_aws_api::iam::RoleSpec;
use karpenter_aws_sim::{Account, Options, Range};
use karpenter_compose::WallClock;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_kube_sim::kube_system;
use karpenter_telemetry::metrics::Metrics;
use karpenter_testkit::objects::{class_ref, node_class, node_pool, one_of};
use kube::api::{Api, DeleteParams, PostParams};
use parts::parts;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Instance types on sale.
const TYPES: usize = 1_100;
/// Zones they are sold in.
const ZONES: u8 = 3;
/// Pools and classes at most at a time, the one that is always there included.
const MANY: usize = 50;
/// Rounds of making and deleting, and how many of each in one.
const ROUNDS: usize = 20;
const PER_ROUND: usize = 10;
/// Pods that are planned for at once.
const PODS: usize = 1_000;

/// Anonymous resident memory at most, in MiB.
const BAR_ONE_POOL: u64 = 80;
const BAR_PODS: u64 = 120;
/// Memory that one more pool and class may add.
const BAR_EACH: u64 = 3;
/// Growth over all rounds at most, in percent.
const BAR_GROWTH: u64 = 10;

/// Longest time that anything may take before the measurement is called broken.
const PATIENCE: Duration = Duration::from_mins(5);

/// Lets EC2 instances take a role.
const TRUST: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    if std::env::args().any(|word| word == "--serve") {
        return runtime.block_on(serve());
    }
    let server = Server::start()?;
    runtime.block_on(measure(&server.url))
}

/// The API server, until the process that started it is gone.
async fn serve() -> Result<()> {
    let server = ApiServer::new(Arc::new(WallClock));
    for definition in karpenter_api::crd_values() {
        server.load(&definition).map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    }
    let serving = server.serve(tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?)?;
    let system = server.clone();
    tokio::spawn(async move {
        kube_system::run(&system, kube_system::Options::default(), CancellationToken::new()).await;
    });
    println!("{}", serving.url());
    std::io::stdout().flush()?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

/// The process the API server runs in.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the API server")?;
        let mut url = String::new();
        let output = process.stdout.take().context("the API server has no output")?;
        BufReader::new(output).read_line(&mut url)?;
        Ok(Self { process, url: url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended_by_itself = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The controller and the ways to what it works on.
struct World {
    client: kube::Client,
    account: Account,
    metrics: Arc<Metrics>,
    missed: Vec<String>,
}

async fn measure(url: &str) -> Result<()> {
    println!("{:<44} {:>9} {:>9} {:>9}", "MiB", "anonymous", "resident", "peak");
    let options = Options {
        zones: ZONES,
        instance_types: Range::Count(TYPES),
        kubernetes_version: "1.35".to_owned(),
        shutdown_delay: Duration::from_secs(1),
        ..Options::default()
    };
    let account = Account::with_clock(options, Arc::new(WallClock));
    row("the account alone, before the controller starts", held());
    let config = kube::Config::new(url.parse()?);
    let client = kube::Client::try_from(config.clone())?;
    let metrics = Arc::new(Metrics::new());
    let mut world = World { client, account, metrics, missed: Vec::new() };
    world.create_role().await;
    let parts = parts(&world.account, &world.metrics, &world.client, &config, "demo")?;
    let shutdown = CancellationToken::new();
    let controller = tokio::spawn(karpenter_compose::run(parts, shutdown.clone()));
    tokio::select! {
        ended = controller => bail!("the controller has ended: {ended:?}"),
        measured = stages(&mut world) => measured?,
    }
    shutdown.cancel();
    ensure!(world.missed.is_empty(), "bars missed: {}", world.missed.join("; "));
    println!("no bar missed");
    Ok(())
}

async fn stages(world: &mut World) -> Result<()> {
    world.make(0..1).await?;
    // Published once a minute: a series for every offering.
    let offerings = &world.metrics.cloud.instance_type_offering_available;
    world.until("offerings are published", async || !offerings.published().is_empty()).await?;
    let one = world.calm("one pool and class").await;
    world.bar("one pool and class", one, BAR_ONE_POOL);

    world.plan_pods().await?;
    let planned = world.calm("1,000 pods planned and launched for").await;
    world.bar("1,000 pods", planned, BAR_PODS);
    world.remove_pods().await?;
    let before = world.calm("pods and machines gone").await;

    world.make(1..MANY).await?;
    world.plan_once().await?;
    let many = world.calm("50 pools and classes, after a plan").await;
    world.bar("50 pools and classes", many, before + (MANY as u64 - 1) * BAR_EACH);
    world.delete(1..MANY).await?;
    let before = world.calm("one pool and class again").await;

    for round in 1..=ROUNDS {
        let numbers = round * 100..round * 100 + PER_ROUND;
        world.make(numbers.clone()).await?;
        world.plan_once().await?;
        world.delete(numbers).await?;
        if round % 5 == 0 {
            world.calm(&format!("after {round} rounds of making and deleting 10")).await;
        }
    }
    let after = held().anonymous;
    world.bar("after all rounds", after, before + before * BAR_GROWTH / 100);

    let others = || (1..=PER_ROUND).map(|number| (number, Some(7 + number)));
    world.make_all(others()).await?;
    world.plan_once().await?;
    world.calm("10 more whose kubelets differ, after a plan").await;
    world.delete(1..1 + PER_ROUND).await?;
    let after = world.calm("one pool and class again").await;
    world.bar("after classes that differ", after, before + before * BAR_GROWTH / 100);
    Ok(())
}

impl World {
    async fn create_role(&self) {
        let role = RoleSpec {
            name: "node-role".to_owned(),
            path: "/".to_owned(),
            description: String::new(),
            trust: TRUST.to_owned(),
            permissions_boundary: None,
            tags: Default::default(),
        };
        self.account.clients().iam.create_role(&role).await.unwrap();
    }

    /// Makes a class and a pool for each number, all of the same content, and waits until they are ready.
    async fn make(&self, numbers: std::ops::Range<usize>) -> Result<()> {
        self.make_all(numbers.map(|number| (number, None))).await
    }

    /// Makes a class and a pool for each number as [`Self::make`] does; the kubelets of a class take at most
    /// the number of pods given beside it.
    async fn make_all(&self, all: impl Iterator<Item = (usize, Option<usize>)>) -> Result<()> {
        let mut count = 0;
        for (number, max_pods) in all {
            let mut class = class(number);
            if let Some(max_pods) = max_pods {
                class["spec"]["kubelet"] = json!({ "maxPods": max_pods });
            }
            self.create::<EC2NodeClass>(class).await?;
            self.create::<NodePool>(pool(number)).await?;
            count += 1;
        }
        self.until("pools are ready", async || {
            let pools = self.list::<NodePool>().await;
            let ready = pools.iter().filter(|pool| {
                let conditions = pool.status.iter().flat_map(|status| &status.conditions);
                conditions.into_iter().any(|one| one.kind == "Ready" && one.status == ConditionStatus::True)
            });
            ready.count() == pools.len() && pools.len() >= count
        })
        .await
    }

    /// Deletes them, and waits until they are gone.
    async fn delete(&self, numbers: std::ops::Range<usize>) -> Result<()> {
        for number in numbers {
            let name = format!("same-{number}");
            Api::<NodePool>::all(self.client.clone()).delete(&name, &DeleteParams::default()).await?;
            Api::<EC2NodeClass>::all(self.client.clone()).delete(&name, &DeleteParams::default()).await?;
        }
        self.until("pools and classes are gone", async || {
            self.list::<NodePool>().await.len() == 1 && self.list::<EC2NodeClass>().await.len() == 1
        })
        .await
    }

    /// Lets the provisioner make a plan over all pools from which nothing follows.
    async fn plan_once(&self) -> Result<()> {
        let passes = || self.metrics.scheduler.scheduling_duration_seconds.count(["provisioner"]);
        let before = passes();
        let mut sets = replica_set("nowhere", 1, "1", "1Gi");
        sets["spec"]["template"]["spec"]["nodeSelector"] = json!({ "example.com/place": "nowhere" });
        self.create_in_default::<ReplicaSet>(sets).await?;
        self.until("a plan was made", async || passes() > before).await?;
        self.delete_pods(&["nowhere"]).await
    }

    async fn plan_pods(&self) -> Result<()> {
        let sizes = ["100m", "250m", "500m", "1", "1500m", "2", "3", "4", "6", "7"];
        for (number, cpu) in sizes.iter().enumerate() {
            let memory = format!("{}Mi", 256 * (number + 1));
            let set = replica_set(&format!("pods-{number}"), PODS / sizes.len(), cpu, &memory);
            self.create_in_default::<ReplicaSet>(set).await?;
        }
        self.until("every pod has a place, and every claim its machine", async || {
            let claims = self.list::<NodeClaim>().await;
            let launched = |claim: &NodeClaim| claim.status.as_ref()?.provider_id.clone();
            claims.iter().all(|claim| launched(claim).is_some())
                && claims.iter().map(pods_of).sum::<usize>() >= PODS
        })
        .await
    }

    async fn remove_pods(&self) -> Result<()> {
        let names: Vec<String> = (0..10).map(|number| format!("pods-{number}")).collect();
        self.delete_pods(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
        let claims = Api::<NodeClaim>::all(self.client.clone());
        for claim in self.list::<NodeClaim>().await {
            let name = claim.metadata.name.context("a claim without name")?;
            claims.delete(&name, &DeleteParams::default()).await?;
        }
        self.until("claims are gone", async || self.list::<NodeClaim>().await.is_empty()).await
    }

    async fn delete_pods(&self, sets: &[&str]) -> Result<()> {
        let api = Api::<ReplicaSet>::namespaced(self.client.clone(), "default");
        for set in sets {
            api.delete(set, &DeleteParams::background()).await?;
        }
        self.until("pods are gone", async || self.pods().await == 0).await
    }

    async fn pods(&self) -> usize {
        self.list::<Pod>().await.len()
    }

    async fn create<K>(&self, object: Value) -> Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        Api::<K>::all(self.client.clone()).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn create_in_default<K>(&self, object: Value) -> Result<()>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        Api::<K>::namespaced(self.client.clone(), "default").create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
    {
        Api::<K>::all(self.client.clone()).list(&Default::default()).await.unwrap().items
    }

    async fn until(&self, what: &str, reached: impl AsyncFn() -> bool) -> Result<()> {
        let started = Instant::now();
        while !reached().await {
            ensure!(started.elapsed() < PATIENCE, "not reached: {what}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Waits until memory no longer changes, prints it under `name` and returns what is anonymous of it, in MiB.
    async fn calm(&self, name: &str) -> u64 {
        // The log is the account's, and every controller is scraped regularly.
        self.account.forget_calls();
        self.metrics.write(|_| true);
        held::calm(name, 4).await
    }

    fn bar(&mut self, what: &str, mib: u64, bar: u64) {
        if mib > bar {
            self.missed.push(format!("{what}: {mib} MiB, bar {bar}"));
        }
    }
}

/// Pods a claim was made for.
fn pods_of(claim: &NodeClaim) -> usize {
    let spec = json!(claim.spec);
    spec["resources"]["requests"]["pods"].as_str().and_then(|pods| pods.parse().ok()).unwrap_or_default()
}

fn class(number: usize) -> Value {
    node_class(&format!("same-{number}"), "demo", &json!({ "role": "node-role" }))
}

fn pool(number: usize) -> Value {
    let name = format!("same-{number}");
    let spec = json!({
        "template": { "spec": { "nodeClassRef": class_ref(&name) } },
        "disruption": { "consolidateAfter": "Never" },
    });
    node_pool(&name, &[one_of("karpenter.sh/capacity-type", &["spot", "on-demand"])], &spec)
}

fn replica_set(name: &str, replicas: usize, cpu: &str, memory: &str) -> Value {
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{
                    "name": "c", "image": "i", "resources": { "requests": { "cpu": cpu, "memory": memory } },
                }] },
            },
        },
    })
}
