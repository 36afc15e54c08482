//! The program under test: the built `karpenter`, with the rights of its chart and nothing more.
//!
//! | runs | how it gets its rights | for |
//! |---|---|---|
//! | [`process`]: on this machine, beside the cluster | token and credentials that the harness asks for | every cluster |
//! | [`chart`]: in the cluster, installed with Helm | as on EKS: service account and agent of EKS Pod Identity | kind |
//!
//! Scenarios act through [`Controller`] and do not depend on which it is. The other commands of `karpenter` always run on this
//! machine: see [`command_line`](crate::command_line).

pub mod chart;
mod forward;
mod pod_identity;
pub mod process;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use nix::unistd::Pid;

use crate::account::Account;
use crate::cluster::Cluster;
use crate::command_line::AwsEnvironment;
use crate::process::Guard;

/// The service account the chart installs the controller under.
const SERVICE_ACCOUNT: &str = "karpenter";

/// Audience of the token that the controller gets its role with.
const PODS: &str = "pods.eks.amazonaws.com";

/// The last words of a controller that could not renew its Lease, which on a busy machine happens. It is the one way in
/// which it may end by itself: Kubernetes puts it right by starting the controller again.
const LOST_LEASE: &str = "error: lost lease";

/// Differences between the controllers of scenarios.
#[derive(Clone, Debug)]
pub struct Settings {
    /// True if it waits for the Lease before it acts.
    pub election: bool,
    /// `FEATURE_GATES`; empty leaves the defaults.
    pub feature_gates: String,
    /// Further variables of its environment.
    pub variables: Vec<(&'static str, String)>,
    /// Port on this machine that serves metrics and explanations.
    pub metrics_port: u16,
}

/// Way in which the controller runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// As a process of this machine.
    #[default]
    Process,
    /// In the cluster, as the chart installs it.
    Chart,
}

/// Cluster and account that a controller acts on.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub cluster: &'a Cluster,
    pub account: &'a Account,
    /// Environment with which `karpenter` reaches the account.
    pub aws: &'a AwsEnvironment,
    /// Guard that ends processes that outlive the harness.
    pub guard: &'a Arc<Guard>,
}

/// The controller of a world, whether it runs or not.
pub enum Controller {
    Process(process::InProcess),
    Chart(Box<chart::InCluster>),
}

impl Controller {
    /// Returns a controller that is not installed yet.
    pub fn new(choice: Choice) -> Self {
        match choice {
            Choice::Process => Self::Process(process::InProcess::default()),
            Choice::Chart => Self::Chart(Box::default()),
        }
    }

    /// Installs what it needs in the cluster: definitions, roles, and whatever else it takes to start it.
    pub async fn prepare(&self, place: Place<'_>) -> Result<()> {
        match self {
            Self::Process(_) => process::InProcess::prepare(place).await,
            Self::Chart(chart) => chart.prepare(place).await,
        }
    }

    /// Starts it, also after it was stopped or killed; its output is written to `folder`.
    pub async fn start(&self, place: Place<'_>, settings: &Settings, folder: &Path) -> Result<()> {
        match self {
            Self::Process(process) => process.start(place, settings, folder).await,
            Self::Chart(chart) => chart.start(place, settings, folder).await,
        }
    }

    /// Fails with its last words when it has ended by itself, unless it lost its Lease and is started again.
    pub async fn check(&self, place: Place<'_>) -> Result<()> {
        match self {
            Self::Process(process) => process.check().await,
            Self::Chart(chart) => chart.check(place).await,
        }
    }

    /// Ends it as Kubernetes would: SIGTERM, then time to finish.
    pub async fn stop(&self, place: Place<'_>) -> Result<()> {
        match self {
            Self::Process(process) => process.stop().await,
            Self::Chart(chart) => chart.stop(place).await,
        }
    }

    /// Ends what acts at once, wherever it is, as a crash would.
    pub async fn kill(&self, place: Place<'_>) -> Result<()> {
        match self {
            Self::Process(process) => process.kill().await,
            Self::Chart(chart) => chart.kill(place).await,
        }
    }

    /// Its process, if it runs on this machine.
    pub async fn process(&self) -> Option<Pid> {
        match self {
            Self::Process(process) => process.id().await,
            Self::Chart(_) => None,
        }
    }

    /// Writes its output to its folder, if it is not there already.
    pub async fn save_logs(&self, place: Place<'_>) -> Result<()> {
        match self {
            // Its log is a file from the start.
            Self::Process(_) => Ok(()),
            Self::Chart(chart) => chart.save_logs(place).await,
        }
    }
}
