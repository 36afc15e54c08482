//! `karpenter bootstrap check`: is the account ready?

use std::process::ExitCode;

use anyhow::Result;
use karpenter_bootstrap::check::check;
use karpenter_bootstrap::observe::observe_senders;

use super::account::Account;
use super::{DIFFERENCES, Output, aws_auth, outputs, print};
use crate::flags::bootstrap::BootstrapFlags;

/// Looks, and reports. Names that Terraform put out win over flags left at their default.
pub(super) async fn run(
    mut flags: BootstrapFlags,
    terraform_outputs: Option<&str>,
    output: Output,
) -> Result<ExitCode> {
    if let Some(file) = terraform_outputs {
        outputs::read(file)?.fill(&mut flags)?;
    }
    let mut account = Account::open(&flags).await?;
    let (desired, observed) = account.look().await?;
    let senders = observe_senders(&account.clients, &account.settings, &desired).await?;
    let aws_auth = aws_auth::read(observed.cluster.as_ref()).await;
    let report = check(&account.settings, &desired, &observed, &senders, &aws_auth);
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), report.text()))?,
        Output::Json => print(&format!("{}\n", report.json()))?,
    }
    Ok(if report.ready { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}
