//! The world of one run: a cluster and an account in memory on one virtual clock, made ready by the product's own bootstrap.
//!
//! Its [`WorldOptions`] says how large it is and how fast its machines are: small and busy for random histories, what a file asks
//! for in scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use jiff::Timestamp;
use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::{CapacityReservation, Instance, Lifecycle};
use karpenter_aws_api::id::{InstanceId, Zone};
use karpenter_aws_sim::examples::capacity_reservation;
use karpenter_aws_sim::{Account, Options, Range};
use karpenter_bootstrap::make_ready;
use karpenter_kube_sim::apiserver::store::Kept;
use karpenter_kube_sim::apiserver::{self, ApiServer};
use karpenter_kube_sim::kubelet::{self, Agent, Behaviour};
use karpenter_kube_sim::{VirtualClock, kube_system};
use karpenter_model::names::{annotation, label, tag};
use karpenter_model::{Clock, Price};
use karpenter_testkit::objects::node_class;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::check::Truth;
use crate::defect::SECOND_BUDGET;
use crate::fault_injector::FaultInjector;
use crate::history::{Company, Fault, History, Kind, Policy, Pool, Reservation, Workload};
use crate::life::Life;
use crate::machines::{Fleet, Rule};
use crate::timed_fault::{Begun, TimedFault};
use crate::trace::Trace;

/// Name of the cluster of random histories, and of its interruption queue.
pub(crate) const CLUSTER: &str = "sim";
/// Daemon of every node, in random histories that have daemons.
const DAEMON: &str = "agent";
/// Additional daemon of spot nodes.
const SPOT_DAEMON: &str = "spot-agent";
/// The storage class of random histories.
const STORAGE_CLASS: &str = "gp3";
/// Time at which random histories begin.
pub(crate) const START: &str = "2026-01-01T12:00:00Z";
/// Time for which the API server keeps changes: ten times as long as any watch is held up. With all of them, the history is
/// most of the memory that a day of a large cluster takes.
const KEPT: Duration = Duration::from_mins(10);
/// Instance types on sale: the smallest number that has a few of every family.
const TYPES: usize = 40;

/// Options that a world is built from.
pub(crate) struct WorldOptions {
    /// Name of the cluster, and of its interruption queue.
    pub(crate) cluster: String,
    /// Time at which it begins.
    pub(crate) start: Timestamp,
    pub(crate) account: Options,
    pub(crate) machines: kubelet::Options,
    /// Time between two runs of the checkers.
    pub(crate) look: Duration,
    /// Objects that exist at the start, besides the definitions.
    pub(crate) objects: Vec<Value>,
    /// Settings of the controller that differ from their defaults.
    pub(crate) settings: BTreeMap<String, String>,
}

/// Everything but the controllers; it survives their crashes.
pub(crate) struct World {
    pub(crate) history: Arc<History>,
    pub(crate) server: ApiServer,
    pub(crate) account: Account,
    pub(crate) agent: Arc<Agent>,
    machines: Arc<Fleet>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) weather: FaultInjector,
    pub(crate) truth: Truth,
    pub(crate) trace: Trace,
    /// Name of the cluster, and of its interruption queue.
    pub(crate) cluster: String,
    /// Settings of the controller that differ from their defaults.
    pub(crate) settings: BTreeMap<String, String>,
    /// Between two heartbeats of a node.
    heartbeat: Duration,
    look: Duration,
    lives: Mutex<BTreeMap<usize, Life>>,
    begun: Begun,
    broken: Mutex<BTreeSet<InstanceId>>,
}

impl World {
    /// The world of a random history at its beginning. Must be called within a runtime whose clock is paused.
    pub(crate) async fn new(history: &Arc<History>, trace: Trace) -> Result<Self> {
        let reserved = !history.reservations.is_empty();
        let mut objects = vec![if reserved { class_with_reservations() } else { class() }, storage_class()];
        objects.extend(history.pools.iter().map(|pool| pool_object(pool, reserved)));
        objects.extend(history.daemons.then(daemon_sets).into_iter().flatten());
        for workload in &history.workloads {
            objects.extend(objects_of(workload));
        }
        let world_options = WorldOptions {
            cluster: CLUSTER.to_owned(),
            start: START.parse()?,
            account: options_of(history),
            machines: machines(),
            look: Duration::from_secs(1),
            objects,
            settings: settings(history),
        };
        let world = Self::on(history, world_options, trace).await?;
        for reservation in &history.reservations {
            world.reserve(reservation);
        }
        Ok(world)
    }

