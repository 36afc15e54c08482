//! Plays every machine of the account: joins Nodes from user data, runs pods, ends with the instance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_kube_sim::kubelet::{Agent, Ec2Machines, Machine, Machines, Options};
use karpenter_model::{Clock, Quantity};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::account::Control;
use crate::command_line::AwsEnvironment;

/// The wall clock: machines of a real control plane live in real time.
#[derive(Clone, Copy, Debug)]
struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Clients with an administrator's rights, for everything that is not the controller's business.
pub async fn administrator(environment: &AwsEnvironment) -> Result<Clients> {
    let config = sdk::Config {
        region: Some(environment.region.clone()),
        endpoint_url: Some(environment.endpoint.clone()),
        credentials: sdk::Credentials::Emulator,
        ..sdk::Config::default()
    };
    sdk::connect(config).await.context("set up the administrator's AWS clients")
}

/// Pace of the machines of a world.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time from the launch of an instance until EC2 calls it running.
    pub pending: Duration,
    /// Time from then until its Node is registered.
    pub boot: Duration,
    /// Time from its registration until the Node is ready.
    pub ready: Duration,
    /// Largest share by which the last two may be longer, in percent, each machine a time of its own.
    pub spread: u32,
    /// Time from the binding of a pod until it runs.
    pub pod_start: Duration,
}

impl Pace {
    /// Shortest times at which nothing happens at once yet, for proofs that do not depend on times.
    pub const HURRIED: Self = Self {
        pending: Duration::from_secs(2),
        boot: Duration::from_secs(1),
        ready: Duration::from_secs(1),
        spread: 0,
        pod_start: Duration::from_millis(500),
    };

    /// Some five seconds from the launch to a Node that is ready, a time of its own for each machine, so that they come one
    /// after the other as in a cloud. For what is measured.
    pub const BRISK: Self = Self { boot: Duration::from_secs(2), spread: 50, ..Self::HURRIED };
}

/// Machines with the volumes and the reboots that the account says they have. EC2 lists volumes by a call that the port to AWS
/// lacks, and no reboots.
struct WithVolumes {
    described: Ec2Machines,
    region: String,
    account: Control,
    /// Sizes by device, by instance: what is attached at the launch stays.
    known: Mutex<BTreeMap<String, BTreeMap<String, Quantity>>>,
}

#[async_trait]
impl Machines for WithVolumes {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn std::error::Error + Send + Sync>> {
        let mut machines = self.described.list().await?;
        let is_new = {
            let known = self.known.lock();
            machines.iter().any(|machine| !known.contains_key(&machine.instance_id))
        };
        if is_new {
            let size = |gib: u32| Quantity::from_bytes(i64::from(gib) << 30);
            let all = self.account.machines(&self.region).await?.into_iter().map(|machine| {
                let disks = machine.disks.into_iter().map(|disk| (disk.device, size(disk.size_gib)));
                (machine.id, disks.collect())
            });
            *self.known.lock() = all.collect();
        }
        let reboots = self.account.reboots().await?;
        let known = self.known.lock();
        for machine in &mut machines {
            machine.reboots = reboots.get(&machine.instance_id).copied().unwrap_or_default();
            machine.volumes = known.get(&machine.instance_id).cloned().unwrap_or_default();
        }
        Ok(machines)
    }
}

/// Shortest time between two lists of the machines. Each is a description of every instance, which an emulated account renders
/// slowly, so as much time is left between two of them as the last one took.
const LIST_AGAIN: Duration = Duration::from_secs(1);

/// Nodes that talk to the API server at the same time, as those of a cluster do.
const AT_ONCE: usize = 32;

/// Machines as they were listed last; errors as texts.
type Listed = Result<Arc<Vec<Arc<Machine>>>, String>;

/// Machines that are listed beside the agent, which never waits for the account: its nodes would miss their heartbeats.
struct Latest(watch::Receiver<Option<Listed>>);

#[async_trait]
impl Machines for Latest {
    async fn list(&self) -> Result<Vec<Machine>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.shared().await?.iter().map(|machine| Machine::clone(machine)).collect())
    }

    async fn shared(&self) -> Result<Arc<Vec<Arc<Machine>>>, Box<dyn std::error::Error + Send + Sync>> {
        let mut latest = self.0.clone();
        let listed = latest.wait_for(Option::is_some).await?.clone();
        Ok(listed.unwrap_or_else(|| Ok(Arc::default()))?)
    }
}

/// Lists machines again and again, and never ends.
async fn follow(machines: Arc<dyn Machines>, latest: watch::Sender<Option<Listed>>) {
    loop {
        let started = Instant::now();
        let listed = machines.shared().await.map_err(|error| error.to_string());
        latest.send_replace(Some(listed));
        sleep(LIST_AGAIN.max(started.elapsed())).await;
    }
}

/// Starts the agent of all machines of a cluster, which may be given orders; it ends when `shutdown` is cancelled. Without
/// an `account` that lists them, machines have the volumes of their image and are never rebooted.
pub fn play(
    client: Client,
    aws: Clients,
    account: Option<&Control>,
    environment: &AwsEnvironment,
    pace: Pace,
    shutdown: CancellationToken,
) -> (Arc<Agent>, JoinHandle<()>) {
    let options = Options {
        cluster_name: environment.cluster.clone(),
        boot: pace.boot,
        ready: pace.ready,
        spread: pace.spread,
        pod_start: pace.pod_start,
        at_once: AT_ONCE,
        ..Options::default()
    };
    let described = Ec2Machines::new(aws, &environment.cluster);
    let machines: Arc<dyn Machines> = match account.cloned() {
        Some(account) => {
            let region = environment.region.clone();
            Arc::new(WithVolumes { described, region, account, known: Mutex::default() })
        }
        None => Arc::new(described),
    };
    let (sender, latest) = watch::channel(None);
    let agent = Arc::new(Agent::new(client, Arc::new(Latest(latest)), Arc::new(WallClock), options));
    let runs = Arc::clone(&agent);
    let task = tokio::spawn(async move {
        tokio::select! {
            () = runs.run(shutdown) => {}
            () = follow(machines, sender) => {}
        }
    });
    (agent, task)
}
