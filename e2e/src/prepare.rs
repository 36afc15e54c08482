//! Makes the machine ready: finds or builds every program a run needs, once, and prints its steps.
//!
//! Results live in the cache folder (see [`cache`]) under a key made of their inputs, so a changed input is
//! built again and an unchanged one costs nothing. Preparing is safe to repeat and safe to do from several
//! test processes at once.

mod aws_provider;
pub mod cache;
mod command;
mod control_plane;
mod etcd;
mod go;
mod helm;
mod kind;
mod other_release;
pub(crate) mod packages;
mod python;
mod release;

pub use aws_provider::{AwsProvider, aws_provider};
pub use control_plane::control_plane;
pub use etcd::etcd;
pub use helm::helm;
pub use kind::{NodeParts, containers, kind, kubectl, node_parts};
pub use other_release::control_plane_of;
pub use python::{launcher_folder, python};
pub use release::Release;

use std::path::PathBuf;

use anyhow::Result;

/// The programs of a local control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    /// The key-value store below the API server.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// Binds pods to nodes.
    pub kube_scheduler: PathBuf,
    /// Service accounts, garbage collection, node life cycle, workload controllers.
    pub kube_controller_manager: PathBuf,
}

/// Finds or builds the programs of a local control plane.
pub fn binaries() -> Result<Binaries> {
    let etcd = etcd()?;
    let built = control_plane()?;
    Ok(Binaries { etcd, ..built })
}

/// Runs a command that fetches something, again when that fails.
pub(crate) fn fetch(command: &mut std::process::Command) -> Result<()> {
    command::fetch(command).map(drop)
}
