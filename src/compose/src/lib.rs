//! Puts one controller together: clients and settings in, out comes a future that runs until shutdown.
//!
//! The same composition runs in a cluster (`karpenter controller`) and in memory (`karpenter demo`); only the
//! clients and the clock differ. What makes the clients is not here, so nothing here compiles the AWS SDK.

pub mod offered;
#[cfg(any(test, feature = "demo"))]
pub mod playground;
mod wall_clock;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use karpenter_aws::AwsProvider;
use karpenter_aws_api::Clients;
use karpenter_aws_controllers::{AwsContext, MetricsObserver};
use karpenter_cloud::Provider;
use karpenter_controllers::definitions;
use karpenter_controllers::explain;
use karpenter_controllers::{Context, Explanations, Following, Settings, View, Watching};
use karpenter_kube_harness::leader::{self, Candidate};
use karpenter_kube_harness::server::{self, Listen, Readiness};
use karpenter_kube_harness::{memory, watchdog};
use karpenter_model::Clock;
use karpenter_telemetry::events::{KubeSink, Recorder};
use karpenter_telemetry::metrics::Metrics;
use karpenter_telemetry::observe;
use tokio_util::sync::CancellationToken;

pub use wall_clock::WallClock;

/// Of every program that starts a controller: a C library's own differs between hosts and images, and takes longer
/// (docs/decisions/0024).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long the events of the last second may take to be written when the process ends.
const EVENT_FLUSH: Duration = Duration::from_secs(1);
/// How long the first answer about zonal shifts may hold up a process that begins to lead.
const FIRST_SHIFTS: Duration = Duration::from_secs(5);

/// Everything a controller is made from.
pub struct Parts {
    /// The API server.
    pub kubernetes: kube::Client,
    /// The API server, for hints.
    pub hints: kube::Client,
    /// The API server, for events.
    pub events: kube::Client,
    /// The API server, for renewals of the lease.
    pub leases: kube::Client,
    /// Where everything is counted.
    pub metrics: Arc<Metrics>,
    /// The AWS account.
    pub aws: Clients,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Common settings.
    pub settings: Settings,
    /// Settings of the provider.
    pub aws_settings: karpenter_aws::Settings,
    /// Namespace of the Lease.
    pub lease_namespace: String,
}

/// Runs a controller until `shutdown`; then lets its workers finish and gives the Lease back.
pub async fn run(parts: Parts, shutdown: CancellationToken) -> Result<()> {
    let metrics = parts.metrics;
    let observer = Arc::new(MetricsObserver(Arc::clone(&metrics)));
    let provider =
        Arc::new(AwsProvider::new(parts.aws, parts.aws_settings, Arc::clone(&parts.clock), observer));
    // A file with a mistake stops the start; one that gets a mistake later leaves prices as they were.
    provider.prices.refresh_file().await?;
    provider.refresh_catalogue().await.context("cannot read the instance types that EC2 offers")?;

    let (sink, writer) = KubeSink::new(&parts.events, &metrics.progress);
    let events = tokio::spawn(writer.run());
    let now = Arc::clone(&parts.clock);
    let settings = Arc::new(parts.settings);
    let view =
        View::new(Arc::clone(&settings.decisions), provider.label_registry(), provider.node_class_kinds());
    let explanations = Explanations::default();
    let common = Context {
        client: parts.kubernetes.clone(),
        hints: parts.hints,
        provider: Arc::clone(&provider) as Arc<dyn Provider>,
        clock: Arc::clone(&parts.clock),
        settings: Arc::clone(&settings),
        recorder: Arc::new(Recorder::new(sink, move || now.now())),
        metrics: Arc::clone(&metrics),
        view: Arc::new(view),
        explanations: explanations.clone(),
    };

    let _following = Following::of(&common.view);
    let readiness = Readiness::default();
    let view = Arc::clone(&common.view);
    readiness.waits_for(move || view.awaited());
    // Probes and metrics are served until the very end, also while the workers finish.
    let (serving, stopped) = (CancellationToken::new(), shutdown.clone());
    let listen = Listen {
        address: settings.bind_address,
        metrics_port: settings.metrics_port,
        probe_port: settings.health_probe_port,
    };
    let routes = explain::routes(explanations);
    let servers = server::run(listen, Arc::clone(&metrics), routes, readiness.clone(), serving.clone());
    let definitions = definitions::await_served(parts.kubernetes, readiness.clone(), serving.clone());
    tokio::spawn(definitions);
    tokio::spawn(memory::watch(settings.memory_limit_bytes, serving.clone()));
    tokio::spawn(watchdog::run(Arc::clone(&metrics), serving.clone()));
    let candidate = Candidate::new(parts.lease_namespace, settings.leader_election.name.as_str(), identity());
    let control = async {
        if !settings.leader_election.enabled {
            tracing::info!("leading without an election");
            return lead(common, None, provider, readiness, shutdown).await;
        }
        let watching = settings.warm_up.then(|| Watching::start(&common, &shutdown));
        match &watching {
            Some(watching) => drop(tokio::spawn(ready_when(watching.synced(), readiness.clone()))),
            // A replica that waits to lead and does not watch has nothing to wait for but the lease.
            None => readiness.set(true),
        }
        let mut outcome = Ok(());
        let work = |token| {
            let outcome = &mut outcome;
            async move { *outcome = lead(common, watching, provider, readiness, token).await }
        };
        leader::run(parts.leases, candidate, parts.clock, metrics, shutdown, work).await?;
        outcome
    };
    let ended = tokio::select! {
        biased;
        outcome = control => outcome,
        outcome = servers => outcome.map_err(Into::into),
    };
    stopped.cancel();
    serving.cancel();
    // What is still queued may be written, but the process does not wait for an API server that does not
    // answer.
    let _unwritten = tokio::time::timeout(EVENT_FLUSH, events).await;
    ended
}

