//! A cluster and an AWS account in memory with both sets of controllers on top.

mod machines;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use karpenter_api::{ConditionStatus, EC2NodeClass, Ec2NodeClassStatus};
use karpenter_aws::{AwsProvider, Settings};
use karpenter_aws_controllers::{AwsContext, MetricsObserver};
use karpenter_aws_sim::{Account, Options, examples};
use karpenter_cloud::Provider;
use karpenter_controllers::{Context, View};
use karpenter_kube_harness::server::Readiness;
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_kube_sim::apiserver::listing::{Listed, Listing};
use karpenter_kube_sim::apiserver::stored::{self, Stored};
use karpenter_kube_sim::kubelet::{Agent, Machines};
use karpenter_kube_sim::{VirtualClock, kube_system, kubelet};
use karpenter_model::Clock;
use karpenter_model::settings::FeatureGates;
use karpenter_telemetry::events::{MemorySink, Recorder};
use karpenter_telemetry::metrics::Metrics;
use karpenter_testkit::objects::node_class;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) use writes::Writes;

/// Start of tests, unless they set another.
const START: &str = "2026-01-01T12:00:00Z";

/// Name of the interruption queue, which exists only where a test makes it.
pub(crate) const QUEUE: &str = "demo";

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: kube::Client,
    pub(crate) account: Account,
    pub(crate) aws: Arc<AwsProvider>,
    pub(crate) view: Arc<View>,
    pub(crate) events: MemorySink,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) agent: Arc<Agent>,
    clock: Arc<VirtualClock>,
    listing: Listing,
    stop: CancellationToken,
}

impl World {
    /// A cluster whose account has a node role, and nothing else.
    pub(crate) async fn new() -> Self {
        let world = Self::without_role();
        world.create_role("node-role").await;
        world
    }

    /// A cluster with one node class, which is ready.
    pub(crate) async fn ready() -> Self {
        let world = Self::new().await;
        world.class("default", &json!({}));
        world.until_ready("default").await;
        world
    }

    /// Starts a world with these feature gates.
    pub(crate) async fn gated(gates: FeatureGates) -> Self {
        Self::deciding(karpenter_model::Settings { gates, ..Default::default() }).await
    }

    /// Starts a world with these settings of the decisions.
    pub(crate) async fn deciding(decisions: karpenter_model::Settings) -> Self {
        let mut setup = Setup::new(Self::options(), START);
        setup.decisions = decisions;
        let world = Self::on_ground(setup, kubelet::Options::default(), |_| {});
        world.create_role("node-role").await;
        world
    }

    /// Starts a world with changed settings of the process.
    pub(crate) async fn settled(change: impl FnOnce(&mut Settings)) -> Self {
        let setup = Setup::new(Self::options(), START);
        let world = Self::on_ground(setup, kubelet::Options::default(), change);
        world.create_role("node-role").await;
        world
    }

    /// Starts a world with changed definitions of our kinds.
    pub(crate) async fn defined(change: impl Fn(&mut Value)) -> Self {
        let setup = Setup::defined(Self::options(), START, change);
        let world = Self::on_ground(setup, kubelet::Options::default(), |_| {});
        world.create_role("node-role").await;
        world
    }

    /// Starts a world for very many nodes, in an account with `options`. Heartbeats are as rare as they may be, because they
    /// are most of what there is to simulate.
    pub(crate) async fn large(options: Options) -> Self {
        let kubelet = kubelet::Options { heartbeat: Duration::from_secs(45), ..kubelet::Options::default() };
        let world = Self::in_account(options, kubelet);
        world.create_role("node-role").await;
        world
    }

    pub(crate) fn without_role() -> Self {
        Self::in_account(Self::options(), kubelet::Options::default())
    }

    /// The usual account.
    pub(crate) fn options() -> Options {
        Options { zones: 2, kubernetes_version: "1.35".to_owned(), ..Options::default() }
    }

    fn in_account(options: Options, kubelet: kubelet::Options) -> Self {
        Self::on_ground(Setup::new(options, START), kubelet, |_| {})
    }

