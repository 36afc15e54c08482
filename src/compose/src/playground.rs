//! A cluster and an account in one process, at a speed for people: the world of the demo and of the tests of the
//! composition.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use karpenter_aws_api::Clients;
use karpenter_aws_sim::{Account, Options};
use karpenter_controllers::Settings;
use karpenter_controllers::settings::{Flag, Home, Source};
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_kube_sim::apiserver::serve::Serving;
use karpenter_kube_sim::{kube_system, kubelet};
use karpenter_model::Clock;
use karpenter_telemetry::metrics::Metrics;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Parts;

/// Durations in the playground.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// From launch until EC2 calls an instance running.
    pub boot: Duration,
    /// From running until the Node is registered, and again until it is ready.
    pub join: Duration,
    /// From the order to terminate until an instance is gone.
    pub shutdown: Duration,
}

impl Speed {
    /// Fast enough to watch: what takes half a minute in AWS takes seconds.
    pub fn demo() -> Self {
        Self { boot: Duration::from_secs(2), join: Duration::from_secs(1), shutdown: Duration::from_secs(2) }
    }
}

/// A cluster and an account.
pub struct Playground {
    server: ApiServer,
    serving: Option<Serving>,
    account: Account,
    clock: Arc<dyn Clock>,
    cluster: String,
    speed: Speed,
}

impl Playground {
    /// A cluster of this name in a fresh account. Must be called within a tokio runtime.
    pub fn new(clock: Arc<dyn Clock>, cluster: &str, speed: Speed) -> Self {
        let options = Options {
            cluster: cluster.to_owned(),
            kubernetes_version: "1.35".to_owned(),
            boot_delay: speed.boot,
            shutdown_delay: speed.shutdown,
            spot_service_linked_role: false,
            ..Options::default()
        };
        Self {
            server: ApiServer::new(Arc::clone(&clock)),
            serving: None,
            account: Account::with_clock(options, Arc::clone(&clock)),
            clock,
            cluster: cluster.to_owned(),
            speed,
        }
    }

    /// Starts the scheduler, the workload controllers and the kubelets of all machines.
    pub fn spawn(&self, tasks: &mut JoinSet<Result<()>>, shutdown: &CancellationToken) {
        let (server, stop) = (self.server.clone(), shutdown.clone());
        tasks.spawn(async move {
            kube_system::run(&server, kube_system::Options::default(), stop).await;
            Ok(())
        });
        let options = kubelet::Options {
            cluster_name: self.cluster.clone(),
            boot: self.speed.join,
            ready: self.speed.join,
            pod_start: Duration::from_millis(500),
            poll: Duration::from_millis(250),
            ..kubelet::Options::default()
        };
        let (account, reboots) = (self.account.clone(), self.account.clone());
        let machines = kubelet::Ec2Machines::new(self.aws(), &self.cluster);
        let machines = machines.with_volumes(move |id| account.volumes(id));
        let machines = Arc::new(machines.with_reboots(move |id| reboots.reboots(id)));
        let agent = kubelet::Agent::new(self.client(), machines, Arc::clone(&self.clock), options);
        let stop = shutdown.clone();
        tasks.spawn(async move {
            agent.run(stop).await;
            Ok(())
        });
    }

    /// Serves the API on a free loopback port until the playground is dropped, and writes a kubeconfig for it.
    pub async fn serve(&mut self, folder: &Path) -> Result<PathBuf> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = listener.local_addr().context("cannot tell the port of the API server")?;
        self.serving = Some(self.server.serve(listener).context("cannot serve the API")?);
        let path = folder.join("kubeconfig");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "demo",
            "clusters": [{ "name": "demo", "cluster": { "server": format!("http://{address}") } }],
            "contexts": [{ "name": "demo", "context": { "cluster": "demo", "user": "demo" } }],
            "users": [{ "name": "demo", "user": {} }],
        });
        std::fs::write(&path, kubeconfig.to_string())
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }

    /// Creates an object.
    pub fn load(&self, object: &Value) -> Result<()> {
        self.server.load(object).map(drop).map_err(|refusal| anyhow!("the API server refuses: {refusal}"))
    }

    /// Returns the parts of a controller of the cluster: the default settings, without fixed ports, which might be taken.
    pub fn parts(&self) -> Result<Parts> {
        let given = |flag: &Flag| {
            ["metrics-port", "health-probe-port"].contains(&flag.name).then_some(("0", Source::Flag))
        };
        Ok(Parts {
            kubernetes: self.client(),
            hints: self.client(),
            events: self.client(),
            leases: self.client(),
            metrics: Arc::new(Metrics::new()),
            aws: self.aws(),
            clock: Arc::clone(&self.clock),
            settings: Settings::resolve(Home::Machine, given).map_err(|errors| anyhow!("{errors:?}"))?,
            aws_settings: karpenter_aws::Settings {
                cluster_ca_bundle: Some("Y2VydGlmaWNhdGU=".to_owned()),
                ..karpenter_aws::Settings::new(&self.cluster, "https://demo.invalid")
            },
            lease_namespace: "kube-system".to_owned(),
        })
    }

    /// A client of the cluster.
    pub fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Clients of the account.
    pub fn aws(&self) -> Clients {
        self.account.clients()
    }

    /// The account and its controls.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// Instances that are not terminated.
    pub fn instances_alive(&self) -> usize {
        self.account.live_instances().len()
    }

    /// Instances ever launched.
    pub fn instances_launched(&self) -> usize {
        self.account.instances().len()
    }
}
