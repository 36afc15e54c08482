//! `--via cloudformation`: the same actions on a stack.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use karpenter_bootstrap::desired::Desired;
use karpenter_bootstrap::observe::Observed;
use karpenter_bootstrap::stack::run::{self, Progress};
use karpenter_bootstrap::stack::{Target, look};
use karpenter_bootstrap::{Settings, show, stack};

use super::account::Account;
use super::removal::{self, Removal};
use super::{DIFFERENCES, Output, print};
use crate::flags::bootstrap::BootstrapFlags;
use crate::output::json;

/// How the account is changed.
#[derive(Args)]
pub(super) struct StackFlags {
    /// How to change the account
    #[arg(long, default_value = "sdk")]
    via: Via,
    /// Name of the stack with `--via cloudformation` [default: `Karpenter-CLUSTER`]
    #[arg(long, value_name = "NAME")]
    stack_name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Via {
    /// By single API calls, which repair whatever differs; what bootstrap created is recognised by a tag.
    Sdk,
    /// By one stack of the template that `render cloudformation` prints, changed through change sets.
    Cloudformation,
}

impl StackFlags {
    pub(super) fn is_stack(&self) -> bool {
        self.via == Via::Cloudformation
    }

    /// The stack's name.
    pub(super) fn name(&self, settings: &Settings) -> String {
        self.stack_name.clone().unwrap_or_else(|| stack::name(settings))
    }
}

fn target<'a>(
    account: &'a Account,
    (desired, observed): &'a (Desired, Observed),
    name: &'a str,
) -> Target<'a> {
    Target { clients: &account.clients, settings: &account.settings, desired, observed, name }
}

/// Shows what a change set would change.
pub(super) async fn plan(
    flags: &BootstrapFlags,
    stack_flags: &StackFlags,
    output: Output,
) -> Result<ExitCode> {
    let mut account = Account::open(flags).await?;
    let seen = account.look().await?;
    let plan = look::plan(target(&account, &seen, &stack_flags.name(&account.settings))).await?;
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::stack_text(&plan)))?,
        Output::Json => print(&json(&show::shown_stack(&plan))?)?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Creates or changes the stack with a line per event.
pub(super) async fn apply(flags: &BootstrapFlags, stack_flags: &StackFlags) -> Result<ExitCode> {
    let mut account = Account::open(flags).await?;
    let seen = account.look().await?;
    print(&account.heading())?;
    let changed =
        run::apply(target(&account, &seen, &stack_flags.name(&account.settings)), &mut print_progress)
            .await?;
    print(if changed {
        "done: the account is as it should be\n"
    } else {
        "nothing to do: the account is as it should be\n"
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes the stack with a line per event.
pub(super) async fn destroy(
    flags: &BootstrapFlags,
    stack_flags: &StackFlags,
    removal: &Removal,
) -> Result<ExitCode> {
    let account = Account::open_for_removal(flags).await?;
    removal.drain(&account).await?;
    let left = removal::left(&account).await?;
    let name = stack_flags.name(&account.settings);
    let seen = account.look_for_remains().await?;
    print(&account.heading())?;
    if removal.is_dry_run() {
        let plan = look::removal(target(&account, &seen, &name), &left, removal.in_use()).await?;
        print(&show::stack_text(&plan))?;
        return Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) });
    }
    let changed =
        run::destroy(target(&account, &seen, &name), &left, removal.in_use(), &mut print_progress).await?;
    print(if changed { "done: the stack is gone\n" } else { "nothing to do: there is no such stack\n" })?;
    Ok(ExitCode::SUCCESS)
}

/// The work goes on even when its output can no longer be written.
fn print_progress(progress: Progress<'_>) {
    let _ = match progress {
        Progress::Doing(what) => print(&format!("{what}\n")),
        Progress::Event(event) => {
            let reason = event.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            print(&format!("  {:<20} {:<34} {}{reason}\n", event.status, event.kind, event.logical_id))
        }
        Progress::Done(step) => print(&format!("{}\n", step.sentence())),
    };
}
