//! `karpenter bootstrap apply`: makes the account as it should be.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::Action as Need;

use super::request::Request;
use super::taking::Taking;
use super::{Output, plan, stack, steps};

/// Arguments of `karpenter bootstrap apply`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    taking: Taking,
}

/// Shows the plan and carries it out.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { request, taking } = arguments;
    let Request { flags, stack_flags, .. } = request;
    if request.printed_permissions(Need::Apply).await? {
        return Ok(ExitCode::SUCCESS);
    }
    taking.goes_with(stack_flags)?;
    if stack_flags.is_stack() {
        return stack::apply(flags, stack_flags).await;
    }
    let (account, plan) = plan::shown(flags, taking, Output::Text).await?;
    steps::carry_out(&account, &plan).await
}
