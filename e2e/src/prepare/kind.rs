//! kind, from `PATH` or built from its Go module, and the programs of a node image.
//!
//! `e2e/containers/kind/go.mod` pins kind, `e2e/containers/{etcd,coredns}/go.mod` what runs in its nodes beside the
//! Kubernetes programs of `e2e/control-plane`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{cache, command, control_plane, go};

/// Finds or builds `kind`.
pub fn kind() -> Result<PathBuf> {
    if let Some(found) = command::find_on_path("kind") {
        return Ok(found);
    }
    let module = containers().join("kind");
    let folder = cache::entry("kind", &go::key(&[&module], &[])?, |folder| {
        tracing::info!("building kind; a minute, once");
        go::build(&module, go::SMALL, &folder.join("kind"), &["sigs.k8s.io/kind".to_owned()])
    })?;
    Ok(folder.join("kind"))
}

/// Finds `kubectl`, or builds it with the other programs of a node.
pub fn kubectl() -> Result<PathBuf> {
    match command::find_on_path("kubectl") {
        Some(found) => Ok(found),
        None => Ok(node_parts()?.programs.join("kubectl")),
    }
}

/// Parts of a node image.
pub struct NodeParts {
    /// The folder of kubeadm, kubelet, kubectl, the control plane, etcd, coredns and pause.
    pub programs: PathBuf,
    /// The files that kind's own node images contain.
    pub kind_files: PathBuf,
    /// The release of Kubernetes, e.g. `v1.35.4`.
    pub kubernetes: String,
    /// Changes when any of it does.
    pub key: String,
}

/// Builds every program of a node.
pub fn node_parts() -> Result<NodeParts> {
    let [etcd, coredns, kind] = ["etcd", "coredns", "kind"].map(|name| containers().join(name));
    let release = control_plane::pinned()?;
    let key = go::key(&[&etcd, &coredns, &kind, &control_plane::module()], &[])?;
    let programs = cache::entry("node-programs", &key, |folder| {
        tracing::info!("building the programs of a node; about fifteen minutes, once");
        control_plane::build_into(folder, &control_plane::OF_A_NODE)?;
        let server = "go.etcd.io/etcd/server/v3".to_owned();
        go::build(&etcd, go::SMALL, &folder.join("etcd"), &[server])?;
        go::build(&coredns, go::SMALL, &folder.join("coredns"), &[".".to_owned()])?;
        let kubernetes = go::files_of(&control_plane::module(), "k8s.io/kubernetes")?;
        let source = kubernetes.join("build/pause/linux/pause.c");
        let mut cc = Command::new("cc");
        cc.args(["-Os", "-static", "-DVERSION=e2e", "-o"]).arg(folder.join("pause")).arg(&source);
        command::run(&mut cc).context("compile `pause` (needs a C compiler and a static C library)").map(drop)
    })?;
    let kind_files = go::files_of(&kind, "sigs.k8s.io/kind")?.join("images/base/files");
    Ok(NodeParts { programs, kind_files, kubernetes: release.to_string(), key })
}

/// The folder of recipes for images.
pub fn containers() -> PathBuf {
    cache::repository().join("e2e/containers")
}
