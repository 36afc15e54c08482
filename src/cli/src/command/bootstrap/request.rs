//! Arguments shared by `plan`, `apply` and `destroy`: which account, by calls or by a stack, and whether only the
//! permissions are asked for.

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::permissions::{self, Action};

use super::account;
use super::stack::StackFlags;
use crate::flags::bootstrap::BootstrapFlags;
use crate::output;

/// The account, the flags of a stack, and `--print-required-permissions`.
#[derive(Args)]
pub(super) struct Request {
    #[command(flatten)]
    pub(super) flags: BootstrapFlags,
    #[command(flatten)]
    pub(super) stack_flags: StackFlags,
    /// Print the IAM policy that the caller of this command needs, in as many documents as its size takes, and do nothing
    /// else
    #[arg(long)]
    print_required_permissions: bool,
}

impl Request {
    /// Prints the policies that `action` needs if that is asked for; returns whether it was, because then nothing else is
    /// to be done.
    pub(super) async fn printed_permissions(&self, action: Action) -> Result<bool> {
        if self.print_required_permissions {
            let settings = account::settings(&self.flags).await?;
            let documents = if self.stack_flags.is_stack() {
                permissions::required_for_stack(&settings, &self.stack_flags.name(&settings), action)
            } else {
                permissions::required(&settings, action)
            };
            // One after the other, which a reader of JSON takes for a stream of values: most calls need one document.
            let text: String = documents.iter().map(|one| format!("{:#}\n", one.to_value())).collect();
            super::print(&text)?;
            if documents.len() > 1 {
                output::note(&[format!(
                    "these are {} policies, because IAM limits the size of each: the caller needs all of them",
                    documents.len()
                )])?;
            }
        }
        Ok(self.print_required_permissions)
    }
}