async fn ready_when(synced: impl Future<Output = ()>, readiness: Readiness) {
    synced.await;
    readiness.set(true);
}

/// What only the leader does, on top of watches that may run already.
async fn lead(
    common: Context,
    watching: Option<Watching>,
    provider: Arc<AwsProvider>,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> Result<()> {
    let watching = watching.unwrap_or_else(|| Watching::start(&common, &shutdown));
    learn_zonal_shifts(&provider).await;
    let aws = AwsContext::new(common.clone(), provider);
    let (common, aws) = tokio::join!(
        karpenter_controllers::lead(watching, readiness, shutdown.clone()),
        karpenter_aws_controllers::run(aws, shutdown),
    );
    common?;
    Ok(aws?)
}

/// The first launch must not go into a zone the cluster is shifted away from. A process that cannot find out leads
/// nevertheless, and goes on asking.
async fn learn_zonal_shifts(provider: &AwsProvider) {
    if !provider.settings.zonal_shift {
        return;
    }
    match observe::within(FIRST_SHIFTS, provider.refresh_zonal_shifts()).await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::warn!(%error, "starting without knowing zonal shifts"),
        None => tracing::warn!(limit = ?FIRST_SHIFTS, "starting without knowing zonal shifts: no answer"),
    }
}

/// Unique to this process: the host name, which is the pod's name in a cluster, and a random part.
fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "karpenter".to_owned());
    format!("{host}_{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::api::coordination::v1::Lease;
    use karpenter_aws_sim::{Account, Fault};
    use karpenter_controllers::settings::{Home, Source};
    use karpenter_kube_sim::VirtualClock;
    use kube::api::Api;
    use tokio::task::{JoinHandle, JoinSet};

    use super::*;
    use crate::playground::{Playground, Speed};

    fn settings() -> Settings {
        let without_ports = |flag: &karpenter_controllers::settings::Flag| {
            flag.name.ends_with("-port").then_some(("0", Source::Flag))
        };
        Settings::resolve(Home::Machine, without_ports).unwrap()
    }

    async fn holder(leases: &Api<Lease>) -> Option<String> {
        let lease = leases.get_opt("karpenter-leader-election").await.unwrap()?;
        lease.spec?.holder_identity
    }

    /// A controller on a playground of its own.
    struct Running {
        playground: Playground,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
        process: JoinHandle<Result<()>>,
        _world: JoinSet<Result<()>>,
    }

    impl Running {
        /// Starts it, on an account that is prepared first.
        fn start(prepare: impl FnOnce(&Account)) -> Self {
            let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
            let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(start));
            let playground = Playground::new(Arc::clone(&clock), "demo", Speed::demo());
            prepare(&playground.account());
            let mut world = JoinSet::new();
            playground.spawn(&mut world, &CancellationToken::new());
            for definition in karpenter_api::crd_values() {
                playground.load(&definition).unwrap();
            }
            let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
            let aws_settings = karpenter_aws::Settings::new("demo", "https://demo.invalid");
            let parts = Parts {
                kubernetes: playground.client(),
                hints: playground.client(),
                events: playground.client(),
                leases: playground.client(),
                metrics: Arc::clone(&metrics),
                aws: playground.aws(),
                clock,
                settings: settings(),
                aws_settings: karpenter_aws::Settings { zonal_shift: true, ..aws_settings },
                lease_namespace: "kube-system".to_owned(),
            };
            let process = tokio::spawn(run(parts, shutdown.clone()));
            Self { playground, metrics, shutdown, process, _world: world }
        }

        fn leases(&self) -> Api<Lease> {
            Api::namespaced(self.playground.client(), "kube-system")
        }

        async fn until_leading(&self) {
            let leases = self.leases();
            let synced = || self.metrics.cluster_state.synced.value([]) > 0.0;
            let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
            while !(synced() && holder(&leases).await.is_some_and(|holder| !holder.is_empty())) {
                assert!(tokio::time::Instant::now() < deadline, "does not lead");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }

        async fn stop(self) {
            self.shutdown.cancel();
            self.process.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_in_order_and_gives_the_lease_back() {
        let running = Running::start(|_| {});
        running.until_leading().await;
        let leases = running.leases();
        running.stop().await;
        assert_eq!(holder(&leases).await.as_deref(), Some(""), "released, not left to run out");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_begins_to_lead_asks_for_zonal_shifts_before_anything_else() {
        let running = Running::start(|account| {
            assert!(account.register_for_zonal_shifts("demo"));
            account.inject(Fault::delay("DescribeCluster", Duration::from_secs(2)).times(1));
        });
        running.until_leading().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let calls = running.playground.account().calls();
        let first = |operation: &str| calls.0.iter().position(|call| call.operation == operation);
        let (shifts, prices) = (first("GetManagedResource").unwrap(), first("GetProducts").unwrap());
        assert!(shifts < prices, "{:?}", calls.counts());
        running.stop().await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_does_not_answer_about_zonal_shifts_is_waited_for_for_seconds() {
        let never = Duration::from_hours(24);
        let running = Running::start(|account| {
            account.inject(Fault::delay("GetManagedResource", never));
        });
        running.until_leading().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let calls = running.playground.account().calls();
        assert_eq!(calls.count("GetManagedResource"), 0, "no answer yet");
        assert!(calls.count("GetProducts") > 0, "the work has begun");
        running.stop().await;
    }
}
