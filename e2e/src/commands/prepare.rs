//! `karpenter-e2e prepare`: builds or finds everything, and prints where it is.

use std::io::Write;

use anyhow::{Context, Result};
use clap::Args;
use karpenter_e2e::prepare;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Leave out the Python environment of the emulated AWS account.
    #[arg(long)]
    no_account: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let binaries = prepare::binaries()?;
    let mut found = vec![
        ("etcd", binaries.etcd),
        ("kube-apiserver", binaries.kube_apiserver),
        ("kube-scheduler", binaries.kube_scheduler),
        ("kube-controller-manager", binaries.kube_controller_manager),
        ("helm", prepare::helm()?),
    ];
    if !arguments.no_account {
        found.push(("python", prepare::python()?));
    }
    let mut out = std::io::stdout().lock();
    for (name, path) in found {
        writeln!(out, "{name:<24} {}", path.display()).context("write to standard output")?;
    }
    Ok(())
}
