//! `karpenter-e2e account up`: an emulated AWS account that lives until Ctrl-C.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use karpenter_e2e::account::moto::{MotoAccount, Options};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the emulated account on a free loopback port, and stay until Ctrl-C.
    Up {
        /// Seed it for an EKS cluster of this name.
        #[arg(long, value_name = "CLUSTER", default_value = "karpenter-demo")]
        cluster: String,
        /// The region of that cluster.
        #[arg(long, default_value = "us-west-2")]
        region: String,
        /// Its Kubernetes version.
        #[arg(long, default_value = "1.35")]
        kubernetes: String,
        /// Keep the log in this folder instead of a temporary one.
        #[arg(long, value_name = "FOLDER")]
        folder: Option<PathBuf>,
    },
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let Command::Up { cluster, region, kubernetes, folder } = arguments.command;
    let options =
        Options { cluster: Some(cluster), region: region.clone(), kubernetes, folder, ..Options::default() };
    let account = tokio::select! {
        started = MotoAccount::start(options) => started?,
        outcome = super::interrupted() => return outcome,
    };
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "export AWS_ENDPOINT_URL={}", account.endpoint())
            .and_then(|()| writeln!(out, "export AWS_REGION={region}"))
            .and_then(|()| writeln!(out, "export AWS_ACCESS_KEY_ID=emulator AWS_SECRET_ACCESS_KEY=emulator"))
            .context("write to standard output")?;
    }
    super::interrupted().await?;
    account.stop().await
}
