//! `karpenter bootstrap`: the account's prerequisites, planned, applied, checked, rendered or removed.
//!
//! Exit codes: 0 done, or nothing to do; 1 failure; 2 (of what only looks) the account is not as it should be.

mod account;
mod aws_auth;
mod check;
mod drain;
pub(super) mod kubernetes;
mod outputs;
mod removal;
mod render;
mod stack;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use karpenter_bootstrap::apply::{Progress, apply};
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::permissions::{self, Action as Need};
use karpenter_bootstrap::plan::{Plan, plan};
use karpenter_bootstrap::settings::Foreign;
use karpenter_bootstrap::show;

use self::account::Account;
use self::removal::Removal;
use crate::flags::bootstrap::BootstrapFlags;
use crate::output::{Output, print};

/// Exit code of `plan` and `check` when the account is not yet as it should be; 1 is kept for failures.
const DIFFERENCES: u8 = 2;

/// Arguments of `karpenter bootstrap`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what the account lacks and change nothing; exit code 0: nothing, 2: something, 1: failure
    Plan {
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
        #[arg(long, default_value = "text")]
        output: Output,
    },
    /// Create and repair what the account lacks; run again at any time
    Apply {
        #[command(flatten)]
        flags: BootstrapFlags,
        #[command(flatten)]
        way: stack::Way,
        #[command(flatten)]
        permissions: Permissions,
        #[command(flatten)]
        taking: Taking,
    },
    /// Remove what bootstrap made for the cluster and its controller left behind, and nothing else; refuses while
    /// machines run
    Destroy {
        #[command(flatten)]
        flags: BootstrapFlags,
        #[command(flatten)]
        way: stack::Way,
        #[command(flatten)]
        permissions: Permissions,
        #[command(flatten)]
        removal: Removal,
    },
    /// Say whether the account is ready, by whatever means it was made so; exit code 0: ready, 2: not, 1: failure
    Check {
        #[command(flatten)]
        flags: BootstrapFlags,
        /// Take names from the output of `terraform output -json` in this file; `-` is standard input
        #[arg(long, value_name = "FILE")]
        terraform_outputs: Option<String>,
        /// How to print the report
        #[arg(long, default_value = "text")]
        output: Output,
    },
    /// Print the prerequisites in the words of another tool
    Render(render::Arguments),
}

#[derive(Args)]
struct Taking {
    /// Take over what exists under the names that the flags give and was made for this cluster by other means: tag it
    /// as ours, and bring it to what is wanted
    #[arg(long)]
    adopt: bool,
}

#[derive(Args)]
struct Permissions {
    /// Print the IAM policy that this command needs, and do nothing
    #[arg(long)]
    print_required_permissions: bool,
}

impl Taking {
    async fn open(&self, flags: &BootstrapFlags) -> Result<Account> {
        let mut account = Account::open(flags).await?;
        if self.adopt {
            account.settings.foreign = Foreign::Adopted;
        }
        Ok(account)
    }
}

/// Runs the chosen action.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.action {
            Action::Plan { flags, way, permissions, destroy, .. }
                if permissions.print_required_permissions =>
            {
                print_permissions(&flags, &way, if destroy { Need::Destroy } else { Need::Look }).await
            }
            Action::Apply { flags, way, permissions, .. } if permissions.print_required_permissions => {
                print_permissions(&flags, &way, Need::Apply).await
            }
            Action::Destroy { flags, way, permissions, .. } if permissions.print_required_permissions => {
                print_permissions(&flags, &way, Need::Destroy).await
            }
            Action::Plan { way, taking, .. } | Action::Apply { way, taking, .. }
                if way.is_stack() && taking.adopt =>
            {
                bail!("a stack cannot take over what exists: --adopt goes with --via sdk only")
            }
            Action::Plan { flags, way, output, .. } if way.is_stack() => {
                stack::plan(&flags, &way, output).await
            }
            Action::Apply { flags, way, .. } if way.is_stack() => stack::apply(&flags, &way).await,
            Action::Destroy { flags, removal, .. } if removal.lists_leftovers() => {
                removal::list(&flags).await
            }
            Action::Destroy { flags, way, removal, .. } if way.is_stack() => {
                stack::destroy(&flags, &way, &removal).await
            }
            Action::Plan { flags, destroy: true, output, .. } => {
                removal::plan(&flags, InUse::Refuse, output).await
            }
            Action::Plan { flags, taking, output, .. } => show_plan(&flags, &taking, output).await,
            Action::Apply { flags, taking, .. } => apply_all(&flags, &taking).await,
            Action::Destroy { flags, removal, .. } => removal::run(&flags, &removal).await,
            Action::Check { flags, terraform_outputs, output } => {
                check::run(flags, terraform_outputs.as_deref(), output).await
            }
            Action::Render(arguments) => render::run(arguments).await,
        }
    })
}

async fn print_permissions(flags: &BootstrapFlags, way: &stack::Way, need: Need) -> Result<ExitCode> {
    let settings = account::settings(flags).await?;
    let required = if way.is_stack() {
        permissions::required_for_stack(&settings, &way.stack(&settings), need)
    } else {
        permissions::required(&settings, need)
    };
    print(&format!("{required:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}

async fn show_plan(flags: &BootstrapFlags, taking: &Taking, output: Output) -> Result<ExitCode> {
    let mut account = taking.open(flags).await?;
    let (desired, observed) = account.look().await?;
    let plan = plan(&account.settings, &desired, &observed);
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), show::text(&plan)))?,
        Output::Json => print(&format!("{}\n", show::json(&plan)))?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

async fn apply_all(flags: &BootstrapFlags, taking: &Taking) -> Result<ExitCode> {
    let mut account = taking.open(flags).await?;
    let (desired, observed) = account.look().await?;
    let plan = plan(&account.settings, &desired, &observed);
    print(&format!("{}{}", account.heading(), show::text(&plan)))?;
    carry_out(&account, &plan).await
}

/// Carries out a plan with a line per finished step.
async fn carry_out(account: &Account, plan: &Plan) -> Result<ExitCode> {
    let mut done = 0;
    let total = plan.steps.len();
    let mut progress = |progress: Progress<'_>| {
        let text = match progress {
            Progress::Waiting(what) => what.to_owned(),
            Progress::Done(step) => {
                done += 1;
                format!("[{done}/{total}] {}", step.sentence())
            }
        };
        // The work goes on even when its output can no longer be written.
        let _ = print(&format!("{text}\n"));
    };
    apply(&account.clients, &account.settings.cluster, plan, &mut progress).await?;
    Ok(ExitCode::SUCCESS)
}
