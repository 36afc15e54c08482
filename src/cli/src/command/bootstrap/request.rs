//! What `plan`, `apply` and `destroy` take alike: which account, by calls or by a stack, and whether only the
//! permissions are asked for.

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::{self, Action};

use super::account;
use super::stack::StackFlags;
use crate::flags::bootstrap::BootstrapFlags;

/// The account, the flags of a stack, and `--print-required-permissions`.
#[derive(Args)]
pub(super) struct Request {
    #[command(flatten)]
    pub(super) flags: BootstrapFlags,
    #[command(flatten)]
    pub(super) stack_flags: StackFlags,
    /// Print the IAM policy that the caller of this command needs, and do nothing else
    #[arg(long)]
    print_required_permissions: bool,
}

impl Request {
    /// Prints the policy that `action` needs if that is asked for; returns whether it was, because then nothing else is to
    /// be done.
    pub(super) async fn printed_permissions(&self, action: Action) -> Result<bool> {
        if self.print_required_permissions {
            let settings = account::settings(&self.flags).await?;
            let required = if self.stack_flags.is_stack() {
                permissions::required_for_stack(&settings, &self.stack_flags.name(&settings), action)
            } else {
                permissions::required(&settings, action)
            };
            super::print(&format!("{required:#}\n"))?;
        }
        Ok(self.print_required_permissions)
    }
}
