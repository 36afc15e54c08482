//! A whole cluster in memory: API server, `kube-system`, kubelets, cloud, and the controllers on top.
//!
//! Tests wait for a state, not for a time: [`World::until`] looks every virtual second and dumps everything when
//! the state does not come.

mod calls;
mod machines;
mod slow;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use karpenter_api::{NodeClaim, NodePool};
use karpenter_cloud::memory::{Account, Catalogue, MemoryProvider, Options};
use karpenter_cloud::{OfferingKey, Provider};
use karpenter_controllers::explain::Answer;
use karpenter_controllers::{Context, Explanations, RunError, Settings, View, Watching};
use karpenter_kube_harness::server::Readiness;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_kube_sim::apiserver::listing::{Listed, Listing};
use karpenter_kube_sim::apiserver::stored::{self, Stored};
use karpenter_kube_sim::kubelet::Agent;
use karpenter_kube_sim::{VirtualClock, kube_system, kubelet};
use karpenter_model::settings::FeatureGates;
use karpenter_model::{CapacityType, Clock};
use karpenter_telemetry::events::{Event, MemorySink, Recorder};
use karpenter_telemetry::logging;
use karpenter_telemetry::metrics::Metrics;
use karpenter_testkit::objects::{self, merge};
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use calls::{Calls, Crash, Forbidden};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_mins(1);

/// Everything but the controllers; it survives their crashes.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: kube::Client,
    pub(crate) account: Arc<Account>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) forbidden: Forbidden,
    /// Time from the start of a machine to the answer to its launch.
    pub(crate) launches_take: Duration,
    pub(crate) catalogue: Arc<Catalogue>,
    listing: Listing,
    stop: CancellationToken,
}

