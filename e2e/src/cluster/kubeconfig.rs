//! A cluster that exists already, by its kubeconfig. It is never changed in ways a test does not ask for, and
//! never stopped.

use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::Access;

/// A cluster that was there before us.
pub struct KubeconfigCluster {
    access: Access,
    /// Holds the kubeconfigs of other identities; goes when this value goes.
    _folder: TempDir,
}

impl KubeconfigCluster {
    /// Connects with the current context of `kubeconfig` and asks for the version, so that a wrong file is
    /// noticed here and not in the first scenario.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?;
        let access = Access::from_kubeconfig(kubeconfig, folder.path()).await?;
        access
            .client()
            .apiserver_version()
            .await
            .with_context(|| format!("reach the cluster of kubeconfig `{}`", kubeconfig.display()))?;
        Ok(Self { access, _folder: folder })
    }

    /// How to reach it.
    pub fn access(&self) -> &Access {
        &self.access
    }
}
