//! `karpenter bootstrap plan`: what the account lacks, or what `destroy` would take from it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::permissions::Action as Need;
use karpenter_bootstrap::plan::plan;
use karpenter_bootstrap::show;

use super::permissions::{self, Permissions};
use super::taking::Taking;
use super::{DIFFERENCES, Output, print, removal, stack};
use crate::flags::bootstrap::BootstrapFlags;

/// Arguments of `karpenter bootstrap plan`.
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
    /// Show what `destroy` would do instead
    #[arg(long, conflicts_with_all = ["adopt", "via"])]
    destroy: bool,
    /// How to print the plan
    #[arg(long, short, default_value = "text")]
    output: Output,
}

/// Shows the plan.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { flags, way, permissions, taking, destroy, output } = arguments;
    if permissions.are_all_that_is_asked() {
        return permissions::print(flags, way, if *destroy { Need::Destroy } else { Need::Look }).await;
    }
    taking.goes_with(way)?;
    if way.is_stack() {
        return stack::plan(flags, way, *output).await;
    }
    if *destroy {
        return removal::plan(flags, InUse::Refuse, *output).await;
    }
    show_steps(flags, taking, *output).await
}

async fn show_steps(flags: &BootstrapFlags, taking: &Taking, output: Output) -> Result<ExitCode> {
    let mut account = taking.open(flags).await?;
    let (desired, observed) = account.look().await?;
    let plan = plan(&account.settings, &desired, &observed);
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::text(&plan)))?,
        Output::Json => print(&format!("{}\n", show::json(&plan)))?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}
