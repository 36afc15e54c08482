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

/// How the account is changed.
#[derive(Args)]
pub(super) struct Way {
    /// Change the account by single calls, or by one stack made of the template that `render cloudformation` prints
    #[arg(long, default_value = "sdk")]
    via: Via,
    /// Name of the stack with `--via cloudformation`; else Karpenter-<cluster>
    #[arg(long, value_name = "NAME")]
    stack_name: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Via {
    /// Single calls: repairs whatever differs, and tells its own things by a tag.
    Sdk,
    /// One stack, changed through change sets.
    Cloudformation,
}

impl Way {
    pub(super) fn is_stack(&self) -> bool {
        self.via == Via::Cloudformation
    }

    /// The stack's name.
    pub(super) fn stack(&self, settings: &Settings) -> String {
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
pub(super) async fn plan(flags: &BootstrapFlags, way: &Way, output: Output) -> Result<ExitCode> {
    let mut account = Account::open(flags).await?;
    let seen = account.look().await?;
    let plan = look::plan(target(&account, &seen, &way.stack(&account.settings))).await?;
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::stack_text(&plan)))?,
        Output::Json => print(&format!("{}\n", show::stack_json(&plan)))?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Creates or changes the stack with a line per event.
pub(super) async fn apply(flags: &BootstrapFlags, way: &Way) -> Result<ExitCode> {
    let mut account = Account::open(flags).await?;
    let seen = account.look().await?;
    print(&account.heading())?;
    let changed = run::apply(target(&account, &seen, &way.stack(&account.settings)), &mut tell).await?;
    print(if changed {
        "done: the account is as it should be\n"
    } else {
        "nothing to do: the account is as it should be\n"
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Deletes the stack with a line per event.
pub(super) async fn destroy(flags: &BootstrapFlags, way: &Way, removal: &Removal) -> Result<ExitCode> {
    let account = Account::open_for_removal(flags).await?;
    removal.drain(&account).await?;
    let left = removal::left(&account).await?;
    let name = way.stack(&account.settings);
    let seen = account.look_for_remains().await?;
    print(&account.heading())?;
    if removal.is_dry_run() {
        let plan = look::removal(target(&account, &seen, &name), &left, removal.in_use()).await?;
        print(&show::stack_text(&plan))?;
        return Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) });
    }
    let changed = run::destroy(target(&account, &seen, &name), &left, removal.in_use(), &mut tell).await?;
    print(if changed { "done: the stack is gone\n" } else { "nothing to do: there is no such stack\n" })?;
    Ok(ExitCode::SUCCESS)
}

/// The work goes on even when its output can no longer be written.
fn tell(progress: Progress<'_>) {
    let _ = match progress {
        Progress::Doing(what) => print(&format!("{what}\n")),
        Progress::Event(event) => {
            let reason = event.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            print(&format!("  {:<20} {:<34} {}{reason}\n", event.status, event.kind, event.logical_id))
        }
        Progress::Done(step) => print(&format!("{}\n", step.sentence())),
    };
}
