//! The controller as a child process, which connects to the cluster as its service account.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::unistd::Pid;
use tokio::sync::Mutex;

use super::{LOST_LEASE, PODS, Place, SERVICE_ACCOUNT, Settings};
use crate::command_line::{binary, definitions};
use crate::manifests::{self, NAMESPACE};
use crate::process::{Process, Program, Supervised};

/// Longest time of an orderly stop: workers drain, the Lease is released.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// Kubernetes starts a container that has ended again after a moment.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// A controller on this machine.
#[derive(Default)]
pub struct InProcess {
    running: Mutex<Option<Supervised>>,
}

/// Values that EKS Pod Identity puts into a pod's environment.
struct PodIdentity {
    /// Address of the credentials.
    credentials: String,
    /// The token to ask for them with.
    token: PathBuf,
}

impl InProcess {
    /// Applies the definitions that `karpenter` prints, and the roles for installations without Helm.
    pub(super) async fn prepare(place: Place<'_>) -> Result<()> {
        let client = place.cluster.access().client();
        manifests::apply_definitions(&client, &definitions(place.aws).await?).await?;
        manifests::apply(&client, manifests::RBAC).await.context("apply the chart's roles")
    }

    /// Starts it as its own service account. Its log is `<folder>/controller.log`; one that lost its Lease is started
    /// again, and its earlier output is beside.
    pub(super) async fn start(&self, place: Place<'_>, settings: &Settings, folder: &Path) -> Result<()> {
        let kubeconfig =
            place.cluster.access().service_account_kubeconfig(NAMESPACE, SERVICE_ACCOUNT).await?;
        let mut environment = match pod_identity(place).await? {
            None => place.aws.variables(),
            Some(identity) => {
                let mut environment = place.aws.location();
                environment.extend([
                    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", identity.credentials.into()),
                    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", identity.token.into()),
                ]);
                environment
            }
        };
        environment.extend(variables(&kubeconfig, &place.aws.cluster, settings));
        let name = "controller";
        let program = Program { name, binary: binary()?, arguments: vec!["controller".into()], environment };
        let may_end = |process: &Process| process.has_last_said(LOST_LEASE);
        let controller = Supervised::start(program, folder, place.guard, may_end, RESTART_AFTER)?;
        *self.running.lock().await = Some(controller);
        Ok(())
    }

    pub(super) async fn id(&self) -> Option<Pid> {
        match self.running.lock().await.as_ref() {
            Some(controller) => controller.id().await,
            None => None,
        }
    }

    pub(super) async fn check(&self) -> Result<()> {
        match self.running.lock().await.as_ref() {
            Some(controller) => controller.check().await,
            None => Ok(()),
        }
    }

    pub(super) async fn stop(&self) -> Result<()> {
        match self.running.lock().await.take() {
            Some(controller) => controller.stop(STOP_WITHIN).await,
            None => Ok(()),
        }
    }

    /// Its successor can bind the same port.
    pub(super) async fn kill(&self) -> Result<()> {
        match self.running.lock().await.take() {
            Some(controller) => controller.kill().await,
            None => Ok(()),
        }
    }
}

fn variables(kubeconfig: &Path, cluster: &str, settings: &Settings) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("KUBECONFIG", kubeconfig.as_os_str().to_owned()),
        ("SYSTEM_NAMESPACE", NAMESPACE.into()),
        ("INTERRUPTION_QUEUE", cluster.into()),
        ("METRICS_PORT", settings.metrics_port.to_string().into()),
        ("HEALTH_PROBE_PORT", "0".into()),
        ("LOG_LEVEL", "debug".into()),
        ("ENABLE_ZONAL_SHIFT", "true".into()),
        ("DISABLE_LEADER_ELECTION", if settings.election { "false" } else { "true" }.into()),
    ];
    variables.extend(settings.variables.iter().map(|(name, value)| (*name, value.into())));
    if !settings.feature_gates.is_empty() {
        variables.push(("FEATURE_GATES", settings.feature_gates.clone().into()));
    }
    variables
}

/// The controller's way to its role; `None` where the emulator has no EKS to give it one.
async fn pod_identity(place: Place<'_>) -> Result<Option<PodIdentity>> {
    let Some(control) = place.account.control() else { return Ok(None) };
    let token = place.cluster.access().service_account_token_file(NAMESPACE, SERVICE_ACCOUNT, PODS).await?;
    let credentials = control.pod_identity(&place.aws.region, &place.aws.cluster);
    Ok(Some(PodIdentity { credentials, token }))
}
