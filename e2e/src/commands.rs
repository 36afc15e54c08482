//! The command line: which subcommand, with which arguments.

mod account;
mod cluster;
mod demo;
mod play;
mod prepare;
mod run;
mod scale;
mod up;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use karpenter_e2e::engine;

/// End-to-end harness of Karpenter: a control plane and an AWS account on this machine.
#[derive(Parser)]
#[command(name = "karpenter-e2e", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or build every program a run needs.
    Prepare(prepare::Arguments),
    /// Bring up a local control plane.
    Cluster(cluster::Arguments),
    /// Bring up an emulated AWS account.
    Account(account::Arguments),
    /// Show pods becoming nodes on a real control plane.
    Demo(demo::Arguments),
    /// Run suites, each in a world of its own.
    Run(run::Arguments),
    /// Play scenario files in real time, each in a world of its own.
    Play(play::Arguments),
    /// Load a world and measure: pods a second, latencies, CPU, memory, calls.
    Scale(scale::Arguments),
    /// Hold a world until Ctrl-C and print how to reach it.
    Up(up::Arguments),
    /// What dockerd runs in place of runc; see `engine::runtime`.
    #[command(hide = true)]
    OciRuntime {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Runs the chosen subcommand to its end.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    if !matches!(arguments.command, Command::OciRuntime { .. }) {
        engine::Choice::from_environment()?.enter()?;
    }
    let runtime = tokio::runtime::Runtime::new().context("start the async runtime")?;
    match arguments.command {
        Command::Prepare(arguments) => runtime.block_on(prepare::run(&arguments)),
        Command::Cluster(arguments) => runtime.block_on(cluster::run(arguments)),
        Command::Account(arguments) => runtime.block_on(account::run(arguments)),
        Command::Demo(arguments) => runtime.block_on(demo::run(arguments)),
        Command::Run(arguments) => runtime.block_on(run::run(arguments)),
        Command::Play(arguments) => return runtime.block_on(play::run(arguments)),
        Command::Scale(arguments) => runtime.block_on(scale::run(arguments)),
        Command::Up(arguments) => runtime.block_on(up::run(arguments)),
        Command::OciRuntime { arguments } => engine::runtime::become_runc(&arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Resolves on Ctrl-C or SIGTERM.
async fn interrupted() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    tokio::select! {
        outcome = tokio::signal::ctrl_c() => outcome.context("listen for Ctrl-C"),
        _ = terminate.recv() => Ok(()),
    }
}
