//! `karpenter crds`: the custom resource definitions as YAML.

use std::process::ExitCode;

use anyhow::Result;
use karpenter_telemetry::stdout;

/// Prints the definitions on standard output.
pub(crate) fn run() -> Result<ExitCode> {
    stdout::print(&karpenter_api::crds_yaml())?;
    Ok(ExitCode::SUCCESS)
}