    fn on_ground(setup: Setup, kubelet: kubelet::Options, change: impl FnOnce(&mut Settings)) -> Self {
        let machines = Arc::new(machines::OnAws::of(setup.account.clone()));
        let mut settings = Settings {
            zonal_shift: true,
            interruption_queue: Some(QUEUE.to_owned()),
            cluster_ca_bundle: Some("Y2EtYnVuZGxlCg==".to_owned()),
            kube_dns_ip: Some("10.100.0.10".to_owned()),
            ..Settings::new("demo", "https://demo.example")
        };
        change(&mut settings);
        let client = setup.server.client();
        Self::on(setup, client, settings, machines, kubelet)
    }

    /// Starts everything: kubelets on these machines, `kube-system`, and the controllers, which use `client`.
    pub(crate) fn on(
        setup: Setup,
        client: kube::Client,
        settings: Settings,
        machines: Arc<dyn Machines>,
        kubelet: kubelet::Options,
    ) -> Self {
        let Setup { server, account, decisions, clock } = setup;
        let (stop, events) = (CancellationToken::new(), MemorySink::default());
        let agent = Arc::new(Agent::new(server.client(), machines, clock.clone(), kubelet));
        let (kubelets, stopped) = (Arc::clone(&agent), stop.clone());
        tokio::spawn(async move { kubelets.run(stopped).await });
        let (system, stopped) = (server.clone(), stop.clone());
        tokio::spawn(
            async move { kube_system::run(&system, kube_system::Options::default(), stopped).await },
        );
        let metrics = Arc::new(Metrics::new());
        let controllers = Controllers {
            client,
            settings,
            decisions,
            account: &account,
            clock: &clock,
            events: &events,
            metrics: &metrics,
        };
        let (aws, view) = controllers.start(&stop);
        let client = server.client();
        let listing = Listing::default();
        Self { server, client, account, aws, view, events, metrics, agent, clock, listing, stop }
    }

    pub(crate) async fn create_role(&self, name: &str) {
        create_role(&self.account, name).await;
    }

    /// Loads any object.
    pub(crate) fn load(&self, object: &Value) {
        self.server.load(object).unwrap();
    }

    /// The usual node class, changed by `spec`.
    pub(crate) fn class(&self, name: &str, spec: &Value) {
        let mut object = node_class(name, "demo", &json!({"role": "node-role"}));
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        self.load(&object);
    }

    /// Adds a tag to the spec, a static field.
    pub(crate) async fn class_tag(&self, class: &str, key: &str, value: &str) {
        self.patch::<EC2NodeClass>(class, json!({"spec": {"tags": {key: value}}})).await;
    }

    /// Merges `spec` into the spec of the node class `default`.
    pub(crate) async fn edit(&self, spec: Value) {
        self.patch::<EC2NodeClass>("default", json!({"spec": spec})).await;
    }

    /// Merges `change` into an object.
    pub(crate) async fn patch<K: Stored>(&self, name: &str, change: Value) {
        stored::patch::<K>(&self.client, name, change).await.unwrap();
    }

    /// Asks for the deletion of an object.
    pub(crate) async fn delete<K: Stored>(&self, name: &str) {
        stored::delete::<K>(&self.client, name).await.unwrap();
    }

    pub(crate) async fn get(&self, name: &str) -> Option<EC2NodeClass> {
        EC2NodeClass::api(&self.client).get_opt(name).await.unwrap()
    }

    /// Status of the node class `default`.
    pub(crate) async fn status(&self) -> Ec2NodeClassStatus {
        self.get("default").await.unwrap().status.unwrap()
    }

    /// Waits until a condition of a node class is as wanted: `status` and `reason`.
    pub(crate) async fn until_condition(&self, class: &str, kind: &str, wanted: (ConditionStatus, &str)) {
        let what = format!("{kind} of `{class}` is {wanted:?}");
        self.until(&what, async || {
            self.condition(class, kind).await == Some((wanted.0, wanted.1.to_owned()))
        })
        .await;
    }

    pub(crate) async fn condition(&self, class: &str, kind: &str) -> Option<(ConditionStatus, String)> {
        let conditions = self.get(class).await?.status?.conditions;
        conditions.into_iter().find(|one| one.kind == kind).map(|one| (one.status, one.reason))
    }

