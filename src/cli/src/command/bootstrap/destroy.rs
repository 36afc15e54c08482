//! `karpenter bootstrap destroy`: takes from the account what bootstrap made.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::Action as Need;

use super::permissions::{self, Permissions};
use super::removal::{self, Removal};
use super::stack;
use crate::flags::bootstrap::BootstrapFlags;

/// Arguments of `karpenter bootstrap destroy`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: BootstrapFlags,
    #[command(flatten)]
    way: stack::Way,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    removal: Removal,
}

/// Removes, or shows what would go or is left.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { flags, way, permissions, removal } = arguments;
    if permissions.are_all_that_is_asked() {
        return permissions::print(flags, way, Need::Destroy).await;
    }
    if removal.lists_leftovers() {
        return removal::list(flags).await;
    }
    if way.is_stack() {
        return stack::destroy(flags, way, removal).await;
    }
    removal::run(flags, removal).await
}
