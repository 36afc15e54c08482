//! Programs from Debian's packages, without installing them.
//!
//! Packages that this machine lacks, and what they depend on, are fetched by apt and unpacked into the cache folder.
//! No service is started, no file outside the cache is written, and what the machine has already is used as it is.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{cache, command};

/// Folders of unpacked programs, below the folder of the entry.
const PROGRAMS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "bin"];

/// Programs that run although they lie where their packages did not expect to be.
#[derive(Clone, Debug)]
pub(crate) struct Packages {
    folder: Option<PathBuf>,
}

impl Packages {
    /// `programs` from `PATH`, or from `packages` and all that these depend on. `name` is the entry in the cache.
    pub(crate) fn providing(name: &str, programs: &[&str], packages: &[&str]) -> Result<Self> {
        let lacking = |program: &&&str| command::find_on_path(program).is_none();
        let Some(missing) = programs.iter().find(lacking) else { return Ok(Self { folder: None }) };
        let hint = || {
            format!(
                "`{missing}` is not on PATH; install it (Debian, Ubuntu: `apt-get install {}`)",
                packages.join(" ")
            )
        };
        let (Some(apt), Some(dpkg)) = (command::find_on_path("apt-get"), command::find_on_path("dpkg-deb"))
        else {
            bail!(hint());
        };
        let folder = cache::entry("packages", name, |folder| {
            unpack(&apt, &dpkg, packages, folder).with_context(hint)
        })?;
        Ok(Self { folder: Some(folder) })
    }

    /// The full name of one of the programs.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let unpacked =
            self.folder.iter().flat_map(|folder| PROGRAMS.map(|part| folder.join(part).join(name)));
        unpacked
            .into_iter()
            .find(|path| command::is_executable(path))
            .or_else(|| command::find_on_path(name))
            .with_context(|| format!("the packages have no program `{name}`"))
    }

    /// Returns the environment that the programs need: to find each other, their libraries, and iptables its extensions.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = PROGRAMS.iter().map(|part| folder.join(part)).chain(std::env::split_paths(&path));
        let libraries = libraries(folder);
        let mut environment = Vec::new();
        if let Ok(path) = std::env::join_paths(programs) {
            environment.push(("PATH", path));
        }
        if let Some(extensions) =
            libraries.iter().map(|folder| folder.join("xtables")).find(|path| path.is_dir())
        {
            environment.push(("XTABLES_LIBDIR", extensions.into_os_string()));
        }
        if let Ok(path) = std::env::join_paths(libraries) {
            environment.push(("LD_LIBRARY_PATH", path));
        }
        environment
    }
}

/// The folders of shared libraries: one per architecture, below `usr/lib` and `lib`.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let parents = ["usr/lib", "lib"].map(|part| folder.join(part));
    let entries = parents.iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && path.to_string_lossy().contains("-linux-gnu"))
        .collect();
    found.sort();
    found
}

fn unpack(apt: &Path, dpkg: &Path, packages: &[&str], folder: &Path) -> Result<()> {
    let archives = folder.join("archives");
    fs::create_dir_all(archives.join("partial")).context("make a folder for packages")?;
    let mut place = OsString::from("Dir::Cache::archives=");
    place.push(&archives);
    let mut download = Command::new(apt);
    download
        .args(["install", "--download-only", "--yes", "--no-install-recommends", "-o"])
        .arg(&place)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive");
    fetch_and_unpack(apt, dpkg, &mut download, &archives, folder)?;
    alternatives(folder)?;
    fs::remove_dir_all(&archives).context("remove the folder for packages")
}

/// Runs what fetches packages into `archives`, and unpacks and removes all of them.
pub(super) fn fetch_and_unpack(
    apt: &Path,
    dpkg: &Path,
    download: &mut Command,
    archives: &Path,
    folder: &Path,
) -> Result<()> {
    tracing::info!(?download, "fetching Debian's packages (no installation)");
    if let Err(error) = command::fetch(download) {
        // A fresh container has no package lists; fetching them is for root, others keep the first error.
        if command::run(Command::new(apt).arg("update")).is_err() {
            return Err(error);
        }
        command::fetch(download)?;
    }
    for entry in fs::read_dir(archives).context("list the fetched packages")? {
        let path = entry.context("list the fetched packages")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            command::run(Command::new(dpkg).arg("-x").arg(&path).arg(folder))?;
            fs::remove_file(&path).context("remove an unpacked package")?;
        }
    }
    Ok(())
}

/// Names that an installation would have made of alternatives: of two `iptables` Debian takes the one over nftables.
fn alternatives(folder: &Path) -> Result<()> {
    let programs = folder.join("usr/sbin");
    let several = "xtables-nft-multi";
    if !programs.join(several).exists() {
        return Ok(());
    }
    for name in ["iptables", "ip6tables"] {
        for name in [name.to_owned(), format!("{name}-save"), format!("{name}-restore")] {
            let place = programs.join(&name);
            if !place.exists() {
                symlink(several, &place).with_context(|| format!("make `{}`", place.display()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_is_not_fetched() {
        let found = Packages::providing("none", &["sh"], &["no-such-package"]).unwrap();
        assert!(found.program("sh").unwrap().is_absolute() && found.environment().is_empty());
        assert!(found.program("no-such-program-here").is_err());
    }

    #[test]
    fn a_program_with_alternatives_has_its_usual_name() {
        let folder = tempfile::tempdir().unwrap();
        alternatives(folder.path()).unwrap();
        let programs = folder.path().join("usr/sbin");
        fs::create_dir_all(&programs).unwrap();
        fs::write(programs.join("xtables-nft-multi"), "several").unwrap();
        fs::write(programs.join("iptables"), "its own").unwrap();
        alternatives(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(programs.join("iptables")).unwrap(), "its own");
        assert_eq!(fs::read_to_string(programs.join("ip6tables-restore")).unwrap(), "several");
    }

    #[test]
    fn unpacked_programs_find_each_other_and_their_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(library.join("xtables")).unwrap();
        let packages = Packages { folder: Some(folder.path().to_owned()) };
        let environment = packages.environment();
        let of = |name| environment.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone());
        assert_eq!(of("LD_LIBRARY_PATH"), Some(library.clone().into_os_string()));
        assert_eq!(of("XTABLES_LIBDIR"), Some(library.join("xtables").into_os_string()));
        assert!(
            of("PATH")
                .unwrap()
                .to_string_lossy()
                .starts_with(folder.path().join("usr/sbin").to_str().unwrap())
        );
    }
}
