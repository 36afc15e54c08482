//! What `plan`, `apply` and `destroy` take alike: which account, in which way, and whether only the permissions are asked
//! for.

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::{self, Action};

use super::account;
use super::stack::Way;
use crate::flags::bootstrap::BootstrapFlags;

/// The account, the way, and `--print-required-permissions`.
#[derive(Args)]
pub(super) struct Request {
    #[command(flatten)]
    pub(super) flags: BootstrapFlags,
    #[command(flatten)]
    pub(super) way: Way,
    /// Print the IAM policy that this command needs, and do nothing
    #[arg(long)]
    print_required_permissions: bool,
}

impl Request {
    /// Prints the policy that `action` needs if that is asked for; returns whether it was, because then nothing else is to
    /// be done.
    pub(super) async fn printed_permissions(&self, action: Action) -> Result<bool> {
        if self.print_required_permissions {
            let settings = account::settings(&self.flags).await?;
            let required = if self.way.is_stack() {
                permissions::required_for_stack(&settings, &self.way.stack(&settings), action)
            } else {
                permissions::required(&settings, action)
            };
            super::print(&format!("{required:#}\n"))?;
        }
        Ok(self.print_required_permissions)
    }
}
