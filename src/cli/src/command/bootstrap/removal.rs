//! `destroy`, and `plan --destroy`: looks first for what the controller has not taken away.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use karpenter_bootstrap::destroy::{InUse, destroy};
use karpenter_bootstrap::leftovers::{self, Leftovers};
use karpenter_bootstrap::plan::Plan;
use karpenter_bootstrap::show;

use super::account::Account;
use super::{DIFFERENCES, Output, drain, kubernetes, print, steps};
use crate::flags::bootstrap::BootstrapFlags;
use crate::output::json;

/// How `destroy` goes about it.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct Removal {
    /// Show what would be removed; changes nothing; exit code 0: nothing, 2: something, 1: failure
    #[arg(long)]
    dry_run: bool,
    /// Go on although instances of the cluster run or instance profiles of EC2NodeClasses are left: the instances keep
    /// running until you terminate them yourself
    #[arg(long)]
    force: bool,
    /// First delete all NodePools and EC2NodeClasses of the cluster in the current kubeconfig, and wait until the
    /// controller has terminated their instances; what belongs to EKS Auto Mode stays
    #[arg(long, conflicts_with_all = ["dry_run", "leftovers"])]
    drain: bool,
    /// List instances, launch templates and instance profiles that the controller created; changes nothing; exit code
    /// 0: none, 2: some, 1: failure
    #[arg(long, conflicts_with = "dry_run")]
    leftovers: bool,
}

impl Removal {
    /// Returns whether only a list is asked for.
    pub(super) fn lists_leftovers(&self) -> bool {
        self.leftovers
    }

    /// Returns whether nothing is to be changed.
    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn in_use(&self) -> InUse {
        if self.force { InUse::Ignore } else { InUse::Refuse }
    }

    /// Has the controller remove its own resources, if the flag is set.
    pub(super) async fn drain(&self, account: &Account) -> Result<()> {
        if !self.drain {
            return Ok(());
        }
        let name = &account.settings.cluster;
        let cluster = account.clients.eks.describe_cluster(name).await;
        let cluster = cluster.with_context(|| format!("cannot drain cluster `{name}`"))?;
        let client = kubernetes::connect(&cluster).await;
        let client = client.map_err(|why| anyhow!("cannot drain cluster `{name}`: {why}"))?;
        // The work continues even when its output can no longer be written.
        drain::drain(&client, &mut |line| drop(print(&format!("{line}\n")))).await
    }
}

/// Lists what is left of the controller's work.
pub(super) async fn list(flags: &BootstrapFlags) -> Result<ExitCode> {
    let account = Account::open_for_removal(flags).await?;
    let left = leftovers::observe(&account.clients, &account.settings).await?;
    print(&format!("{}{}", account.heading(), left.text()))?;
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Shows what `destroy` would do.
pub(super) async fn plan(flags: &BootstrapFlags, in_use: InUse, output: Output) -> Result<ExitCode> {
    let account = Account::open_for_removal(flags).await?;
    let plan = planned(&account, in_use).await?;
    match output {
        Output::Text => print(&text(&account, &plan))?,
        Output::Json => print(&json(&show::shown(&plan))?)?,
    }
    Ok(if plan.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}

/// Removes what bootstrap made and what the controller left behind.
pub(super) async fn run(flags: &BootstrapFlags, removal: &Removal) -> Result<ExitCode> {
    if removal.dry_run {
        return plan(flags, removal.in_use(), Output::Text).await;
    }
    let account = Account::open_for_removal(flags).await?;
    removal.drain(&account).await?;
    let plan = planned(&account, removal.in_use()).await?;
    print(&text(&account, &plan))?;
    steps::carry_out(&account, &plan).await
}

/// Returns the resources of the controller that are left in this account.
pub(super) async fn left(account: &Account) -> Result<Leftovers> {
    Ok(leftovers::observe(&account.clients, &account.settings).await?)
}

async fn planned(account: &Account, in_use: InUse) -> Result<Plan> {
    let left = left(account).await?;
    let (desired, observed) = account.look_for_remains().await?;
    Ok(destroy(&account.settings, &desired, &observed, &left, in_use))
}

fn text(account: &Account, plan: &Plan) -> String {
    /// Note about the objects that `destroy` cannot know.
    const LOOKED_FOR: &str = "looked for: subnets and security groups with our tag, launch templates and instance \
        profiles of the controller, and roles, policies, queue, rules and access entries by the names that these flags \
        give them. What `apply` made under other names needs its flags again\n";
    let text = if plan.is_empty() && plan.notes.is_empty() {
        "nothing to do: nothing of ours was found\n".to_owned()
    } else {
        show::text(plan)
    };
    format!("{}{text}{LOOKED_FOR}", account.heading())
}
