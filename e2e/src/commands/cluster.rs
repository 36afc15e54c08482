//! `karpenter-e2e cluster up`: a local control plane that lives until Ctrl-C.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use karpenter_e2e::cluster::local::{LocalCluster, Options};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start etcd, API server, scheduler and controller manager, and stay until Ctrl-C.
    Up {
        /// Also copy the administrator's kubeconfig here.
        #[arg(long, value_name = "PATH")]
        kubeconfig_out: Option<PathBuf>,
        /// Keep logs and certificates in this folder instead of a temporary one.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Command::Up { kubeconfig_out, folder } = arguments.command;
    // Listening starts first, so that Ctrl-C during a long start still ends the children in order.
    let cluster = tokio::select! {
        started = LocalCluster::start(Options { folder, binaries: None }) => started?,
        outcome = super::interrupted() => return outcome,
    };
    let mut kubeconfig = cluster.kubeconfig().to_owned();
    if let Some(path) = kubeconfig_out {
        std::fs::copy(&kubeconfig, &path)
            .with_context(|| format!("write kubeconfig `{}`", path.display()))?;
        kubeconfig = path;
    }
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "export KUBECONFIG={}", kubeconfig.display()).context("write to standard output")?;
        writeln!(out, "# logs: {}", cluster.folder().display()).context("write to standard output")?;
    }
    super::interrupted().await?;
    tracing::info!("stopping");
    cluster.stop().await
}
