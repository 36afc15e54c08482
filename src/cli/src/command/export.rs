//! `karpenter export`: a cluster as one file that plans the same, for a bug report or for later.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use karpenter_plan::{About, WhatIf};
use karpenter_telemetry::stdout::print;

use super::plan::{Gathered, Sources};
use crate::output::note;

/// Arguments of `karpenter export`.
#[derive(Args)]
#[command(after_help = "Exit codes: 0 printed, 1 failed.\n\n\
                        Only what `karpenter plan` reads is written: no secrets, environment variables, commands or images.\n\n\
                        For a bug report: karpenter export --anonymize > export.yaml")]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Replace your own names and labels by digests; the same text always becomes the same digest
    #[arg(long)]
    anonymize: bool,
}

/// Gathers and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (text, notes) = runtime.block_on(exported(arguments))?;
    print(&text)?;
    note(&notes)?;
    Ok(ExitCode::SUCCESS)
}

/// The stream, and notes about how it was made.
async fn exported(arguments: &Arguments) -> Result<(String, Vec<String>)> {
    let gathered = arguments.sources.gather(WhatIf::default()).await?;
    let Gathered { world, offerings, settings, notes, .. } = gathered;
    let about = About { settings: &settings, notes: &notes };
    Ok((world.export(&offerings, about, arguments.anonymize), notes))
}
