//! `karpenter bootstrap check`: is the account ready?

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_bootstrap::check::check;
use karpenter_bootstrap::observe::observe_senders;

use super::account::Account;
use super::given::Given;
use super::{DIFFERENCES, Output, aws_auth, outputs, print};
use crate::output::json;

/// Arguments of `karpenter bootstrap check`.
#[derive(Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    given: Given,
    /// Take names that no flag gives from this file with the output of `terraform output -json`; - is standard input
    #[arg(long, value_name = "FILE")]
    terraform_outputs: Option<String>,
    /// How to print the report
    #[arg(long, short, default_value = "text")]
    output: Output,
}

/// Looks, and reports.
pub(super) async fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { given, terraform_outputs, output } = arguments;
    let flags = match terraform_outputs {
        Some(file) => outputs::read(&file)?.fill(&given)?,
        None => given.flags,
    };
    let mut account = Account::open(&flags).await?;
    let (desired, observed) = account.look().await?;
    let senders = observe_senders(&account.clients, &account.settings, &desired).await?;
    let aws_auth = aws_auth::read(observed.cluster.as_ref()).await;
    let report = check(&account.settings, &desired, &observed, &senders, &aws_auth);
    match output {
        Output::Text => print(&format!("{}{}", account.heading(), report.text()))?,
        Output::Json => print(&json(&report)?)?,
    }
    Ok(if report.ready { ExitCode::SUCCESS } else { ExitCode::from(DIFFERENCES) })
}
