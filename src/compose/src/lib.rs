//! Composition of one controller: clients and settings in, out comes a future that runs until shutdown.
//!
//! The same composition runs in a cluster (`karpenter controller`) and in memory (`karpenter demo`); only the
//! clients and the clock differ. What makes the clients is not here, so nothing here compiles the AWS SDK.

pub mod offered;
#[cfg(any(test, feature = "demo"))]
pub mod playground;
mod wall_clock;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use karpenter_aws::AwsProvider;
use karpenter_aws_api::Clients;
use karpenter_aws_controllers::{AwsContext, MetricsObserver};
use karpenter_cloud::Provider;
use karpenter_controllers::definitions;
use karpenter_controllers::explain;
use karpenter_controllers::{Context, Explanations, Following, Settings, View, Watching, repair_policies};
use karpenter_kube_harness::leader::{self, Candidate};
use karpenter_kube_harness::server::{self, Listen, Readiness};
use karpenter_kube_harness::{memory, watchdog};
use karpenter_model::Clock;
use karpenter_telemetry::events::{KubeSink, Recorder};
use karpenter_telemetry::metrics::Metrics;
use karpenter_telemetry::observe;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

pub use wall_clock::WallClock;

/// The allocator of every program that starts a controller: the C library's differs between hosts and images, and is
/// slower (docs/decisions/0024).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Longest time that writing the events of the last second may take when the process ends.
const EVENT_FLUSH: Duration = Duration::from_secs(1);
/// Longest time that the first answer about zonal shifts may hold up a process that begins to lead.
const FIRST_SHIFTS: Duration = Duration::from_secs(5);

/// Everything a controller is made from.
pub struct Parts {
    /// Client of the API server.
    pub kubernetes: kube::Client,
    /// Client for optional writes, which give way to all others but events.
    pub hints: kube::Client,
    pub events: kube::Client,
    /// Client for renewals of the Lease.
    pub leases: kube::Client,
    /// Metrics of the whole process.
    pub metrics: Arc<Metrics>,
    /// The AWS account.
    pub aws: Clients,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Common settings.
    pub settings: Settings,
    /// Settings of the provider.
    pub aws_settings: karpenter_aws::Settings,
    pub lease_namespace: String,
}

/// Runs a controller until `shutdown`; then lets its workers finish and gives the Lease back. A part that ends or panics
/// on its own ends all of it with an error: the process is to be restarted.
pub async fn run(parts: Parts, shutdown: CancellationToken) -> Result<()> {
    let (sink, writer) = KubeSink::new(&parts.events, &parts.metrics.progress);
    let mut events = tokio::spawn(writer.run());
    let process = Process::build(parts, sink).await?;
    let ended = tokio::select! {
        biased;
        ended = process.run(shutdown) => ended,
        written = &mut events => return ended_early(written, "the writer of events"),
    };
    // The writer ends when the last event is written, because nothing is left that could publish another. The process does
    // not wait for an API server that does not answer.
    let _unwritten = tokio::time::timeout(EVENT_FLUSH, events).await;
    ended
}

/// A controller that has not begun to work.
struct Process {
    context: Context,
    provider: Arc<AwsProvider>,
    readiness: Readiness,
    leases: kube::Client,
    candidate: Candidate,
}

impl Process {
    async fn build(parts: Parts, sink: KubeSink) -> Result<Self> {
        let observer = Arc::new(MetricsObserver(Arc::clone(&parts.metrics)));
        let provider =
            Arc::new(AwsProvider::new(parts.aws, parts.aws_settings, Arc::clone(&parts.clock), observer));
        // A file with a mistake stops the start; one that gets a mistake later leaves prices as they were.
        provider.prices.refresh_file().await?;
        provider.refresh_catalogue().await.context("cannot read the instance types that EC2 offers")?;
        let decisions = Arc::clone(&parts.settings.decisions);
        let view = Arc::new(View::new(decisions, provider.label_registry(), provider.node_class_kinds()));
        let readiness = Readiness::default();
        let awaited = Arc::clone(&view);
        readiness.waits_for(move || awaited.awaited());
        let clock = Arc::clone(&parts.clock);
        let lease = parts.settings.leader_election.name.as_str();
        let candidate = Candidate::new(parts.lease_namespace, lease, identity());
        let repair = repair_policies(provider.repair_policies(), &parts.settings)?;
        let context = Context {
            repair,
            client: parts.kubernetes,
            hints: parts.hints,
            provider: Arc::clone(&provider) as Arc<dyn Provider>,
            clock: parts.clock,
            settings: Arc::new(parts.settings),
            recorder: Arc::new(Recorder::new(sink, move || clock.now())),
            metrics: parts.metrics,
            view,
            explanations: Explanations::default(),
        };
        Ok(Self { context, provider, readiness, leases: parts.leases, candidate })
    }

