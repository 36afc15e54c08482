//! `karpenter demo`: the whole product at work in memory, told as a timeline.
//!
//! Also a program of its own, `karpenter-demo`, which `scripts/demo` runs: it needs no AWS SDK, whose compilation is more than
//! half of the first build.
//!
//! The API server, the scheduler, the kubelets and the AWS account are stand-ins; bootstrap and the controller are
//! the production code, unchanged. `kubectl` works against the API server while the demo runs.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use karpenter_api::NodeClaim;
use karpenter_bootstrap::{make_ready, show};
use karpenter_compose as compose;
use karpenter_compose::playground::{Playground, Speed};
use karpenter_kube_sim::VirtualClock;
use karpenter_model::{Clock, Price};
use karpenter_telemetry::{logging, stdout};
use karpenter_view::PriceBook;
use karpenter_view::timeline::{self, Line, Printer};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const NODEPOOL: &str = include_str!("../../../docs/examples/nodepool.yaml");
const INFLATE: &str = include_str!("../../../docs/examples/inflate.yaml");
/// The cluster of the example manifests.
const CLUSTER: &str = "demo";
/// The example waits longer before it removes an empty node, too long for a demonstration.
const CONSOLIDATE_AFTER: &str = "10s";
/// Longest time of any step before the demo calls itself broken.
const STEP_WITHIN: Duration = Duration::from_mins(1);

/// Arguments of `karpenter demo`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 every step succeeded, or Ctrl-C, 1 a step failed.\n\n\
                        To look at it from another terminal: karpenter demo --stay")]
pub struct Arguments {
    /// Keep everything running after the last step, until Ctrl-C
    #[arg(long)]
    stay: bool,
    /// Folder for the controller's log and the kubeconfig [default: a new temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Plays the demo.
///
/// # Errors
/// When a step does not come about in a minute, or standard output does not take a line.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let folder = match arguments.folder {
        Some(folder) => folder,
        None => std::env::temp_dir().join(format!("karpenter-demo-{}", std::process::id())),
    };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let log = folder.join("controller.log");
    let logging =
        logging::Settings { outputs: vec![logging::Output::File(log)], ..logging::Settings::default() };
    logging::init(&logging).context("cannot set up logging")?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the async runtime")?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let story = async { Demo::start(&folder, &mut tasks, &shutdown).await?.play(arguments.stay).await };
        let outcome = tokio::select! {
            outcome = story => outcome,
            _ = tokio::signal::ctrl_c() => Ok(stdout::print("stopped by Ctrl-C; cluster and account were in memory, and are gone\n")?),
        };
        shutdown.cancel();
        while tasks.join_next().await.is_some() {}
        outcome.map(|()| ExitCode::SUCCESS)
    })
}

/// A demo whose world and controller are running.
struct Demo {
    playground: Playground,
    printer: Printer,
    kubeconfig: PathBuf,
    /// Port on loopback of the controller's metrics and explanations.
    metrics_port: u16,
}

impl Demo {
    async fn start(
        folder: &std::path::Path,
        tasks: &mut JoinSet<Result<()>>,
        shutdown: &CancellationToken,
    ) -> Result<Self> {
        let printer = Printer::start();
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::starting_at(Timestamp::now()));
        let mut playground = Playground::new(clock, CLUSTER, Speed::demo());
        playground.spawn(tasks, shutdown);
        let kubeconfig = playground.serve(folder).await?;
        printer
            .print(&Line::new("cluster", "an API server in memory; while this runs, in another terminal:"))?;
        printer
            .print(&Line::new("", format!("  kubectl --kubeconfig {} get nodes", kubeconfig.display())))?;

        bootstrap(&playground, printer).await?;
        for definition in karpenter_api::crd_values() {
            playground.load(&definition)?;
        }
        for manifest in documents(NODEPOOL)?.iter_mut().map(hurry).chain(documents(INFLATE)?.iter_mut()) {
            playground.load(manifest)?;
        }
        printer.print(&Line::new(
            "apply",
            "NodePool general, EC2NodeClass default, Deployment inflate (0 replicas)",
        ))?;

