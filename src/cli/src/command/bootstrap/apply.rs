//! `karpenter bootstrap apply`: makes the account as it should be.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::Action as Need;
use karpenter_bootstrap::plan::plan;
use karpenter_bootstrap::show;

use super::permissions::{self, Permissions};
use super::taking::Taking;
use super::{print, stack, steps};
use crate::flags::bootstrap::BootstrapFlags;

/// Arguments of `karpenter bootstrap apply`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: BootstrapFlags,
    #[command(flatten)]
    way: stack::Way,
    #[command(flatten)]
    permissions: Permissions,
    #[command(flatten)]
    taking: Taking,
}

/// Shows the plan and carries it out.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { flags, way, permissions, taking } = arguments;
    if permissions.are_all_that_is_asked() {
        return permissions::print(flags, way, Need::Apply).await;
    }
    taking.goes_with(way)?;
    if way.is_stack() {
        return stack::apply(flags, way).await;
    }
    let mut account = taking.open(flags).await?;
    let (desired, observed) = account.look().await?;
    let plan = plan(&account.settings, &desired, &observed);
    print(&format!("{}{}", account.heading(), show::text(&plan)))?;
    steps::carry_out(&account, &plan).await
}
