//! `karpenter-demo`: what `karpenter demo` does, without the AWS SDK.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use karpenter_telemetry::stdout::{SIGPIPE, Unwritten};

/// Watch nodes being launched for pods and removed again, in a cluster and an account in memory
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: karpenter_demo::Arguments,
}

fn main() -> Result<ExitCode> {
    match karpenter_demo::run(Command::parse().arguments) {
        Err(error) if matches!(error.downcast_ref(), Some(Unwritten::Closed)) => Ok(ExitCode::from(SIGPIPE)),
        outcome => outcome,
    }
}