/// One process of the controllers.
pub(crate) struct Process {
    pub(crate) events: MemorySink,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) explanations: Explanations,
    pub(crate) readiness: Readiness,
    pub(crate) calls: Calls,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    /// A cluster with one ready node class and nothing else.
    pub(crate) async fn new() -> Self {
        Self::defined(|_| {}).await
    }

    /// Starts a world with changed definitions of our kinds.
    #[expect(clippy::unused_async, reason = "it spawns tasks, so it must be called on a runtime")]
    pub(crate) async fn defined(change: impl Fn(&mut Value)) -> Self {
        log();
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let clock = Arc::new(VirtualClock::starting_at(start));
        let server = ApiServer::new(clock.clone());
        for mut crd in karpenter_api::crd::crd_values() {
            change(&mut crd);
            server.load(&crd).unwrap();
        }
        server.load(&class_definition()).unwrap();
        let account = Account::new(clock.clone(), Options::default());
        let catalogue = Arc::new(Catalogue::small(&["zone-a", "zone-b"]));
        let client = server.client();
        let stop = CancellationToken::new();
        let machines = Arc::new(machines::InMemory(Arc::clone(&account)));
        let agent =
            Arc::new(Agent::new(client.clone(), machines, clock.clone(), kubelet::Options::default()));
        let (kubelets, stopped) = (Arc::clone(&agent), stop.clone());
        tokio::spawn(async move { kubelets.run(stopped).await });
        let (system, stopped) = (server.clone(), stop.clone());
        tokio::spawn(
            async move { kube_system::run(&system, kube_system::Options::default(), stopped).await },
        );
        let (launches_take, listing) = (Duration::ZERO, Listing::default());
        let forbidden = Forbidden::default();
        let world = Self {
            server,
            client,
            account,
            agent,
            clock,
            forbidden,
            launches_take,
            catalogue,
            listing,
            stop,
        };
        world.class("default");
        world
    }

    /// Starts a world with a pool `default`, changed by `spec`.
    pub(crate) async fn with_pool(spec: &Value) -> Self {
        let world = Self::new().await;
        world.pool("default", spec);
        world
    }

    /// Starts the controllers as a new process that knows nothing.
    pub(crate) fn start(&self) -> Process {
        self.start_with(Crash::Never)
    }

    /// Starts a process that crashes when `crash` says so.
    pub(crate) fn start_with(&self, crash: Crash) -> Process {
        self.start_crashing(crash, |_| {})
    }

    /// Starts a process with the feature gates that `open` opens.
    pub(crate) fn start_gated(&self, open: impl FnOnce(&mut FeatureGates)) -> Process {
        self.start_crashing(Crash::Never, open)
    }

    /// Starts a process with the feature gates that `open` opens, which crashes when `crash` says so.
    pub(crate) fn start_crashing(&self, crash: Crash, open: impl FnOnce(&mut FeatureGates)) -> Process {
        let mut gates = FeatureGates::default();
        open(&mut gates);
        let decisions = karpenter_model::Settings { gates, ..karpenter_model::Settings::default() };
        self.start_as(crash, decisions, karpenter_controllers::run)
    }

    /// Starts a process that decides by these settings.
    pub(crate) fn start_deciding(&self, decisions: karpenter_model::Settings) -> Process {
        self.start_as(Crash::Never, decisions, karpenter_controllers::run)
    }

    /// Starts a process that repairs nodes as v1.14 did.
    pub(crate) fn start_legacy_repair(&self) -> Process {
        let gates = FeatureGates { node_repair: true, ..FeatureGates::default() };
        let decisions = Arc::new(karpenter_model::Settings { gates, ..karpenter_model::Settings::default() });
        let settings = Settings { decisions, legacy_node_repair: true, ..Settings::default() };
        self.start_set(Crash::Never, settings, karpenter_controllers::run)
    }

    /// Starts a process with which the nodes of one plan wait for each other for this long.
    pub(crate) fn start_ready_together(&self, longest: Duration) -> Process {
        let settings = Settings { ready_together: longest, ..Settings::default() };
        self.start_set(Crash::Never, settings, karpenter_controllers::run)
    }

    /// Starts a process that watches at once and leads `later`.
    pub(crate) fn start_waiting(&self, later: Duration) -> Process {
        self.start_as(
            Crash::Never,
            karpenter_model::Settings::default(),
            move |context, readiness, shutdown| async move {
                let watching = Watching::start(&context, &shutdown);
                watching.synced().await;
                tokio::time::sleep(later).await;
                karpenter_controllers::lead(watching, readiness, shutdown).await
            },
        )
    }

    fn start_as<F: Future<Output = Result<(), RunError>> + Send + 'static>(
        &self,
        crash: Crash,
        decisions: karpenter_model::Settings,
        run: impl FnOnce(Context, Readiness, CancellationToken) -> F,
    ) -> Process {
        self.start_set(crash, Settings { decisions: Arc::new(decisions), ..Settings::default() }, run)
    }

    fn start_set<F: Future<Output = Result<(), RunError>> + Send + 'static>(
        &self,
        crash: Crash,
        settings: Settings,
        run: impl FnOnce(Context, Readiness, CancellationToken) -> F,
    ) -> Process {
        let settings = Arc::new(settings);
        let inner = MemoryProvider::new(Arc::clone(&self.account), Arc::clone(&self.catalogue));
        let provider: Arc<dyn Provider> = Arc::new(slow::Slow { inner, answer: self.launches_take });
        let (events, metrics) = (MemorySink::default(), Arc::new(Metrics::new()));
        let clock: Arc<dyn Clock> = self.clock.clone();
        let time = Arc::clone(&clock);
        let view = Arc::new(View::new(
            Arc::clone(&settings.decisions),
            provider.label_registry(),
            provider.node_class_kinds(),
        ));
        let explanations = Explanations::default();
        let (calls, client) = Calls::around(self.client.clone(), self.forbidden.clone(), crash);
        let repair = karpenter_controllers::repair_policies(provider.repair_policies(), &settings).unwrap();
        let context = Context {
            repair,
            hints: client.clone(),
            client,
            provider,
            clock,
            settings,
            recorder: Arc::new(Recorder::new(events.clone(), move || time.now())),
            metrics: Arc::clone(&metrics),
            view,
            explanations: explanations.clone(),
        };
        let shutdown = CancellationToken::new();
        let readiness = Readiness::default();
        readiness.set_definitions(true);
        let running = run(context, readiness.clone(), shutdown.clone());
        let task = tokio::spawn(async move { running.await.unwrap() });
        Process { events, metrics, explanations, readiness, calls, shutdown, task }
    }

    /// Takes all capacity of a type away, in these ways to buy it.
    pub(crate) fn exhaust(&self, instance_type: &str, capacity_types: &[CapacityType]) {
        for offering in offerings(instance_type, capacity_types) {
            self.account.exhaust(offering);
        }
    }

    /// Gives back what [`Self::exhaust`] took.
    pub(crate) fn restock(&self, instance_type: &str, capacity_types: &[CapacityType]) {
        for offering in offerings(instance_type, capacity_types) {
            self.account.restock(&offering);
        }
    }

    /// Loads any object.
    pub(crate) fn load(&self, object: &Value) {
        self.server.load(object).unwrap();
    }

    /// A pool with the default template, changed by `spec`.
    pub(crate) fn pool(&self, name: &str, spec: &Value) {
        let mut object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {
                "template": {"spec": {
                    "nodeClassRef": {"group": "karpenter.memory", "kind": "MemoryNodeClass", "name": "default"},
                    "requirements": [],
                }},
                "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
            },
        });
        merge(&mut object["spec"], spec);
        self.load(&object);
    }

    /// Merges `spec` into the spec of a pool.
    pub(crate) async fn change_pool(&self, name: &str, spec: &Value) {
        self.patch::<NodePool>(name, json!({"spec": spec})).await;
    }

    /// A node class that is ready.
    pub(crate) fn class(&self, name: &str) {
        self.load(&json!({
            "apiVersion": "karpenter.memory/v1", "kind": "MemoryNodeClass", "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
        }));
    }

    /// Asks for the deletion of a node class.
    pub(crate) async fn delete_class(&self, name: &str) {
        let _gone = self.classes().delete(name, &DeleteParams::default()).await;
    }

    /// The node classes there are.
    pub(crate) async fn class_names(&self) -> Vec<String> {
        let classes = self.classes().list(&ListParams::default()).await.unwrap();
        classes.items.iter().map(ResourceExt::name_any).collect()
    }

    fn classes(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("karpenter.memory", "v1", "MemoryNodeClass");
        Api::all_with(self.client.clone(), &ApiResource::from_gvk(&kind))
    }

    /// Merges `change` into the node class `default`.
    pub(crate) async fn change_class(&self, change: &Value) {
        self.classes().patch("default", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// A pod that wants this much CPU.
    pub(crate) fn pod(&self, name: &str, cpu: &str) {
        self.pod_with(name, cpu, &json!({}));
    }

    /// A pod that wants this much CPU, changed by `spec`.
    pub(crate) fn pod_with(&self, name: &str, cpu: &str, spec: &Value) {
        self.load(&objects::pod(name, cpu, &json!({"spec": spec})));
    }

    /// Pods that come back when they go, each with this much CPU.
    pub(crate) fn set(&self, name: &str, replicas: usize, cpu: &str) {
        self.set_with(name, replicas, cpu, &json!({}));
    }

    /// Pods that come back when they go, changed by `spec`.
    pub(crate) fn set_with(&self, name: &str, replicas: usize, cpu: &str, spec: &Value) {
        self.load(&objects::replica_set(name, replicas, cpu, spec));
    }

    /// Changes the number of pods of a set.
    pub(crate) async fn scale(&self, name: &str, replicas: usize) {
        self.patch::<ReplicaSet>(name, json!({"spec": {"replicas": replicas}})).await;
    }

    /// Says of a pod what a scheduler says that finds no node for it.
    pub(crate) async fn unschedulable(&self, pod: &str) {
        let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        self.patch_status::<Pod>(pod, json!({"conditions": [refused]})).await;
    }

    /// Plays another client: writes the taints of each Node that `change` changes, unless a write came between.
    pub(crate) async fn change_taints(&self, change: impl Fn(&Node, &mut Vec<Taint>)) {
        for node in self.nodes() {
            let before = node.spec.clone().unwrap_or_default().taints.unwrap_or_default();
            let mut taints = before.clone();
            change(&node, &mut taints);
            if taints != before {
                let metadata = json!({"resourceVersion": node.metadata.resource_version});
                let change = json!({"metadata": metadata, "spec": {"taints": taints}});
                let _conflict = stored::patch::<Node>(&self.client, &node.name_any(), change).await;
            }
        }
    }

    /// Asks for the deletion of an object.
    pub(crate) async fn delete<K: Stored>(&self, name: &str) {
        stored::delete::<K>(&self.client, name).await.unwrap();
    }

    /// Asks for the deletion of an object that may have gone already.
    pub(crate) async fn delete_if_there<K: Stored>(&self, name: &str) {
        let _gone = stored::delete::<K>(&self.client, name).await;
    }

    /// Merges `change` into an object.
    pub(crate) async fn patch<K: Stored>(&self, name: &str, change: Value) {
        stored::patch::<K>(&self.client, name, change).await.unwrap();
    }

    /// Merges `status` into the status of an object.
    pub(crate) async fn patch_status<K: Stored>(&self, name: &str, status: Value) {
        stored::patch_status::<K>(&self.client, name, status).await.unwrap();
    }

    pub(crate) fn claims(&self) -> Vec<NodeClaim> {
        self.list()
    }

    pub(crate) fn claim_names(&self) -> BTreeSet<String> {
        self.claims().iter().map(ResourceExt::name_any).collect()
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.list()
    }

    pub(crate) fn pods(&self) -> Vec<Pod> {
        self.list()
    }

    /// All objects of a kind, as they are stored: faults that tests inject into requests do not reach it.
    pub(crate) fn list<K: Listed>(&self) -> Vec<K> {
        self.listing.of(&self.server)
    }

    /// Waits until `reached`, at most `limit` of virtual time.
    pub(crate) async fn until(&self, what: &str, limit: Duration, reached: impl Fn() -> bool) {
        let started = tokio::time::Instant::now();
        while !reached() {
            if started.elapsed() > limit {
                self.dump();
                panic!("not reached in {limit:?}: {what}");
            }
            tokio::time::sleep(SECOND).await;
        }
    }

    /// Returns whether this number of Nodes exist, all of them initialized.
    pub(crate) fn has_nodes(&self, count: usize) -> bool {
        let nodes = self.nodes();
        nodes.len() == count
            && nodes.iter().all(|node| node.labels().contains_key("karpenter.sh/initialized"))
    }

    /// Returns whether this number of pods exist, and all of them run.
    pub(crate) fn runs(&self, pods: usize) -> bool {
        let there = self.pods();
        there.len() == pods && there.iter().all(is_running)
    }

    /// Waits until every pod runs.
    pub(crate) async fn all_running(&self) {
        self.until("all pods run", 10 * MINUTE, || self.pods().iter().all(is_running)).await;
    }

    /// Waits until no claim, node or machine is left.
    pub(crate) async fn all_gone(&self) {
        self.until("no claim, node or machine is left", 20 * MINUTE, || {
            self.claims().is_empty() && self.nodes().is_empty() && self.account.machines().is_empty()
        })
        .await;
    }

    /// Checks what must hold at rest: machines and claims are one to one. A claim whose status cannot be written for
    /// a while is not at rest yet; the collector of forgotten machines would take longer to hide a leak.
    pub(crate) async fn one_machine_per_claim(&self) {
        let rest = 90 * SECOND;
        let one_to_one = || self.machines_of_claims() == self.machines();
        self.until("machines and claims are one to one", rest, one_to_one).await;
    }

    fn machines_of_claims(&self) -> Vec<String> {
        let claims = self.claims();
        let mut ids: Vec<String> = claims
            .iter()
            .map(|claim| claim.status.clone().unwrap_or_default().provider_id.unwrap_or_default())
            .collect();
        ids.sort();
        ids
    }

    fn machines(&self) -> Vec<String> {
        let mut ids: Vec<String> =
            self.account.machines().iter().map(|machine| machine.provider_id.to_string()).collect();
        ids.sort();
        ids
    }

    fn dump(&self) {
        let text = |value: Value| serde_json::to_string(&value).unwrap();
        for claim in self.claims() {
            eprintln!("claim {}", text(json!(claim)));
        }
        for mut node in self.nodes() {
            node.metadata.managed_fields = None;
            eprintln!("node {}", text(json!(node)));
        }
        for pod in self.pods() {
            eprintln!("pod {} {}", text(json!(pod.metadata)), text(json!(pod.status)));
        }
        for machine in self.account.machines() {
            eprintln!("machine {machine:?}");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Process {
    /// Claims that were created for this reason, pool, and with relaxed requirements or not.
    pub(crate) fn created(&self, labels: [&str; 3]) -> u64 {
        self.metrics.nodeclaims.created_total.value(labels)
    }

    /// Claims that went for this reason, pool, capacity type, policy of consolidation, and mode of termination.
    pub(crate) fn disrupted(&self, labels: [&str; 5]) -> u64 {
        self.metrics.nodeclaims.disrupted_total.value(labels)
    }

    /// Returns the answer to why something is as it is.
    pub(crate) fn explain(&self, question: &str) -> Answer {
        self.explanations.answer(&question.parse().unwrap())
    }

    /// Ends the process without letting it finish anything.
    pub(crate) fn kill(self) {
        self.task.abort();
    }

    /// Tells the process to stop and waits until it has.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
        self.events.events().iter().for_each(is_in_the_table);
    }
}

/// Every event is about a kind its reason is declared for, and is distinguished by no more than is declared.
fn is_in_the_table(event: &Event) {
    let (kinds, distinctions) = (event.reason.kinds(), event.reason.distinctions());
    assert!(kinds.is_empty() || kinds.contains(&event.object.kind.as_str()), "{event:?}");
    let values = event.dedupe.len() - 1;
    assert!(kinds.is_empty() || values <= distinctions.len(), "{event:?}");
}

pub(crate) fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Status of one condition of a claim, empty when it has none.
pub(crate) fn condition(claim: &NodeClaim, kind: &str) -> String {
    let conditions = claim.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.kind == kind)
        .map(|condition| condition.status.as_str().to_owned())
        .collect()
}

/// Logs to standard error when the environment variable `TEST_LOG` names a level.
fn log() {
    if let Some(level) = std::env::var("TEST_LOG").ok().and_then(|level| level.parse().ok()) {
        // Only the first test of the process sets it up.
        let _again = logging::init(&logging::Settings { level, ..logging::Settings::default() });
    }
}

/// Offerings of a type in both zones, of these capacity types.
fn offerings(instance_type: &str, capacity_types: &[CapacityType]) -> Vec<OfferingKey> {
    let key = |zone: &str, capacity_type: &CapacityType| OfferingKey {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: *capacity_type,
    };
    let in_zone = |zone| capacity_types.iter().map(move |capacity_type| key(zone, capacity_type));
    ["zone-a", "zone-b"].into_iter().flat_map(in_zone).collect()
}

fn class_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "memorynodeclasses.karpenter.memory"},
        "spec": {
            "group": "karpenter.memory", "scope": "Cluster",
            "names": {
                "kind": "MemoryNodeClass", "plural": "memorynodeclasses", "singular": "memorynodeclass",
                "listKind": "MemoryNodeClassList",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}
