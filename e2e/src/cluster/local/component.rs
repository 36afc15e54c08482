//! Starts the four programs in order and waits until each reports ready.
//!
//! The scheduler and the controller manager start together once the API server is ready; nothing starts
//! before what it needs. A program that ends early ends the wait at once, with its last log lines.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nix::unistd::Pid;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use super::arguments::{self, Addresses};
use crate::prepare::{Binaries, Release};
use crate::process::{Guard, Process, Program, Restartable};
use crate::wait::PATIENCE;

const ASK_EVERY: Duration = Duration::from_millis(50);
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Percent that the memory of a program may grow before its garbage is collected; Go's 100 costs these small programs a
/// quarter of their processor time.
const COLLECT_AFTER_GROWTH: &str = "400";

/// Reason why a start failed: worth another try with other ports, or not.
pub(super) enum StartError {
    PortTaken(Error),
    Other(Error),
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// The running programs, in the order they were started.
pub(super) struct Components(Vec<Restartable>);

impl Components {
    /// Starts all four; on an error those that run are ended.
    pub(super) async fn start(
        binaries: &Binaries,
        folder: &Path,
        addresses: &Addresses,
        guard: &Arc<Guard>,
    ) -> Result<Self, StartError> {
        // Data of an attempt that failed halfway would make etcd insist on its old ports.
        match std::fs::remove_dir_all(folder.join("etcd")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::new(error).context("remove old etcd data").into());
            }
            _ => {}
        }
        let begin = |name, binary: &Path, arguments: Vec<String>| {
            let arguments = arguments.into_iter().map(Into::into).collect();
            let environment = vec![("GOGC", COLLECT_AFTER_GROWTH.into())];
            let program = Program { name, binary: binary.to_owned(), arguments, environment };
            Started::new(program, folder, guard)
        };
        let admin = Health::new(folder).await?;
        let mut etcd = begin("etcd", &binaries.etcd, arguments::etcd(addresses))?;
        admin.await_ready(&mut etcd.process, addresses.etcd, "/health").await?;
        let release = Release::of(&binaries.kube_apiserver)?;
        let mut apiserver =
            begin("kube-apiserver", &binaries.kube_apiserver, arguments::apiserver(addresses, release))?;
        admin.await_ready(&mut apiserver.process, addresses.apiserver, "/readyz").await?;
        let mut scheduler =
            begin("kube-scheduler", &binaries.kube_scheduler, arguments::scheduler(addresses, release))?;
        let mut controllers = begin(
            "kube-controller-manager",
            &binaries.kube_controller_manager,
            arguments::controller_manager(addresses, release),
        )?;
        admin.await_ready(&mut scheduler.process, addresses.scheduler, "/readyz").await?;
        admin.await_ready(&mut controllers.process, addresses.controller_manager, "/healthz").await?;
        let started = [etcd, apiserver, scheduler, controllers];
        let kept = started
            .into_iter()
            .map(|Started { process, program }| Restartable::new(process, program, folder, guard));
        Ok(Self(kept.collect()))
    }

    pub(super) fn processes(&self) -> Vec<(&'static str, Pid)> {
        self.0.iter().filter_map(|process| Some((process.name(), process.id()?))).collect()
    }

    /// Kills one, and starts it again after it was `dead` for a while.
    pub(super) async fn restart(&self, name: &str, dead: Duration) -> Result<()> {
        let process = self.0.iter().find(|process| process.name() == name);
        process.with_context(|| format!("a control plane has no `{name}`"))?.restart(dead).await
    }

    /// Ends all, the last started first, so that no program sees what it depends on disappear.
    pub(super) async fn stop(&mut self) -> Result<()> {
        while let Some(process) = self.0.pop() {
            process.stop(STOP_WITHIN).await?;
        }
        Ok(())
    }
}

/// A process, and what it takes to start it again.
struct Started {
    process: Process,
    program: Program,
}

impl Started {
    fn new(program: Program, folder: &Path, guard: &Arc<Guard>) -> Result<Self> {
        Ok(Self { process: Process::start(program.clone(), folder, false, guard)?, program })
    }
}

/// Checks the health of programs with the administrator's certificate, which etcd demands too.
struct Health(Config);

impl Health {
    async fn new(folder: &Path) -> Result<Self> {
        let path = folder.join("admin.kubeconfig");
        let file = Kubeconfig::read_from(&path).with_context(|| format!("read `{}`", path.display()))?;
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .context("build a client for health checks")?;
        config.proxy_url = None;
        config.read_timeout = Some(ANSWER_WITHIN);
        Ok(Self(config))
    }

    async fn await_ready(&self, process: &mut Process, port: u16, path: &str) -> Result<(), StartError> {
        let mut config = self.0.clone();
        config.cluster_url = format!("https://127.0.0.1:{port}").parse().context("build a health URL")?;
        let client = Client::try_from(config).context("build a client for health checks")?;
        let mut ticks = tokio::time::interval(ASK_EVERY);
        let wait = async {
            loop {
                ticks.tick().await;
                if let Some(status) = process.ended()? {
                    return Err(early_end(process, status));
                }
                if healthy(&client, path).await {
                    return Ok(());
                }
            }
        };
        if let Ok(outcome) = tokio::time::timeout(PATIENCE, wait).await {
            outcome
        } else {
            let words = process.last_words();
            Err(anyhow!("{} was not ready after {PATIENCE:?}; {words}", process.name()).into())
        }
    }
}

fn early_end(process: &Process, status: std::process::ExitStatus) -> StartError {
    let words = process.last_words();
    let error = anyhow!("{} ended with {status} before it was ready; {words}", process.name());
    if process.found_its_port_taken() { StartError::PortTaken(error) } else { StartError::Other(error) }
}

/// etcd answers JSON, the others `ok`; all answer an error status while they are not ready, which is expected
/// here and would otherwise fill the log with the client's complaints.
async fn healthy(client: &Client, path: &str) -> bool {
    let Ok(request) = http::Request::get(path).body(Vec::new()) else { return false };
    match client.request_text(request).with_subscriber(NoSubscriber::new()).await {
        Ok(text) => text.trim() == "ok" || text.contains(r#""health":"true""#),
        Err(_) => false,
    }
}
