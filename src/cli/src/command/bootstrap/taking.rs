//! `--adopt`: whether what others made for this cluster is taken over.

use anyhow::{Result, ensure};
use clap::Args;
use karpenter_bootstrap::settings::Foreign;

use super::account::Account;
use super::stack::StackFlags;
use crate::flags::bootstrap::BootstrapFlags;

/// What happens to things that exist under the names that the flags give.
#[derive(Args)]
pub(super) struct Taking {
    /// Take over what exists under the wanted names and was created for this cluster by other means: tag it as created
    /// by bootstrap, and change what differs
    #[arg(long)]
    adopt: bool,
}

impl Taking {
    /// Refuses to take things over into a stack: CloudFormation makes its resources itself.
    pub(super) fn goes_with(&self, stack_flags: &StackFlags) -> Result<()> {
        let possible = !(stack_flags.is_stack() && self.adopt);
        ensure!(possible, "a stack cannot take over what exists: --adopt goes with --via sdk only");
        Ok(())
    }

    /// The account, with settings that state whether things are taken over.
    pub(super) async fn open(&self, flags: &BootstrapFlags) -> Result<Account> {
        let mut account = Account::open(flags).await?;
        if self.adopt {
            account.settings.foreign = Foreign::Adopted;
        }
        Ok(account)
    }
}