    /// A world on `world_options` at its beginning, with the faults and the seed of `history`. Must be called within a runtime
    /// whose clock is paused.
    pub(crate) async fn on(
        history: &Arc<History>,
        world_options: WorldOptions,
        trace: Trace,
    ) -> Result<Self> {
        let WorldOptions { cluster, start, account, machines, look, objects, settings: differing } =
            world_options;
        let clock = Arc::new(VirtualClock::starting_at(start));
        let time: Arc<dyn Clock> = clock.clone();
        let usual = apiserver::Options::new(Arc::clone(&time));
        let kept = Kept { age: KEPT, ..usual.kept };
        let options = apiserver::Options { seed: history.seed, kept, ..usual };
        let server = ApiServer::with_options(options);
        let account = Account::with_clock(account, Arc::clone(&time));
        let clients = account.clients();
        make_ready(&clients, &cluster).await.context("cannot make the account ready")?;
        let types = clients.ec2.describe_instance_types(&Default::default()).await?.items;
        let cores = types.into_iter().map(|info| (info.name.to_string(), info.vcpus)).collect();
        let heartbeat = machines.heartbeat;
        let options = kubelet::Options { cluster_name: cluster.clone(), ..machines };
        let machines = Arc::new(Fleet::new(&account, &cluster));
        let agent = Arc::new(Agent::new(server.client(), machines.clone(), time, options));
        let truth = Truth::new(server.clone(), account.clone(), trace.clone(), cores);
        let weather = FaultInjector::of(history);
        let world = Self {
            history: Arc::clone(history),
            server,
            account,
            agent,
            machines,
            clock,
            weather,
            truth,
            trace,
            cluster,
            settings: differing,
            heartbeat,
            look,
            lives: Mutex::default(),
            begun: Begun::default(),
            broken: Mutex::default(),
        };
        for object in karpenter_api::crd_values().iter().chain(&objects) {
            world.load(object)?;
        }
        Ok(world)
    }

    /// Runs scheduler, workload controllers, kubelets and checkers.
    pub(crate) fn spawn(self: &Arc<Self>, tasks: &mut JoinSet<()>, stop: &CancellationToken) {
        let (server, stopped) = (self.server.clone(), stop.clone());
        let heartbeat_grace = self.heartbeat * 3;
        tasks.spawn(async move {
            let options = kube_system::Options {
                tick: Duration::from_millis(500),
                heartbeat_grace,
                // Long enough for one that does not wait to be noticed.
                detach: Duration::from_secs(20),
                ..kube_system::Options::default()
            };
            kube_system::run(&server, options, stopped).await;
        });
        let (agent, stopped) = (Arc::clone(&self.agent), stop.clone());
        tasks.spawn(async move { agent.run(stopped).await });
        let (truth, stopped, look) = (self.truth.clone(), stop.clone(), self.look);
        tasks.spawn(async move {
            while !stopped.is_cancelled() {
                truth.look();
                tokio::time::sleep(look).await;
            }
        });
    }

    /// Loads a deployment with its budgets and the claim of its volume.
    pub(crate) fn deploy(&self, workload: &Workload) -> Result<()> {
        objects_of(workload).iter().try_for_each(|object| self.load(object))
    }

    /// Reserves capacity in the account.
    pub(crate) fn reserve(&self, reservation: &Reservation) {
        let Reservation { id, instance_type, zone, instances } = reservation;
        self.account.put_capacity_reservation(CapacityReservation {
            instance_type: (*instance_type).into(),
            zone: self.zone(*zone),
            total: *instances,
            available: *instances,
            tags: Tags::from([(tag::DISCOVERY.to_owned(), self.cluster.clone())]),
            ..capacity_reservation(id)
        });
    }

    /// The zone of this number.
    pub(crate) fn zone(&self, number: usize) -> Zone {
        let letter = ['a', 'b', 'c'][number.min(2)];
        format!("{}{letter}", self.account.options().region).as_str().into()
    }

    fn load(&self, object: &Value) -> Result<()> {
        self.server.load(object).map(drop).map_err(|refusal| anyhow!("the API server refuses: {refusal}"))
    }

