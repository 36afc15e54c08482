//! `--print-required-permissions`: what the caller has to be allowed for an action.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::{self, Action};

use super::{account, stack};
use crate::flags::bootstrap::BootstrapFlags;

/// Whether the policy is asked for instead of the action.
#[derive(Args)]
pub(super) struct Permissions {
    /// Print the IAM policy that this command needs, and do nothing
    #[arg(long)]
    print_required_permissions: bool,
}

impl Permissions {
    /// Whether nothing else is to be done.
    pub(super) fn are_all_that_is_asked(&self) -> bool {
        self.print_required_permissions
    }
}

/// Prints the policy that `action` needs.
pub(super) async fn print(flags: &BootstrapFlags, way: &stack::Way, action: Action) -> Result<ExitCode> {
    let settings = account::settings(flags).await?;
    let required = if way.is_stack() {
        permissions::required_for_stack(&settings, &way.stack(&settings), action)
    } else {
        permissions::required(&settings, action)
    };
    super::print(&format!("{required:#}\n"))?;
    Ok(ExitCode::SUCCESS)
}