    pub(crate) async fn until_ready(&self, class: &str) {
        self.until_condition(class, "Ready", (ConditionStatus::True, "Ready")).await;
    }

    /// Waits until `reached`, at most two hours of virtual time.
    pub(crate) async fn until(&self, what: &str, reached: impl AsyncFn() -> bool) {
        for _ in 0..7_200 {
            if reached().await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for class in self.all::<EC2NodeClass>() {
            eprintln!("{}", serde_json::to_string(&json!(class)).unwrap());
        }
        panic!("not reached: {what}");
    }

    /// All objects of a kind.
    pub(crate) fn all<K: Listed>(&self) -> Vec<K> {
        self.listing.of(&self.server)
    }

    /// Returns the number of Nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.all::<Node>().len()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Claims that went for this reason, pool, capacity type, policy of consolidation, and mode of termination.
    pub(crate) fn disrupted(&self, labels: [&str; 5]) -> u64 {
        self.metrics.nodeclaims.disrupted_total.value(labels)
    }

    /// Events told with this reason.
    pub(crate) fn told(&self, reason: &str) -> Vec<String> {
        self.events.messages(reason)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A cluster and an account before a controller starts in them.
pub(crate) struct Setup {
    pub(crate) server: ApiServer,
    pub(crate) account: Account,
    pub(crate) decisions: karpenter_model::Settings,
    clock: Arc<VirtualClock>,
}

impl Setup {
    /// It is `start` there; the custom kinds are served, and the account is as its options say.
    pub(crate) fn new(options: Options, start: &str) -> Self {
        Self::defined(options, start, |_| {})
    }

    /// Returns cluster and account with changed definitions of the custom kinds.
    fn defined(options: Options, start: &str, change: impl Fn(&mut Value)) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(start.parse().unwrap()));
        let server = ApiServer::new(clock.clone());
        for mut crd in karpenter_api::crd::crd_values() {
            change(&mut crd);
            server.load(&crd).unwrap();
        }
        let account = Account::with_clock(options, Arc::clone(&clock) as _);
        Self { server, account, decisions: karpenter_model::Settings::default(), clock }
    }
}

/// Makes a role that EC2 instances may take.
pub(crate) async fn create_role(account: &Account, name: &str) {
    account.clients().iam.create_role(&examples::role(name)).await.expect("the role is made");
}

/// Inputs of the controllers.
struct Controllers<'a> {
    client: kube::Client,
    settings: Settings,
    decisions: karpenter_model::Settings,
    account: &'a Account,
    clock: &'a Arc<VirtualClock>,
    events: &'a MemorySink,
    metrics: &'a Arc<Metrics>,
}

impl Controllers<'_> {
    fn start(self, stop: &CancellationToken) -> (Arc<AwsProvider>, Arc<View>) {
        let metrics = Arc::clone(self.metrics);
        let time: Arc<dyn Clock> = self.clock.clone();
        let observer = Arc::new(MetricsObserver(Arc::clone(&metrics)));
        let clients = self.account.clients();
        let aws = Arc::new(AwsProvider::new(clients, self.settings, Arc::clone(&time), observer));
        let provider: Arc<dyn Provider> = aws.clone();
        let common =
            karpenter_controllers::Settings { decisions: Arc::new(self.decisions), ..Default::default() };
        let view = Arc::new(View::new(
            Arc::clone(&common.decisions),
            provider.label_registry(),
            provider.node_class_kinds(),
        ));
        let now = Arc::clone(&time);
        let repair = karpenter_controllers::repair_policies(provider.repair_policies(), &common).unwrap();
        let context = Context {
            repair,
            hints: self.client.clone(),
            client: self.client,
            provider,
            clock: time,
            settings: Arc::new(common),
            recorder: Arc::new(Recorder::new(self.events.clone(), move || now.now())),
            metrics,
            view: Arc::clone(&view),
            explanations: Default::default(),
        };
        let running = karpenter_controllers::run(context.clone(), Readiness::default(), stop.clone());
        tokio::spawn(async move { running.await.unwrap() });
        let on_aws = AwsContext::new(context, Arc::clone(&aws));
        let running = karpenter_aws_controllers::run(on_aws, stop.clone());
        tokio::spawn(async move { running.await.unwrap() });
        (aws, view)
    }
}
