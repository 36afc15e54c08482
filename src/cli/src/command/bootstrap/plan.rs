//! `karpenter bootstrap plan`: what the account lacks, or what `destroy` would take from it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::permissions::Action as Need;
use karpenter_bootstrap::plan::{Plan, plan};
use karpenter_bootstrap::show;

use super::account::Account;
use super::request::Request;
use super::taking::Taking;
use super::{DIFFERENCES, Output, print, removal, stack};
use crate::flags::bootstrap::BootstrapFlags;
use crate::output::json;

/// Arguments of `karpenter bootstrap plan`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    taking: Taking,
    /// Show what `destroy` would remove instead
    #[arg(long, conflicts_with_all = ["adopt", "via"])]
    destroy: bool,
    /// How to print the plan
    #[arg(long, short, default_value = "text")]
    output: Output,
}

/// Shows the plan.
pub(super) async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { request, taking, destroy, output } = arguments;
    let Request { flags, stack_flags, .. } = request;
    if request.printed_permissions(if *destroy { Need::Destroy } else { Need::Look }).await? {
        return Ok(ExitCode::SUCCESS);
    }
    taking.goes_with(stack_flags)?;
    if stack_flags.is_stack() {
        return stack::plan(flags, stack_flags, *output).await;
    }
    if *destroy {
        return removal::plan(flags, InUse::Refuse, *output).await;
    }
    let (_, plan) = shown(flags, taking, *output).await?;
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Looks at the account and prints what it lacks, which `apply` then carries out.
pub(super) async fn shown(
    flags: &BootstrapFlags,
    taking: &Taking,
    output: Output,
) -> Result<(Account, Plan)> {
    let mut account = taking.open(flags).await?;
    let (desired, observed) = account.look().await?;
    let plan = plan(&account.settings, &desired, &observed);
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::text(&plan)))?,
        Output::Json => print(&json(&show::shown(&plan))?)?,
    }
    Ok((account, plan))
}
