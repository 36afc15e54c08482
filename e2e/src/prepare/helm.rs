//! Helm, built from its Go module: what renders the charts in tests.
//!
//! `e2e/helm/go.mod` pins the release, `go.sum` every byte. A `helm` on `PATH` is not used: its version decides how
//! templates are rendered.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{cache, command};

const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";

/// Finds or builds `helm`.
pub fn helm() -> Result<PathBuf> {
    let module = cache::repository().join("e2e/helm");
    let read = |name: &str| {
        let path = module.join(name);
        fs::read(&path).with_context(|| format!("read `{}`", path.display()))
    };
    let key = cache::key(&[&read("go.mod")?, &read("go.sum")?]);
    let folder = cache::entry("helm", &key, |folder| {
        let go = command::find_on_path("go")
            .context("`go` is not on PATH; install Go 1.25 or newer (https://go.dev/dl)")?;
        tracing::info!("building helm; about two minutes, once");
        command::fetch(
            Command::new(go)
                .current_dir(&module)
                .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o"])
                .arg(folder)
                .arg(PACKAGE),
        )
        .map(drop)
        .context("build helm from e2e/helm/go.mod")
    })?;
    Ok(folder.join("helm"))
}