    async fn run(self, shutdown: CancellationToken) -> Result<()> {
        let _following = Following::of(&self.context.view);
        // Probes and metrics are served until the very end, also while the workers finish.
        let serving = CancellationToken::new();
        let beside = self.work_beside(&serving);
        let ended = tokio::select! {
            biased;
            ended = self.lead_when_elected(shutdown.clone()) => ended,
            ended = beside => ended,
        };
        shutdown.cancel();
        serving.cancel();
        ended
    }

    /// Runs the work of every replica, leading or not. Ends only with an error, or after `stop`.
    fn work_beside(&self, stop: &CancellationToken) -> impl Future<Output = Result<()>> + use<> {
        let Context { client, metrics, settings, explanations, .. } = &self.context;
        let listen = Listen {
            address: settings.bind_address,
            metrics_port: settings.metrics_port,
            probe_port: settings.health_probe_port,
        };
        let (metrics, routes) = (Arc::clone(metrics), explain::routes(explanations.clone()));
        let servers = server::run(listen, Arc::clone(&metrics), routes, self.readiness.clone(), stop.clone());
        let definitions = definitions::await_served(client.clone(), self.readiness.clone(), stop.clone());
        let memory = memory::watch(settings.memory_limit_bytes, stop.clone());
        let watchdog = watchdog::run(metrics, stop.clone());
        async move {
            // Tasks of their own, so that neither waits for another.
            let mut tasks = JoinSet::new();
            tasks.spawn(definitions);
            tasks.spawn(memory);
            tasks.spawn(watchdog);
            let panicked = async {
                while let Some(ended) = tasks.join_next().await {
                    if let Err(panic) = ended {
                        return panic;
                    }
                }
                std::future::pending().await
            };
            tokio::select! {
                biased;
                panic = panicked => ended_early(Err(panic), "a task beside the controllers"),
                ended = servers => ended.map_err(Into::into),
            }
        }
    }

    /// Leads once the Lease is won, or at once where there is no election.
    async fn lead_when_elected(self, shutdown: CancellationToken) -> Result<()> {
        let Self { context, provider, readiness, leases, candidate } = self;
        if !context.settings.leader_election.enabled {
            tracing::info!("leading without an election");
            return lead(context, None, provider, readiness, shutdown).await;
        }
        let (clock, metrics) = (Arc::clone(&context.clock), Arc::clone(&context.metrics));
        let watching = context.settings.warm_up.then(|| Watching::start(&context, &shutdown));
        let ready = ready_when(watching.as_ref().map(Watching::synced), readiness.clone());
        let mut outcome = Ok(());
        let work = |token| {
            let outcome = &mut outcome;
            async move { *outcome = lead(context, watching, provider, readiness, token).await }
        };
        tokio::select! {
            biased;
            elected = leader::run(leases, candidate, clock, metrics, shutdown, work) => elected?,
            never = ready => match never {},
        }
        outcome
    }
}

/// Returns the error for a `part` that ended although nothing has asked it to.
fn ended_early(ended: Result<(), JoinError>, part: &str) -> Result<()> {
    ended.with_context(|| format!("{part} panicked; the process restarts"))?;
    bail!("{part} ended early; the process restarts")
}

/// A replica that waits to lead and does not watch has nothing to wait for but the lease.
async fn ready_when(synced: Option<impl Future<Output = ()>>, readiness: Readiness) -> Infallible {
    if let Some(synced) = synced {
        synced.await;
    }
    readiness.set(true);
    std::future::pending().await
}

/// Runs the work of the leader alone, on top of watches that may run already.
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
    use karpenter_kube_sim::VirtualClock;
    use kube::api::Api;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;
    use crate::playground::{Playground, Speed};

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
            let mut parts = playground.parts().unwrap();
            parts.aws_settings.zonal_shift = true;
            let (metrics, shutdown) = (Arc::clone(&parts.metrics), CancellationToken::new());
            let process = tokio::spawn(run(parts, shutdown.clone()));
            Self { playground, metrics, shutdown, process, _world: world }
        }

        fn leases(&self) -> Api<Lease> {
            Api::namespaced(self.playground.client(), "kube-system")
        }

        async fn until_leading(&self) {
            let leases = self.leases();
            let synced = || self.metrics.cluster_state.synced.value([]) > 0.0;
            let deadline = Instant::now() + Duration::from_mins(1);
            while !(synced() && holder(&leases).await.is_some_and(|holder| !holder.is_empty())) {
                assert!(Instant::now() < deadline, "does not lead");
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
        let (leases, stopping) = (running.leases(), Instant::now());
        running.stop().await;
        assert!(stopping.elapsed() < EVENT_FLUSH, "nothing is left to write, so nothing is waited for");
        assert_eq!(holder(&leases).await.as_deref(), Some(""), "released, not left to run out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_leader_asks_for_zonal_shifts_before_anything_else() {
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
    async fn a_new_leader_waits_seconds_for_an_answer_about_zonal_shifts() {
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
