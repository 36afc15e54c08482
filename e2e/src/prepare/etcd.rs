//! etcd: from `KUBEBUILDER_ASSETS`, from `PATH`, or from Debian's package.
//!
//! etcd cannot be built by `go build` of its published server module alone, but every distribution has it,
//! and the old 3.4 of Debian serves Kubernetes 1.35 well. The package is unpacked into the cache folder, which
//! needs no root and starts no system service.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{cache, command, control_plane::in_assets, packages};

const HINT: &str = "etcd is missing: install it (Debian, Ubuntu: `apt-get install etcd-server`; macOS: \
                    `brew install etcd`), or point KUBEBUILDER_ASSETS at a folder that has it";

/// Finds etcd, or unpacks Debian's package of it.
pub fn etcd() -> Result<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty());
    if let Some(found) = in_assets(assets.as_ref(), "etcd").or_else(|| command::find_on_path("etcd")) {
        return Ok(found);
    }
    let (Some(apt), Some(dpkg)) = (command::find_on_path("apt-get"), command::find_on_path("dpkg-deb"))
    else {
        bail!(HINT);
    };
    let folder = cache::entry("etcd", "debian", |folder| unpack(&apt, &dpkg, folder).context(HINT))?;
    Ok(folder.join("usr/bin/etcd"))
}

/// One package and nothing it depends on: that needs no root.
fn unpack(apt: &Path, dpkg: &Path, folder: &Path) -> Result<()> {
    let mut download = Command::new(apt);
    download.args(["download", "etcd-server"]).current_dir(folder);
    packages::fetch_and_unpack(apt, dpkg, &mut download, folder, folder)?;
    if !command::is_executable(&folder.join("usr/bin/etcd")) {
        bail!("the package `etcd-server` has no usr/bin/etcd");
    }
    Ok(())
}
