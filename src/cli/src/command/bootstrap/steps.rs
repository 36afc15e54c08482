//! Carrying out the steps of a plan, whether they make or remove.

use std::process::ExitCode;

use anyhow::Result;
use karpenter_bootstrap::apply::{Progress, apply};
use karpenter_bootstrap::plan::Plan;

use super::account::Account;
use super::print;

/// Carries out a plan with a line per finished step.
pub(super) async fn carry_out(account: &Account, plan: &Plan) -> Result<ExitCode> {
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
        // The work continues even when its output can no longer be written.
        let _ = print(&format!("{text}\n"));
    };
    apply(&account.clients, &account.settings.cluster, plan, &mut progress).await?;
    Ok(ExitCode::SUCCESS)
}
