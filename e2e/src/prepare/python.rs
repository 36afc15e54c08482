//! The Python environment of the emulated AWS account.
//!
//! `localstack/requirements.txt` pins moto and everything below it by version and hash; pip refuses anything
//! else. The environment is rebuilt when that file or the interpreter's version changes.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{cache, command};

const HINT: &str = "Python 3.11 or newer with `venv` is needed for the emulated AWS account (Debian, Ubuntu: \
                    `apt-get install python3 python3-venv`)";

/// The folder that holds the launcher's Python package and its requirements.
pub fn launcher_folder() -> PathBuf {
    cache::repository().join("localstack")
}

/// The interpreter of an environment that has the launcher's requirements.
pub fn python() -> Result<PathBuf> {
    let Some((interpreter, version)) = interpreter() else { bail!(HINT) };
    let path = launcher_folder().join("requirements.txt");
    let pins = std::fs::read(&path).with_context(|| format!("read `{}`", path.display()))?;
    let key = cache::key(&[&pins, version.as_bytes()]);
    let folder = cache::entry("python", &key, |folder| {
        tracing::info!(version, "installing the pinned Python packages of localstack/; about a minute, once");
        command::run(Command::new(&interpreter).args(["-m", "venv"]).arg(folder)).context(HINT)?;
        command::fetch(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
                .args(["--require-hashes", "--only-binary=:all:", "--requirement"])
                .arg(&path),
        )
        .map(drop)
        .context("install localstack/requirements.txt")
    })?;
    Ok(folder.join("bin/python"))
}

/// The first interpreter on `PATH` that is new enough, with its `major.minor`.
fn interpreter() -> Option<(PathBuf, String)> {
    let question = "import sys; print('%d.%d' % sys.version_info[:2]); sys.exit(sys.version_info < (3, 11))";
    ["python3", "python3.14", "python3.13", "python3.12", "python3.11"].into_iter().find_map(|name| {
        let path = command::find_on_path(name)?;
        let version = command::run(Command::new(&path).args(["-c", question])).ok()?;
        Some((path, version.trim().to_owned()))
    })
}
