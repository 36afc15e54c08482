//! `karpenter bootstrap destroy`: takes from the account what bootstrap made.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::Action as Need;

use super::removal::{self, Removal};
use super::request::Request;
use super::stack;

/// Arguments of `karpenter bootstrap destroy`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    removal: Removal,
}

/// Removes, or shows what would go or is left.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { request, removal } = arguments;
    let Request { flags, stack_flags, .. } = request;
    if request.printed_permissions(Need::Destroy).await? {
        return Ok(ExitCode::SUCCESS);
    }
    if removal.lists_leftovers() {
        return removal::list(flags).await;
    }
    if stack_flags.is_stack() {
        return stack::destroy(flags, stack_flags, removal).await;
    }
    removal::run(flags, removal).await
}
