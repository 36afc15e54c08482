//! A Docker engine: the machine's, or one of our own.
//!
//! Nothing here installs anything. The machine's engine is used through its `docker` command, as a person would. An
//! engine of our own ([`own`]) is for machines that have none, or that must be left as they were: its programs come
//! from Debian's packages, and everything it does to the network, to mounts and to processes happens in namespaces that
//! end with it.

pub mod controller_image;
pub mod localstack_image;
pub mod node_image;
mod own;
pub(crate) mod relay;
pub mod runtime;

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::process::said;
use own::Own;

/// Engine to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Engine that `docker` finds.
    Machine,
    /// Engine that is started here and ends with this process; needs root.
    Own,
}

impl Choice {
    /// Reads `KARPENTER_CONTAINERS`: `own` or `machine`, which is the default.
    pub fn from_environment() -> Result<Self> {
        match std::env::var("KARPENTER_CONTAINERS").as_deref() {
            Ok("own") => Ok(Self::Own),
            Ok("machine" | "") | Err(_) => Ok(Self::Machine),
            Ok(other) => bail!("KARPENTER_CONTAINERS is `{other}`; it may be `own` or `machine`"),
        }
    }

    /// Gives this process the `DOCKER_HOST` of an engine of our own: the program starts again in its own place, unless it
    /// has it. testcontainers takes the engine from the environment of its process, which safe code cannot change.
    pub fn enter(self) -> Result<()> {
        if self == Self::Machine || std::env::var_os("DOCKER_HOST") == Some(own::host()?) {
            return Ok(());
        }
        let program = std::env::current_exe().context("find this program")?;
        let arguments = std::env::args_os().skip(1);
        let error =
            std::process::Command::new(program).args(arguments).env("DOCKER_HOST", own::host()?).exec();
        Err(error).context("start this program again with the DOCKER_HOST of its engine")
    }
}

/// A Docker engine that answers.
pub struct Engine {
    own: Option<Own>,
    docker: PathBuf,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Engine").field("own", &self.is_own()).field("docker", &self.docker).finish()
    }
}

impl Engine {
    /// Finds or starts the chosen engine.
    pub async fn start(choice: Choice) -> Result<Self> {
        let own = match choice {
            Choice::Machine => None,
            Choice::Own => Some(Own::start().await?),
        };
        let docker = own.as_ref().map_or_else(|| "docker".into(), |own| own.docker().to_owned());
        let engine = Self { own, docker };
        if engine.docker(&["info", "--format", "{{.ServerVersion}}"]).await.is_err() {
            bail!(
                "containers need a running Docker engine and `docker info` finds none; start Docker, or set \
                 KARPENTER_CONTAINERS=own to have one started from Debian's packages (needs root)"
            );
        }
        Ok(engine)
    }

    /// Returns whether it is one of our own: nothing can be pulled then, images are made here.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// The address of this machine on which ports of containers are published.
    pub fn address(&self) -> Ipv4Addr {
        if self.is_own() { own::INSIDE } else { Ipv4Addr::LOCALHOST }
    }

    /// The address of this machine that containers reach it under. The machine's engine has one for the network of kind
    /// clusters, so there must be such a cluster.
    pub async fn gateway(&self) -> Result<Ipv4Addr> {
        if self.is_own() {
            return Ok(own::OUTSIDE);
        }
        let format = "{{range .IPAM.Config}}{{println .Gateway}}{{end}}";
        let gateways = self.docker(&["network", "inspect", "kind", "--format", format]).await?;
        first_ipv4(&gateways)
            .with_context(|| format!("Docker's network `kind` has no IPv4 gateway: `{gateways}`"))
    }

    /// A program that talks to this engine.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.envs(self.environment()).kill_on_drop(true);
        command
    }

    /// Returns the environment of programs that talk to this engine.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        self.own.as_ref().map(Own::environment).unwrap_or_default()
    }

    /// Runs `docker` to its end and returns what it printed.
    pub async fn docker(&self, arguments: &[&str]) -> Result<String> {
        finish(self.client().args(arguments), &format!("docker {}", arguments.join(" "))).await
    }

    /// `docker`, not started yet.
    pub fn client(&self) -> Command {
        self.command(&self.docker)
    }

    /// Returns the command line that removes a container, whether it runs, has ended or was never started.
    pub fn removal(&self, container: &str) -> String {
        format!("'{}' rm --force --volumes {container}", self.docker.display())
    }

    /// Makes an image of a folder with a Dockerfile. The classic builder: it needs no plugin of the client.
    pub async fn build(&self, folder: &Path, dockerfile: &Path, options: &[&str]) -> Result<()> {
        let what = format!("docker build {}", options.join(" "));
        let mut command = self.client();
        command
            .env("DOCKER_BUILDKIT", "0")
            .arg("build")
            .arg("--file")
            .arg(dockerfile)
            .args(options)
            .arg(folder);
        finish(&mut command, &what).await.map(drop)
    }

    /// Returns whether it has an image of this name.
    pub async fn has_image(&self, name: &str) -> bool {
        self.docker(&["image", "inspect", "--format", "{{.Id}}", name]).await.is_ok()
    }

    /// Ends an engine of our own; the machine's keeps running.
    pub async fn stop(self) -> Result<()> {
        match self.own {
            Some(own) => own.stop().await,
            None => Ok(()),
        }
    }
}

/// The first IPv4 address of a list with one address a line; a network may also have IPv6 ones, or none.
fn first_ipv4(list: &str) -> Option<Ipv4Addr> {
    list.lines().find_map(|line| line.trim().parse().ok())
}

/// Runs a program to its end; a failure has its last output.
pub(crate) async fn finish(command: &mut Command, what: &str) -> Result<String> {
    said(what, command.output().await.with_context(|| format!("run `{what}`"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_of_a_network_is_its_ipv4_one() {
        assert_eq!(first_ipv4("fc00:f853:ccd:e793::1\n172.18.0.1\n"), Some(Ipv4Addr::new(172, 18, 0, 1)));
        assert_eq!(first_ipv4("\n<no value>\n"), None);
    }
}
