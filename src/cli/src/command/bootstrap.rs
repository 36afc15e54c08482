//! `karpenter bootstrap`: the account's prerequisites, planned, applied, checked, rendered or removed.
//!
//! A file for each action says what it takes and in which order it does what. Exit codes: 0 done, or nothing to do;
//! 1 failure; 2 (of what only looks) the account is not as it should be.

mod account;
mod apply;
mod aws_auth;
mod check;
mod destroy;
mod drain;
mod given;
pub(super) mod kubernetes;
mod outputs;
mod plan;
mod removal;
mod render;
mod request;
mod stack;
mod steps;
mod taking;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use karpenter_telemetry::stdout::print;

use crate::output::Output;

/// Exit code of what only looks (`plan`, `check`, `destroy --dry-run`, `destroy --leftovers`) when the account is
/// not as it should be, or not as empty; 1 is kept for failures.
const DIFFERENCES: u8 = 2;

/// Arguments of `karpenter bootstrap`.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 done, or nothing to do, 1 failed, 2 the account is not as it should be (commands that only look).\n\n\
                        What an account lacks: karpenter bootstrap plan --cluster-name prod\n\
                        To create it: karpenter bootstrap apply --cluster-name prod\n\
                        As one stack: karpenter bootstrap apply --cluster-name prod --via cloudformation\n\
                        For another tool: karpenter bootstrap render cloudformation --cluster-name prod"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what the account lacks; changes nothing; exit code 0: nothing, 2: something, 1: failure
    Plan(plan::Arguments),
    /// Create and repair what the account lacks; can be run again at any time
    Apply(apply::Arguments),
    /// Remove what bootstrap created for the cluster and what its controller left behind, and nothing else; refuses
    /// while instances run
    Destroy(destroy::Arguments),
    /// Check whether the account is ready, whatever tool prepared it; exit code 0: ready, 2: not ready, 1: failure
    Check(check::Arguments),
    /// Print the prerequisites for another tool: CloudFormation, Terraform, eksctl or plain IAM documents
    Render(render::Arguments),
}

/// Runs the chosen action.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.action {
            Action::Plan(arguments) => plan::run(&arguments).await,
            Action::Apply(arguments) => apply::run(&arguments).await,
            Action::Destroy(arguments) => destroy::run(&arguments).await,
            Action::Check(arguments) => check::run(arguments).await,
            Action::Render(arguments) => render::run(arguments).await,
        }
    })
}
