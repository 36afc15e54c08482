//! Files, folders and standard input as texts.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A text and where it comes from.
#[derive(Clone, Debug)]
pub struct Input {
    /// Path as given, or `-`.
    pub name: String,
    pub text: String,
}

/// A file or folder that could not be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot read `{path}`; give a file, a folder with .yaml, .yml or .json files, or - for standard input"
)]
pub struct InputError {
    path: String,
    source: io::Error,
}

/// The texts of `paths` in their order. A folder gives its manifests by name, with those of its folders.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Input>, InputError> {
    let mut inputs = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let failed = |source| InputError { path: name.clone(), source };
        if name == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(failed)?;
            inputs.push(Input { name, text });
            continue;
        }
        for file in manifests(path).map_err(failed)? {
            let name = file.display().to_string();
            let text =
                fs::read_to_string(&file).map_err(|source| InputError { path: name.clone(), source })?;
            inputs.push(Input { name, text });
        }
    }
    Ok(inputs)
}

fn manifests(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut found = Vec::new();
    for entry in entries {
        let is_manifest =
            entry.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known));
        if entry.is_dir() {
            found.extend(manifests(&entry)?);
        } else if is_manifest {
            found.push(entry);
        }
    }
    Ok(found)
}
