//! The `LocalStack` container, through the docker command line, with its port on loopback only.
//!
//! It is another implementation to hold the client against, not the default: its EC2 is moto without our
//! patches and it has neither EKS nor prices. `localstack/README.md` says what follows from that.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use serde_json::Value;

use super::http::Http;
use crate::engine::Engine;
use crate::wait::PATIENCE;

/// The last release that runs without an account token; `localstack/compose.yaml` names the same.
pub const IMAGE: &str = "localstack/localstack:4.14.0";

const ASK_EVERY: Duration = Duration::from_millis(500);

/// A running container; removed by [`LocalStackAccount::stop`].
pub struct LocalStackAccount {
    container: Option<String>,
    endpoint: String,
    engine: Arc<Engine>,
}

impl LocalStackAccount {
    /// Starts a container and returns when it answers.
    pub async fn start(engine: Arc<Engine>) -> Result<Self> {
        let settings = ["DISABLE_EVENTS=1", "SKIP_SSL_CERT_DOWNLOAD=1", "SQS_ENDPOINT_STRATEGY=off"];
        let publish = format!("{}::4566", engine.address());
        let mut arguments = vec!["run", "--detach", "--rm", "--publish", &publish];
        arguments.extend(settings.iter().flat_map(|setting| ["--env", setting]));
        arguments.push(IMAGE);
        let container = engine.docker(&arguments).await?.trim().to_owned();
        let mut account = Self { container: Some(container.clone()), endpoint: String::new(), engine };
        let address = account.engine.docker(&["port", &container, "4566/tcp"]).await?;
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
            Some(container) => self.engine.docker(&["rm", "--force", &container]).await.map(drop),
            None => Ok(()),
        }
    }
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
