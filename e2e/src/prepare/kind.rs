//! kind, from `PATH` or built from its Go module, and the programs of a node image.
//!
//! `e2e/containers/kind/go.mod` pins kind, `e2e/containers/{etcd,coredns}/go.mod` what runs in its nodes beside the
//! Kubernetes programs of `e2e/control-plane`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{cache, command, control_plane};

/// Finds or builds `kind`.
pub fn kind() -> Result<PathBuf> {
    if let Some(found) = command::find_on_path("kind") {
        return Ok(found);
    }
    let module = containers().join("kind");
    let folder = cache::entry("kind", &key_of(&[&module])?, |folder| {
        tracing::info!("building kind; a minute, once");
        go_build(&module, "sigs.k8s.io/kind", &folder.join("kind"))
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

/// What a node image is made of.
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
    let key = key_of(&[&etcd, &coredns, &kind, &cache::repository().join("e2e/control-plane")])?;
    let programs = cache::entry("node-programs", &key, |folder| {
        tracing::info!("building the programs of a node; about fifteen minutes, once");
        control_plane::build_into(folder, &control_plane::OF_A_NODE)?;
        go_build(&etcd, "go.etcd.io/etcd/server/v3", &folder.join("etcd"))?;
        go_build(&coredns, ".", &folder.join("coredns"))?;
        let kubernetes = module_folder(&cache::repository().join("e2e/control-plane"), "k8s.io/kubernetes")?;
        let source = kubernetes.join("build/pause/linux/pause.c");
        let mut cc = Command::new("cc");
        cc.args(["-Os", "-static", "-DVERSION=e2e", "-o"]).arg(folder.join("pause")).arg(&source);
        command::run(&mut cc).context("compile `pause` (needs a C compiler and a static C library)").map(drop)
    })?;
    let kind_files = module_folder(&kind, "sigs.k8s.io/kind")?.join("images/base/files");
    Ok(NodeParts { programs, kind_files, kubernetes: release.to_string(), key })
}

/// The folder of recipes for images.
pub fn containers() -> PathBuf {
    cache::repository().join("e2e/containers")
}

fn key_of(modules: &[&Path]) -> Result<String> {
    let mut texts = Vec::new();
    for module in modules {
        for name in ["go.mod", "go.sum"] {
            let path = module.join(name);
            texts.push(fs::read(&path).with_context(|| format!("read `{}`", path.display()))?);
        }
    }
    Ok(cache::key(&texts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

fn go() -> Result<PathBuf> {
    command::find_on_path("go").context("`go` is not on PATH; install Go 1.25 or newer (https://go.dev/dl)")
}

fn go_build(module: &Path, package: &str, program: &Path) -> Result<()> {
    let mut build = Command::new(go()?);
    build.current_dir(module).args([
        "build",
        "-mod=readonly",
        "-buildvcs=false",
        "-trimpath",
        "-ldflags",
        "-s -w",
        "-o",
    ]);
    command::fetch(build.arg(program).arg(package)).with_context(|| format!("build `{package}`")).map(drop)
}

/// Where Go keeps the files of a module that `module` requires.
fn module_folder(module: &Path, path: &str) -> Result<PathBuf> {
    let mut list = Command::new(go()?);
    list.current_dir(module).args(["list", "-m", "-f", "{{.Dir}}", path]);
    let found = command::run(&mut list).with_context(|| format!("find the files of Go module `{path}`"))?;
    Ok(PathBuf::from(found.trim()))
}
