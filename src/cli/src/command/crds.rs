//! `karpenter crds`: the custom resource definitions as YAML.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};

/// Prints the definitions on standard output.
pub(crate) fn run() -> Result<ExitCode> {
    let yaml = karpenter_api::crds_yaml();
    std::io::stdout()
        .write_all(yaml.as_bytes())
        .context("cannot write the definitions to standard output")?;
    Ok(ExitCode::SUCCESS)
}