    /// Does something to the world after a while.
    pub(crate) fn after(self: &Arc<Self>, delay: Duration, then: impl FnOnce(&Self) + Send + 'static) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            then(&world);
        });
    }

    /// Begins the next process of a replica.
    pub(crate) fn next_life(&self, replica: usize) -> Life {
        let mut lives = self.lives();
        let life = lives.get(&replica).map_or_else(Life::new, Life::successor);
        lives.insert(replica, life.clone());
        life
    }

    /// Cuts a replica off for a while, whether a process of it runs at the moment or not.
    pub(crate) fn cut_off(&self, replica: usize, lasts: Duration) {
        self.lives().entry(replica).or_insert_with(Life::new).hold(Instant::now() + lasts);
    }

    /// Machines that are launched from now on differ from what is foreseen.
    pub(crate) fn differ(&self, rule: Rule) {
        self.machines.differ(rule);
    }

    /// No machine differs any more from what is foreseen.
    pub(crate) fn alike(&self) {
        self.machines.alike();
    }

    /// A machine fails for good.
    pub(crate) fn break_machine(&self, id: &InstanceId, how: Behaviour) {
        self.agent.behave(id.as_str(), how);
        self.broken.lock().insert(id.clone());
    }

    /// Machines that have failed for good.
    pub(crate) fn broken(&self) -> BTreeSet<InstanceId> {
        self.broken.lock().clone()
    }

    /// Begins a fault that ends after `lasts`; never if `None`.
    pub(crate) fn begin(self: &Arc<Self>, fault: TimedFault, lasts: Option<Duration>) {
        self.begun.add(fault.clone());
        self.set(&fault, true);
        if let Some(lasts) = lasts {
            self.after(lasts, move |world| {
                if world.begun.end_one(&fault) {
                    world.set(&fault, false);
                }
            });
        }
    }

    /// Puts a fault that lasts into effect, or ends its effect.
    fn set(&self, fault: &TimedFault, strikes: bool) {
        match (fault, strikes) {
            (TimedFault::CapacityLoss(offerings), true) => self.account.limit_capacity(offerings.clone(), 0),
            (TimedFault::CapacityLoss(offerings), false) => self.account.unlimit_capacity(offerings),
            (TimedFault::Hidden(what), hidden) => self.weather.hide(what, hidden),
            (TimedFault::NeverJoin, true) => self.agent.behave_all(Behaviour::NeverJoins),
            (TimedFault::NeverJoin, false) => self.agent.behave_all(Behaviour::Healthy),
        }
    }

    /// The process of a replica changes.
    pub(crate) fn lives(&self) -> MutexGuard<'_, BTreeMap<usize, Life>> {
        self.lives.lock()
    }
}

fn settings(history: &History) -> BTreeMap<String, String> {
    let gates = format!("StaticCapacity=true,NodeRepair={}", history.repairs);
    let differing = [("feature-gates", gates.as_str()), ("min-values-policy", "BestEffort")];
    differing.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

fn options_of(history: &History) -> Options {
    let invisible_for = Duration::from_secs(if history.has(Fault::AwsStale) { 8 } else { 0 });
    Options { invisible_for, ..account() }
}

/// Machines of drawn worlds.
pub(crate) fn machines() -> kubelet::Options {
    kubelet::Options {
        boot: Duration::from_secs(15),
        ready: Duration::from_secs(5),
        // Heartbeats are most of what there is to compute, and decide nothing here.
        heartbeat: Duration::from_secs(40),
        poll: Duration::from_secs(5),
        ..kubelet::Options::default()
    }
}

/// The account of a drawn world in which nothing is wrong.
pub(crate) fn account() -> Options {
    Options {
        cluster: CLUSTER.to_owned(),
        kubernetes_version: "1.35".to_owned(),
        zones: 3,
        instance_types: Range::Count(TYPES),
        boot_delay: Duration::from_secs(8),
        shutdown_delay: Duration::from_secs(20),
        ..Options::default()
    }
}

/// Dollars per hour of an instance, at the list prices of an account in memory; 0 for a type it does not sell.
pub fn price(account: &Account, instance: &Instance) -> Price {
    let (name, zone) = (instance.instance_type.as_str(), instance.zone.as_str());
    let nanos = match instance.lifecycle {
        Some(Lifecycle::Spot) => account.spot_price(name, zone),
        _ => account.on_demand_price(name),
    };
    Price::from_nanos(nanos.and_then(|nanos| i64::try_from(nanos).ok()).unwrap_or_default())
}

/// The class of all pools of a drawn world.
pub(crate) fn class() -> Value {
    node_class("default", CLUSTER, &json!({}))
}

/// Returns the class, for instances in the account's capacity reservations, too.
fn class_with_reservations() -> Value {
    let tagged = json!([{"tags": {tag::DISCOVERY: CLUSTER}}]);
    node_class("default", CLUSTER, &json!({"capacityReservationSelectorTerms": tagged}))
}

fn pool_object(pool: &Pool, reserved: bool) -> Value {
    let kinds: Vec<&str> = [("reserved", reserved), ("spot", pool.spot), ("on-demand", true)]
        .into_iter()
        .filter_map(|(kind, allowed)| allowed.then_some(kind))
        .collect();
    let mut template = json!({
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "expireAfter": pool.expire_after.map_or_else(|| "Never".to_owned(), |minutes| format!("{minutes}m")),
        "requirements": [
            {"key": label::CAPACITY_TYPE, "operator": "In", "values": kinds},
            {"key": label::ARCH, "operator": "In", "values": ["amd64"]},
        ],
    });
    if pool.two_zones
        && let Some(all) = template["requirements"].as_array_mut()
    {
        all.push(json!({"key": label::ZONE, "operator": "Exists", "minValues": 2}));
    }
    if let Some(seconds) = pool.grace {
        template["terminationGracePeriod"] = json!(format!("{seconds}s"));
    }
    let policy = match pool.policy {
        Policy::WhenEmpty => "WhenEmpty",
        Policy::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
        Policy::Balanced => "Balanced",
    };
    let mut spec = json!({
        "template": {"spec": template},
        "disruption": {
            "consolidationPolicy": policy,
            "consolidateAfter": format!("{}s", pool.consolidate_after),
            "budgets": [{"nodes": pool.budget.to_string()}],
        },
    });
    match pool.replicas {
        Some(replicas) => spec["replicas"] = json!(replicas),
        None => spec["weight"] = json!(pool.weight),
    }
    if let Some(cores) = pool.cores {
        spec["limits"] = json!({"cpu": cores.to_string()});
    }
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}, "spec": spec})
}