        let mut parts = playground.parts()?;
        parts.settings.metrics_port = free_port()?;
        let metrics_port = parts.settings.metrics_port;
        tasks.spawn(compose::run(parts, shutdown.clone()));
        let story = timeline::follow(playground.client(), prices(&playground), printer);
        let stopped = shutdown.clone();
        tasks.spawn(async move {
            tokio::select! {
                outcome = story => Ok(outcome?),
                () = stopped.cancelled() => Ok(()),
            }
        });
        Ok(Self { playground, printer, kubeconfig, metrics_port })
    }

    /// 0, 1, 10, 0.
    async fn play(&self, stay: bool) -> Result<()> {
        for replicas in [1, 10, 0] {
            self.printer.print(&Line::new("scale", format!("inflate to {replicas}")))?;
            self.scale(replicas).await?;
            self.settled(replicas).await?;
        }
        let instances = self.playground.instances_launched();
        self.printer
            .print(&Line::new("done", format!("{instances} instances came and went, nothing is left")))?;
        if stay {
            self.printer.print(&Line::new("stay", "everything keeps running until Ctrl-C"))?;
        }
        for line in self.next_steps(stay) {
            self.printer.print(&Line::new("", line))?;
        }
        if stay {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn scale(&self, replicas: usize) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.playground.client(), "default");
        let patch = json!({ "spec": { "replicas": replicas } });
        api.patch("inflate", &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .context("cannot scale inflate")?;
        Ok(())
    }

    /// Waits until exactly `replicas` pods run, and for none also until machines and claims are gone.
    async fn settled(&self, replicas: usize) -> Result<()> {
        let wait = async {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                if self.running().await? != replicas {
                    continue;
                }
                let claims: Api<NodeClaim> = Api::all(self.playground.client());
                let left =
                    claims.list(&ListParams::default()).await.context("cannot list NodeClaims")?.items.len();
                if replicas > 0 || (left == 0 && self.playground.instances_alive() == 0) {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(STEP_WITHIN, wait).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => bail!(
                "inflate at {replicas} did not settle within {}s; the controller's log says why",
                STEP_WITHIN.as_secs()
            ),
        }
    }

    async fn running(&self) -> Result<usize> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(self.playground.client(), "default");
        let pods = pods.list(&ListParams::default()).await.context("cannot list pods")?.items;
        let running = |pod: &&k8s_openapi::api::core::v1::Pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        let count = pods.iter().filter(running).count();
        // A pod that is still ending counts against the step.
        Ok(if count == pods.len() { count } else { usize::MAX })
    }

    /// Commands to try after the demo: with the cluster it keeps, or without one.
    fn next_steps(&self, stay: bool) -> Vec<String> {
        let (kubeconfig, port) = (self.kubeconfig.display(), self.metrics_port);
        let here = format!("--kubeconfig {kubeconfig} --offerings memory");
        if stay {
            return vec![
                "to try next, in another terminal:".to_owned(),
                format!("  kubectl --kubeconfig {kubeconfig} scale deployment/inflate --replicas 10"),
                format!("  karpenter view {here}"),
                format!("  karpenter plan {here}"),
                format!("  karpenter explain --endpoint http://127.0.0.1:{port}"),
            ];
        }
        vec![
            "to try next:".to_owned(),
            "  karpenter demo --stay                           # keeps it, for kubectl, karpenter view, plan and explain".to_owned(),
            "  karpenter plan -f docs/examples/nodepool.yaml -f docs/examples/walkthroughs/report.yaml".to_owned(),
            "  karpenter plan --cluster-name NAME              # what would change in a cluster of yours; only looks".to_owned(),
        ]
    }
}

/// Returns a port on loopback that is free at the moment.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on loopback")?;
    Ok(listener.local_addr().context("cannot tell the port of the controller")?.port())
}

/// Makes the account ready, as `karpenter bootstrap apply` does.
async fn bootstrap(playground: &Playground, printer: Printer) -> Result<()> {
    let plan = make_ready(&playground.aws(), CLUSTER).await?;
    Ok(printer.print(&Line::new("account", format!("bootstrap: {}", show::summary(&plan))))?)
}

fn prices(playground: &Playground) -> PriceBook {
    let account = playground.account();
    Arc::new(move |instance_type, _zone, capacity| {
        let nanos = (capacity == "on-demand").then(|| account.on_demand_price(instance_type)).flatten()?;
        i64::try_from(nanos).ok().map(Price::from_nanos)
    })
}

fn documents(yaml: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple(yaml).context("cannot read an example manifest")
}

/// Shortens the example's waits, and lets all empty nodes go at once.
fn hurry(manifest: &mut Value) -> &mut Value {
    if let Some(disruption) = manifest.pointer_mut("/spec/disruption") {
        disruption["consolidateAfter"] = json!(CONSOLIDATE_AFTER);
        disruption["budgets"] = json!([{ "nodes": "100%" }]);
    }
    manifest
}
