//! The `LocalStack` container, through the docker command line, with its port on loopback only.
//!
//! It is another implementation to hold the client against, not the default: its EC2 is moto without our
//! patches and it has neither EKS nor prices. `localstack/README.md` says what follows from that.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Method;
use serde_json::Value;
use tokio::process::Command;

use super::http::Http;
use crate::wait::PATIENCE;

/// The last release that runs without an account token; `localstack/compose.yaml` names the same.
pub const IMAGE: &str = "localstack/localstack:4.14.0";

const ASK_EVERY: Duration = Duration::from_millis(500);

/// A running container; removed by [`LocalStackAccount::stop`] and, should that not happen, on drop.
pub struct LocalStackAccount {
    container: Option<String>,
    endpoint: String,
}

impl LocalStackAccount {
    /// Starts a container and returns when it answers.
    pub async fn start() -> Result<Self> {
        available().await?;
        let settings = ["DISABLE_EVENTS=1", "SKIP_SSL_CERT_DOWNLOAD=1", "SQS_ENDPOINT_STRATEGY=off"];
        let mut arguments = vec!["run", "--detach", "--rm", "--publish", "127.0.0.1::4566"];
        arguments.extend(settings.iter().flat_map(|setting| ["--env", setting]));
        arguments.push(IMAGE);
        let container = docker(&arguments).await?.trim().to_owned();
        let mut account = Self { container: Some(container.clone()), endpoint: String::new() };
        let address = docker(&["port", &container, "4566/tcp"]).await?;
        let address = address.lines().next().context("find the port of the container")?;
        account.endpoint = format!("http://{}", address.trim());
        wait_ready(&account.endpoint).await?;
        Ok(account)
    }

    /// What to set `AWS_ENDPOINT_URL` to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Removes the container.
    pub async fn stop(mut self) -> Result<()> {
        match self.container.take() {
            Some(container) => docker(&["rm", "--force", &container]).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for LocalStackAccount {
    fn drop(&mut self) {
        if let Some(container) = self.container.take() {
            let removed = std::process::Command::new("docker").args(["rm", "--force", &container]).output();
            if !removed.is_ok_and(|output| output.status.success()) {
                tracing::warn!(container, "could not be removed; remove it with `docker rm --force`");
            }
        }
    }
}

/// One line that says what is missing, before anything is tried.
pub async fn available() -> Result<()> {
    let info = Command::new("docker").args(["info", "--format", "{{.ServerVersion}}"]).output().await;
    if !info.is_ok_and(|output| output.status.success()) {
        bail!(
            "LocalStack needs a running Docker daemon and `docker info` finds none; start Docker or use `--account moto`"
        );
    }
    Ok(())
}

async fn docker(arguments: &[&str]) -> Result<String> {
    let what = format!("docker {}", arguments.join(" "));
    let output =
        Command::new("docker").args(arguments).output().await.with_context(|| format!("run `{what}`"))?;
    if !output.status.success() {
        bail!("`{what}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn wait_ready(endpoint: &str) -> Result<()> {
    let http = Http::new(endpoint);
    let mut ticks = tokio::time::interval(ASK_EVERY);
    let wait = async {
        loop {
            ticks.tick().await;
            if http.send::<Value>(Method::GET, "/_localstack/health", None::<&Value>).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .with_context(|| format!("LocalStack at `{endpoint}` was not ready after {PATIENCE:?}"))
}
