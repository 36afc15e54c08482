//! kube-apiserver, kube-scheduler and kube-controller-manager, built from their Go modules.
//!
//! `e2e/control-plane/go.mod` names them as `tool` lines and pins the release; `go.sum` pins every byte. The
//! programs are rebuilt when either file or the recipe here changes. A folder in `KUBEBUILDER_ASSETS` (what
//! `setup-envtest` downloads) is used first; it usually has the API server but neither scheduler nor
//! controller manager, and what it lacks is built.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::release::Release;
use super::{Binaries, cache, command, go};

pub(super) const PROGRAMS: [&str; 3] = ["kube-apiserver", "kube-scheduler", "kube-controller-manager"];

/// The programs of a node that runs its control plane in pods, as kubeadm makes it.
pub(super) const OF_A_NODE: [&str; 7] = [
    "kubeadm",
    "kubelet",
    "kubectl",
    "kube-proxy",
    "kube-apiserver",
    "kube-scheduler",
    "kube-controller-manager",
];

/// Finds or builds the three programs; `etcd` of the result is left empty.
pub fn control_plane() -> Result<Binaries> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    let found = PROGRAMS.map(|name| in_assets(assets.as_ref(), name));
    let built = if found.iter().all(Option::is_some) { None } else { Some(build()?) };
    let [kube_apiserver, kube_scheduler, kube_controller_manager] = std::array::from_fn(|index| {
        let built = built.as_deref().unwrap_or(Path::new("")).join(PROGRAMS[index]);
        found[index].clone().unwrap_or(built)
    });
    Ok(Binaries { etcd: PathBuf::new(), kube_apiserver, kube_scheduler, kube_controller_manager })
}

pub(super) fn in_assets(assets: Option<&OsString>, name: &str) -> Option<PathBuf> {
    let found =
        assets.map(|folder| Path::new(folder).join(name)).filter(|path| command::is_executable(path))?;
    // Programs are started from the folder of their run.
    std::path::absolute(found).ok()
}

fn build() -> Result<PathBuf> {
    let release = pinned()?;
    let key = go::key(&[&module()], &[release.linker_flags().as_bytes()])?;
    cache::entry("control-plane", &key, |folder| {
        tracing::info!(%release, "building the control plane; about four minutes, once");
        build_into(folder, &PROGRAMS).context(
            "point KUBEBUILDER_ASSETS at a folder with kube-apiserver, kube-scheduler and kube-controller-manager to \
             use what is there",
        )
    })
}

/// The release that is built.
pub(super) fn pinned() -> Result<Release> {
    Release::from_go_mod(&read(&module().join("go.mod"))?)
}

/// Builds programs of the pinned release into a folder.
pub(super) fn build_into(folder: &Path, programs: &[&str]) -> Result<()> {
    go::build(&module(), &pinned()?.linker_flags(), folder, &packages(programs))
}

/// The Go packages of programs of Kubernetes.
pub(super) fn packages(programs: &[&str]) -> Vec<String> {
    programs.iter().map(|name| format!("k8s.io/kubernetes/cmd/{name}")).collect()
}

/// The module that pins Kubernetes.
pub(super) fn module() -> PathBuf {
    cache::repository().join("e2e/control-plane")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_module_names_every_program() {
        let text = read(&cache::repository().join("e2e/control-plane/go.mod")).unwrap();
        assert_eq!(Release::from_go_mod(&text).unwrap().minor(), 35);
        for name in OF_A_NODE.iter().chain(&PROGRAMS) {
            assert!(text.contains(&format!("k8s.io/kubernetes/cmd/{name}")), "{name} is a tool of go.mod");
        }
    }

    #[test]
    fn takes_only_executables_from_the_assets_folder() {
        let folder = tempfile::tempdir().unwrap();
        let assets = OsString::from(folder.path());
        fs::write(folder.path().join("kube-apiserver"), "not executable").unwrap();
        assert_eq!(in_assets(Some(&assets), "kube-apiserver"), None);
        assert_eq!(in_assets(Some(&assets), "kube-scheduler"), None);
        assert_eq!(in_assets(None, "kube-scheduler"), None);
    }
}
