//! Helm, built from its Go module: what renders the charts in tests.
//!
//! `e2e/helm/go.mod` pins the release, `go.sum` every byte. A `helm` on `PATH` is not used: its version decides how
//! templates are rendered.

use std::path::PathBuf;

use anyhow::Result;

use super::{cache, go};

const PACKAGE: &str = "helm.sh/helm/v3/cmd/helm";

/// Finds or builds `helm`.
pub fn helm() -> Result<PathBuf> {
    let module = cache::repository().join("e2e/helm");
    let folder = cache::entry("helm", &go::key(&[&module], &[])?, |folder| {
        tracing::info!("building helm; about two minutes, once");
        go::build(&module, go::SMALL, &folder.join("helm"), &[PACKAGE.to_owned()])
    })?;
    Ok(folder.join("helm"))
}
