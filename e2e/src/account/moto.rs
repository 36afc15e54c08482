//! The launcher of `localstack/`: moto, augmented, as a process on a port it chooses itself.
//!
//! It listens on one address only: loopback, or the one under which the pods of a cluster on this machine reach it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::ChildStdout;

use super::Control;
use super::control::Seeded;
use crate::prepare;
use crate::process::{Guard, Process, Program};
use crate::wait::PATIENCE;

const STOP_WITHIN: Duration = Duration::from_secs(3);

/// Options of the account.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed the account for an EKS cluster of this name.
    pub cluster: Option<String>,
    /// The region of that cluster.
    pub region: String,
    /// Its Kubernetes version, e.g. `1.35`.
    pub kubernetes: String,
    /// Folder of the log; a temporary folder if empty.
    pub folder: Option<PathBuf>,
    /// The address it listens on.
    pub host: Ipv4Addr,
}

impl Default for Options {
    fn default() -> Self {
        let (region, kubernetes) = ("us-west-2".to_owned(), "1.35".to_owned());
        Self { cluster: None, region, kubernetes, folder: None, host: Ipv4Addr::LOCALHOST }
    }
}

/// A running launcher; ends when stopped or dropped.
pub struct MotoAccount {
    process: Process,
    /// Kept open: a launcher that writes to a closed pipe would die.
    _stdout: BufReader<ChildStdout>,
    control: Control,
    endpoint: String,
    seeded: Option<Seeded>,
    _folder: Option<TempDir>,
}

/// The line the launcher prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    endpoint: String,
    seed: Option<Seeded>,
}

impl MotoAccount {
    /// Starts the launcher and returns when it answers.
    pub async fn start(options: Options) -> Result<Self> {
        let python = tokio::task::spawn_blocking(prepare::python).await.context("prepare Python")??;
        let temporary = match &options.folder {
            Some(_) => None,
            None => {
                Some(tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?)
            }
        };
        let folder = match (&options.folder, &temporary) {
            (Some(folder), _) => folder.clone(),
            (None, Some(temporary)) => temporary.path().to_owned(),
            (None, None) => bail!("the account has no folder for its log"),
        };
        std::fs::create_dir_all(&folder).with_context(|| format!("create folder `{}`", folder.display()))?;
        let guard = Arc::new(Guard::start()?);
        let mut process = Process::start(program(python, &options), &folder, true, &guard)?;
        let stdout = process.take_stdout().context("read the launcher's standard output")?;
        let mut stdout = BufReader::new(stdout);
        let ready = match first_line(&mut stdout).await {
            Ok(ready) => ready,
            Err(error) => return Err(error.context(process.last_words())),
        };
        tracing::info!(endpoint = ready.endpoint, "emulated AWS account is ready");
        let control = Control::new(&ready.endpoint);
        Ok(Self {
            process,
            _stdout: stdout,
            control,
            endpoint: ready.endpoint,
            seeded: ready.seed,
            _folder: temporary,
        })
    }

    /// Returns the value for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the seeded contents of the account, if it was asked to be seeded.
    pub fn seeded(&self) -> Option<&Seeded> {
        self.seeded.as_ref()
    }

    /// The control requests.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// The launcher's process.
    pub fn process(&self) -> Pid {
        self.process.id()
    }

    /// Ends the launcher.
    pub async fn stop(self) -> Result<()> {
        self.process.stop(STOP_WITHIN).await
    }
}

fn program(python: PathBuf, options: &Options) -> Program {
    let mut arguments: Vec<std::ffi::OsString> =
        ["-m", "emulator", "--port", "0", "--host"].map(Into::into).to_vec();
    arguments.push(options.host.to_string().into());
    if let Some(cluster) = &options.cluster {
        arguments.extend(["--seed", cluster, "--region", &options.region].map(Into::into));
        arguments.extend(["--kubernetes", &options.kubernetes].map(Into::into));
    }
    let environment = vec![
        ("PYTHONPATH", prepare::launcher_folder().into_os_string()),
        // The launcher's own modules compile in no time; the repository stays clean.
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
    ];
    Program { name: "account", binary: python, arguments, environment }
}

async fn first_line(stdout: &mut BufReader<ChildStdout>) -> Result<Ready> {
    let mut line = String::new();
    tokio::time::timeout(PATIENCE, stdout.read_line(&mut line))
        .await
        .with_context(|| format!("the emulated AWS account was not ready after {PATIENCE:?}"))?
        .context("read from the emulated AWS account")?;
    if line.is_empty() {
        bail!("the emulated AWS account ended before it was ready");
    }
    serde_json::from_str(&line).with_context(|| format!("read the launcher's ready line `{}`", line.trim()))
}
