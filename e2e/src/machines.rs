//! Plays every machine of the account: joins Nodes from user data, runs pods, goes away with the instance.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karpenter_aws_api::Clients;
use karpenter_aws_sdk as sdk;
use karpenter_kube_sim::kubelet::{Agent, Ec2Machines, Options};
use karpenter_model::Clock;
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

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

/// Starts the agent of all machines of `cluster`; it ends when `shutdown` is cancelled.
pub fn play(
    client: Client,
    aws: Clients,
    cluster: &str,
    boot: Duration,
    shutdown: CancellationToken,
) -> JoinHandle<()> {
    let options = Options {
        cluster_name: cluster.to_owned(),
        boot,
        ready: Duration::from_secs(1),
        pod_start: Duration::from_millis(500),
        // Each look is a description of every instance, which an emulated account renders slowly.
        poll: Duration::from_secs(1),
        ..Options::default()
    };
    let machines = Arc::new(Ec2Machines::new(aws, cluster));
    let agent = Agent::new(client, machines, Arc::new(WallClock), options);
    tokio::spawn(async move { agent.run(shutdown).await })
}
