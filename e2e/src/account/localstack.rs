//! `LocalStack`'s container, with our account inside it as an extension, or without.
//!
//! With the extension it has everything that the launcher has, control requests included, and `LocalStack`'s own queues,
//! events and STS; without, which `LOCALSTACK_IMAGE` may name, it has neither EKS nor prices, and no suite can run in it.
//! `localstack/README.md` lists which part answers what.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use http::Method;
use serde_json::Value;

use super::Control;
use super::http::Http;
use crate::engine::Engine;
use crate::engine::localstack_image::localstack_image;
use crate::engine::relay::Relay;
use crate::wait;

/// A running container; removed by [`LocalStackAccount::stop`].
pub struct LocalStackAccount {
    container: String,
    endpoint: String,
    control: Control,
    engine: Arc<Engine>,
    /// Leads to a container that has no port on the address asked for.
    _relay: Option<Relay>,
}

impl LocalStackAccount {
    /// Starts a container and returns when it answers at `host`, an address of this machine.
    pub async fn start(engine: Arc<Engine>, host: Ipv4Addr) -> Result<Self> {
        let image = localstack_image(&engine).await?;
        let publish = format!("{}::4566", engine.address());
        let container = engine.docker(&["run", "--detach", "--rm", "--publish", &publish, &image]).await?;
        let container = container.trim().to_owned();
        match Self::reach(&engine, &container, host).await {
            Ok((endpoint, relay)) => {
                let control = Control::new(&endpoint);
                Ok(Self { container, endpoint, control, engine, _relay: relay })
            }
            Err(error) => {
                let log = engine.docker(&["logs", "--tail", "15", &container]).await.unwrap_or_default();
                engine.docker(&["rm", "--force", &container]).await?;
                Err(error.context(format!("start `{image}`; its last words:\n{log}")))
            }
        }
    }

    /// A port on `host` that leads to the container, once it answers.
    async fn reach(engine: &Engine, container: &str, host: Ipv4Addr) -> Result<(String, Option<Relay>)> {
        let published = engine.docker(&["port", container, "4566/tcp"]).await?;
        let published = published.lines().next().unwrap_or_default();
        let published: SocketAddrV4 =
            published.trim().parse().with_context(|| format!("read the published port `{published}`"))?;
        let is_there = *published.ip() == host;
        let relay = if is_there { None } else { Some(Relay::inward(host, published).await?) };
        let address = relay.as_ref().map_or_else(|| published.into(), Relay::address);
        let endpoint = format!("http://{address}");
        wait_ready(&endpoint).await?;
        if Control::new(&endpoint).healthy().await.is_err() {
            bail!(
                "this LocalStack has no EKS and no prices; leave LOCALSTACK_IMAGE out, or name one with the extension"
            );
        }
        Ok((endpoint, relay))
    }

    /// Returns the value for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The control requests.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Removes the container.
    pub async fn stop(self) -> Result<()> {
        self.engine.docker(&["rm", "--force", &self.container]).await.map(drop)
    }
}

async fn wait_ready(endpoint: &str) -> Result<()> {
    let http = Http::new(endpoint);
    wait::settles(&format!("LocalStack at `{endpoint}` to be ready"), || async {
        http.send::<Value>(Method::GET, "/_localstack/health", None::<&Value>).await.map(drop)
    })
    .await
}
