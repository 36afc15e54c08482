//! `LocalStack`'s container, with our account inside it as an extension, or without.
//!
//! With the extension it has everything that the launcher has, control requests included, and `LocalStack`'s own queues,
//! events and STS; without, which `LOCALSTACK_IMAGE` may name, it has neither EKS nor prices, and no suite can run in it.
//! `localstack/README.md` lists which part answers what.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result};
use testcontainers::core::logs::LogFrame;
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};

use super::Control;
use crate::engine::Engine;
use crate::engine::localstack_image::localstack_image;
use crate::engine::relay::Relay;
use crate::process::{Guard, tail};
use crate::wait::PATIENCE;

/// The port of all services inside the container.
const PORT: u16 = 4566;

/// Options of the account.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of this machine that it is reached at.
    pub host: Ipv4Addr,
    /// Folder of the log.
    pub folder: PathBuf,
}

/// A running container; removed when stopped or dropped.
pub struct LocalStackAccount {
    endpoint: String,
    control: Control,
    container: ContainerAsync<GenericImage>,
    /// Removes the container of a harness that was killed.
    _guard: Guard,
    /// Leads to a container that has no port on the address asked for.
    _relay: Option<Relay>,
    /// Must outlive the container.
    _engine: Arc<Engine>,
}

impl LocalStackAccount {
    /// Starts a container and returns when it answers.
    pub async fn start(engine: Arc<Engine>, options: Options) -> Result<Self> {
        let Options { host, folder } = options;
        let image = localstack_image(&engine).await?;
        std::fs::create_dir_all(&folder).with_context(|| format!("create folder `{}`", folder.display()))?;
        let log = folder.join("account.log");
        let file = File::create(&log).with_context(|| format!("create log file `{}`", log.display()))?;
        let name = format!("karpenter-e2e-{:016x}", fastrand::u64(..));
        let guard = Guard::start()?;
        guard.finally(&engine.removal(&name))?;
        let request = request(&image, engine.address()).with_container_name(name).with_log_consumer(
            move |frame: &LogFrame| {
                if let Err(error) = (&file).write_all(frame.bytes()) {
                    tracing::warn!("a line of LocalStack's log is lost: {error}");
                }
            },
        );
        let started = async {
            // Its text has that of its causes.
            let container = request.start().await.map_err(Error::msg)?;
            let published = SocketAddrV4::new(engine.address(), container.get_host_port_ipv4(PORT).await?);
            let relay =
                if *published.ip() == host { None } else { Some(Relay::inward(host, published).await?) };
            let address = relay.as_ref().map_or_else(|| published.into(), Relay::address);
            let endpoint = format!("http://{address}");
            let control = Control::new(&endpoint);
            control.healthy().await.context(
                "this LocalStack has no EKS and no prices; leave LOCALSTACK_IMAGE out, or name one with the extension",
            )?;
            anyhow::Ok((endpoint, control, container, relay))
        };
        let (endpoint, control, container, relay) = started.await.with_context(|| {
            format!("start `{image}`; last lines of its log (`{}`):\n{}", log.display(), tail(&log, 15))
        })?;
        Ok(Self { endpoint, control, container, _guard: guard, _relay: relay, _engine: engine })
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
        self.container.rm().await.context("remove LocalStack's container")
    }
}

/// Returns a container of `image` with its port on `address` only, where testcontainers would publish it on every one. It is
/// ready by its log: whether a port answers is asked from this network, which an engine of our own is not in.
fn request(image: &str, address: Ipv4Addr) -> ContainerRequest<GenericImage> {
    let (name, tag) = image.rsplit_once(':').unwrap_or((image, "latest"));
    GenericImage::new(name, tag)
        .with_wait_for(WaitFor::message_on_stdout("Ready."))
        .with_mapped_port(0, PORT.tcp())
        .with_startup_timeout(PATIENCE)
        .with_host_config_modifier(move |host| {
            let bindings = host.port_bindings.iter_mut().flat_map(|bindings| bindings.values_mut());
            for binding in bindings.flatten().flatten() {
                binding.host_ip = Some(address.to_string());
            }
        })
}
