//! Programs built from Go modules of this repository. `go.mod` pins the release, `go.sum` every byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{cache, command};

/// Linker flags that keep a program small: no symbol table, no debugger's data.
pub(super) const SMALL: &str = "-s -w";

/// A key of the cache that changes when one of `modules` does, or one of the `further` inputs.
pub(super) fn key(modules: &[&Path], further: &[&[u8]]) -> Result<String> {
    let mut inputs = Vec::new();
    for module in modules {
        for name in ["go.mod", "go.sum"] {
            let path = module.join(name);
            inputs.push(fs::read(&path).with_context(|| format!("read `{}`", path.display()))?);
        }
    }
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).chain(further.iter().copied()).collect();
    Ok(cache::key(&inputs))
}

/// Builds packages that `module` requires, or is, to `output`: a file for one package, a folder for several.
pub(super) fn build(module: &Path, flags: &str, output: &Path, packages: &[String]) -> Result<()> {
    let mut build = Command::new(go()?);
    build
        .current_dir(module)
        .args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o"])
        .arg(output)
        .args(packages);
    let what = || format!("build {} from `{}/go.mod`", packages.join(", "), module.display());
    command::fetch(&mut build).with_context(what).map(drop)
}

/// Adds to a module's `go.mod` and `go.sum` what its programs need.
pub(super) fn tidy(module: &Path) -> Result<()> {
    let mut tidy = Command::new(go()?);
    tidy.current_dir(module).args(["mod", "tidy"]);
    command::fetch(&mut tidy).with_context(|| format!("complete `{}/go.mod`", module.display())).map(drop)
}

/// Fetches the `go.mod` of a version of a module.
pub(super) fn mod_file(path: &str, version: &str) -> Result<PathBuf> {
    let mut list = Command::new(go()?);
    // Outside of any module, so that no other module's versions count.
    list.current_dir("/").args(["list", "-m", "-f", "{{.GoMod}}", &format!("{path}@{version}")]);
    let found =
        command::fetch(&mut list).with_context(|| format!("find version {version} of Go module `{path}`"))?;
    Ok(PathBuf::from(found.trim()))
}

/// Returns the folder in which Go keeps the files of a module that `module` requires.
pub(super) fn files_of(module: &Path, path: &str) -> Result<PathBuf> {
    let mut list = Command::new(go()?);
    list.current_dir(module).args(["list", "-m", "-f", "{{.Dir}}", path]);
    let found = command::run(&mut list).with_context(|| format!("find the files of Go module `{path}`"))?;
    Ok(PathBuf::from(found.trim()))
}

fn go() -> Result<PathBuf> {
    command::find_on_path("go").context("`go` is not on PATH; install Go 1.25 or newer (https://go.dev/dl)")
}
