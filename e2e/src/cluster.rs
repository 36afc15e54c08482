//! A Kubernetes cluster to test against, whichever this machine can give.
//!
//! | variant | what it is | needs |
//! |---|---|---|
//! | [`local`] | etcd, API server, scheduler and controller manager as processes, no nodes | Go once, etcd |
//! | [`kind`] | a kind cluster with one control-plane node | Docker and kind |
//! | [`kubeconfig`] | a cluster that exists already | a kubeconfig |
//!
//! All three give an [`Access`]: an administrator's client, and kubeconfigs for other identities, so that the
//! controller under test runs with exactly the rights of its chart.

pub mod access;
pub mod kind;
pub mod kubeconfig;
pub mod local;

pub use access::Access;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::unistd::Pid;

use crate::engine::Engine;

/// Cluster to use.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Processes on this machine.
    Local(local::Options),
    /// A kind cluster of this name, created if it does not exist.
    Kind(String),
    /// The current context of this kubeconfig.
    Kubeconfig(PathBuf),
}

/// A running cluster.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a process")]
pub enum Cluster {
    /// Processes on this machine.
    Local(local::LocalCluster),
    Kind(kind::KindCluster),
    /// A cluster that was there before us.
    Kubeconfig(kubeconfig::KubeconfigCluster),
}

impl Cluster {
    /// Starts, or connects to, the chosen cluster; one in containers needs their engine.
    pub async fn start(choice: Choice, engine: Option<&Arc<Engine>>) -> Result<Self> {
        Ok(match choice {
            Choice::Local(options) => Self::Local(local::LocalCluster::start(options).await?),
            Choice::Kind(name) => {
                let engine = engine.context("a kind cluster needs a Docker engine")?;
                Self::Kind(kind::KindCluster::start(&name, Arc::clone(engine)).await?)
            }
            Choice::Kubeconfig(path) => {
                Self::Kubeconfig(kubeconfig::KubeconfigCluster::connect(&path).await?)
            }
        })
    }

    /// Returns the access to the cluster.
    pub fn access(&self) -> &Access {
        match self {
            Self::Local(cluster) => cluster.access(),
            Self::Kind(cluster) => cluster.access(),
            Self::Kubeconfig(cluster) => cluster.access(),
        }
    }

    /// The kind cluster, if it is one: the only kind of cluster here that has a node for pods.
    pub fn kind(&self) -> Option<&kind::KindCluster> {
        match self {
            Self::Kind(cluster) => Some(cluster),
            Self::Local(_) | Self::Kubeconfig(_) => None,
        }
    }

    /// Returns the file in which the API server records the controller's requests, if this cluster lets us configure that.
    pub fn audit_log(&self) -> Option<PathBuf> {
        match self {
            Self::Local(cluster) => Some(cluster.audit_log()),
            Self::Kind(cluster) => cluster.audit_log(),
            Self::Kubeconfig(_) => None,
        }
    }

    /// Its processes, as far as they are ones of this machine that we have started.
    pub fn processes(&self) -> Vec<(&'static str, Pid)> {
        match self {
            Self::Local(cluster) => cluster.processes(),
            Self::Kind(_) | Self::Kubeconfig(_) => Vec::new(),
        }
    }

    /// Kills one of its processes, and starts it again after it was `dead` for a while; returns before it is ready.
    pub async fn restart(&self, program: &str, dead: Duration) -> Result<()> {
        match self {
            Self::Local(cluster) => cluster.restart(program, dead).await,
            Self::Kind(_) | Self::Kubeconfig(_) => {
                bail!("`{program}` is no process of ours; choose cluster `local`")
            }
        }
    }

    /// Returns whether it was there before us, and has to be left as it was.
    pub fn is_borrowed(&self) -> bool {
        matches!(self, Self::Kubeconfig(_))
    }

    /// Ends what [`Cluster::start`] began; a cluster that was there before stays, as it was.
    pub async fn stop(self) -> Result<()> {
        match self {
            Self::Local(cluster) => cluster.stop().await,
            Self::Kind(cluster) => cluster.stop().await,
            Self::Kubeconfig(cluster) => cluster.stop().await,
        }
    }
}
