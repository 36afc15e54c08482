//! The control plane of another release of Kubernetes than the one that `e2e/control-plane` pins.
//!
//! Its module is written here: `k8s.io/kubernetes` takes some thirty libraries from folders of its own repository, so a module that
//! requires it has to name their versions, which follow from the release. No file of the repository pins these bytes; Go holds them
//! against its checksum database.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::release::Release;
use super::{cache, control_plane, go};

/// Builds API server, scheduler and controller manager of `release`; returns their folder, for `KUBEBUILDER_ASSETS`.
pub fn control_plane_of(release: Release) -> Result<PathBuf> {
    cache::entry("control-plane", &release.to_string(), |folder| {
        tracing::info!(%release, "building the control plane; about ten minutes, once");
        let module = tempfile::tempdir().context("create a folder for a Go module")?;
        write_module(module.path(), release)?;
        go::tidy(module.path())?;
        let packages = control_plane::packages(&control_plane::PROGRAMS);
        go::build(module.path(), &release.linker_flags(), folder, &packages)
    })
}

fn write_module(folder: &Path, release: Release) -> Result<()> {
    let of_kubernetes = go::mod_file("k8s.io/kubernetes", &release.to_string())?;
    let text =
        fs::read_to_string(&of_kubernetes).with_context(|| format!("read `{}`", of_kubernetes.display()))?;
    let path = folder.join("go.mod");
    fs::write(&path, module(&text, release)).with_context(|| format!("write `{}`", path.display()))
}

/// A module with the programs as tools; `of_kubernetes` is the text of Kubernetes' own `go.mod`.
fn module(of_kubernetes: &str, release: Release) -> String {
    let lines = || of_kubernetes.lines().map(str::trim);
    let mut text = "module controlplane\n".to_owned();
    for line in lines().filter(|line| line.starts_with("go ") || line.starts_with("godebug ")) {
        let _ = write!(text, "\n{line}\n");
    }
    for package in control_plane::packages(&control_plane::PROGRAMS) {
        let _ = writeln!(text, "\ntool {package}");
    }
    let _ = writeln!(text, "\nrequire k8s.io/kubernetes {release}\n");
    // Libraries of the same repository are required as v0.0.0 and replaced by a folder there.
    for library in lines().filter_map(|line| line.strip_suffix(" v0.0.0")) {
        let _ = writeln!(text, "replace {library} => {library} {}", release.of_libraries());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_repository_get_the_version_of_the_release() {
        let of_kubernetes = "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire (\n\
            \tgithub.com/spf13/cobra v1.8.1\n\tk8s.io/api v0.0.0\n\tk8s.io/kms v0.0.0\n)\n\n\
            replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let text = module(of_kubernetes, "1.33.2".parse().unwrap());
        for line in [
            "go 1.24.0",
            "godebug default=go1.24",
            "tool k8s.io/kubernetes/cmd/kube-scheduler",
            "require k8s.io/kubernetes v1.33.2",
            "replace k8s.io/api => k8s.io/api v0.33.2",
            "replace k8s.io/kms => k8s.io/kms v0.33.2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
        }
        assert!(!text.contains("cobra"), "{text}");
    }
}
