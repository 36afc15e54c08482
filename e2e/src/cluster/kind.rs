//! A kind cluster. Docker and kind are asked for by name and never installed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;

use super::Access;

/// A kind cluster; deleted by [`KindCluster::stop`] if it was created here.
pub struct KindCluster {
    name: String,
    created: bool,
    access: Access,
    _folder: TempDir,
}

impl KindCluster {
    /// Uses the kind cluster `name`, creating it if there is none.
    pub async fn start(name: &str) -> Result<Self> {
        available().await?;
        let folder = tempfile::Builder::new().prefix("karpenter-e2e-").tempdir().context("make a folder")?;
        let kubeconfig = folder.path().join("admin.kubeconfig");
        let existing = run("kind", &["get", "clusters"]).await?;
        let created = !existing.lines().any(|line| line.trim() == name);
        if created {
            run(
                "kind",
                &["create", "cluster", "--name", name, "--wait", "600s", "--kubeconfig", path(&kubeconfig)?],
            )
            .await?;
        } else {
            run("kind", &["export", "kubeconfig", "--name", name, "--kubeconfig", path(&kubeconfig)?])
                .await?;
        }
        let access = Access::from_kubeconfig(&kubeconfig, folder.path()).await?;
        Ok(Self { name: name.to_owned(), created, access, _folder: folder })
    }

    /// How to reach it.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Deletes the cluster if it was created here.
    pub async fn stop(self) -> Result<()> {
        if self.created {
            run("kind", &["delete", "cluster", "--name", &self.name]).await?;
        }
        Ok(())
    }
}

/// One line that says what is missing, before anything is tried.
pub async fn available() -> Result<()> {
    let docker = Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]).output().await;
    if !docker.is_ok_and(|output| output.status.success()) {
        bail!(
            "kind needs a running Docker daemon and `docker info` finds none; start Docker or use `--cluster local`"
        );
    }
    if !Command::new("kind").arg("version").output().await.is_ok_and(|output| output.status.success()) {
        bail!("`kind` is not on PATH; see https://kind.sigs.k8s.io or use `--cluster local`");
    }
    Ok(())
}

async fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .await
        .with_context(|| format!("run `{program} {}`", arguments.join(" ")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` ended with {}: {}", arguments.join(" "), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("`{}` is not valid UTF-8", path.display()))
}