/// A deployment, its budgets and the claim of its volume.
fn objects_of(workload: &Workload) -> Vec<Value> {
    let budgets = match (workload.guarded, workload.twice_guarded) {
        (_, true) => vec![budget(&workload.name, ""), budget(&workload.name, SECOND_BUDGET)],
        (true, false) => vec![budget(&workload.name, "")],
        (false, false) => Vec::new(),
    };
    let claim = workload.volume.then(|| claim(&workload.name));
    std::iter::once(controller(workload)).chain(budgets).chain(claim).collect()
}

/// Returns the daemon sets of every node and of spot nodes. Both use one host port: a spot node runs one of them.
fn daemon_sets() -> [Value; 2] {
    [(DAEMON, json!({})), (SPOT_DAEMON, json!({label::CAPACITY_TYPE: "spot"}))].map(|(name, selector)| {
        let labels = json!({"app": name});
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "nodeSelector": selector,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{
                        "name": "c", "image": "i", "ports": [{"containerPort": 9100, "hostPort": 9100}],
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    }],
                }},
            },
        })
    })
}

/// The claim of a workload's volume.
fn claim(workload: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": workload, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

/// Class of all volumes: they are made in the zone that their first pod goes to.
fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": STORAGE_CLASS},
        "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// A deployment, a stateful set or a job.
fn controller(workload: &Workload) -> Value {
    let labels = json!({"app": workload.name});
    let mut container = json!({
        "name": "c", "image": "i",
        "resources": {"requests": {"cpu": format!("{}m", workload.millicores), "memory": "128Mi"}},
    });
    if workload.kind == Kind::Job {
        container["command"] = json!(["sleep", "150"]);
    }
    let mut spec = json!({"terminationGracePeriodSeconds": 5, "containers": [container]});
    if workload.spread {
        spec["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": label::ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }]);
    }
    if workload.volume {
        spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": workload.name}}]);
    }
    let hosts =
        |app: &str| json!({"topologyKey": label::HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}});
    let away = workload.company == Some(Company::Apart);
    let apart: Vec<Value> = [(workload.apart, workload.name.as_str()), (away, SPOT_DAEMON)]
        .into_iter()
        .filter(|(apart, _)| *apart)
        .map(|(_, app)| hosts(app))
        .collect();
    let beside: Vec<Value> =
        (workload.company == Some(Company::Beside)).then(|| hosts(DAEMON)).into_iter().collect();
    for (kind, terms) in [("podAntiAffinity", apart), ("podAffinity", beside)] {
        if !terms.is_empty() {
            spec["affinity"][kind] = json!({"requiredDuringSchedulingIgnoredDuringExecution": terms});
        }
    }
    let mut metadata = json!({"labels": labels});
    if workload.do_not_disrupt {
        metadata["annotations"] = json!({annotation::DO_NOT_DISRUPT: "true"});
    }
    let (version, kind, counts) = match workload.kind {
        Kind::Deployment => ("apps/v1", "Deployment", json!({"replicas": workload.replicas})),
        Kind::StatefulSet => {
            ("apps/v1", "StatefulSet", json!({"replicas": workload.replicas, "serviceName": workload.name}))
        }
        Kind::Job => {
            spec["restartPolicy"] = json!("OnFailure");
            (
                "batch/v1",
                "Job",
                json!({"completions": workload.replicas, "parallelism": workload.replicas, "backoffLimit": 100}),
            )
        }
    };
    let mut object = json!({
        "apiVersion": version, "kind": kind, "metadata": {"name": workload.name, "namespace": "default"},
        "spec": counts,
    });
    if workload.kind != Kind::Job {
        object["spec"]["selector"] = json!({"matchLabels": labels});
    }
    object["spec"]["template"] = json!({"metadata": metadata, "spec": spec});
    object
}

/// A disruption budget of the pods of a workload; `suffix` tells it from another one.
pub(crate) fn budget(workload: &str, suffix: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": format!("{workload}{suffix}"), "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": workload}}},
    })
}
