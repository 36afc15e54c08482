//! Files that are committed but come from the code: written by `cargo xtask generate`, and checked by a test.

mod crds;
mod doctor;
mod pool_values;
mod prerequisites;
mod prices;
mod reference;
mod roles;
mod values;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

#[cfg(test)]
pub(crate) use roles::Rights;

/// A file and what it should hold.
struct Generated {
    path: PathBuf,
    content: String,
}

/// Writes every generated file below `root`.
pub(crate) fn write(root: &Path) -> Result<Vec<String>> {
    for file in files(root)? {
        let path = root.join(&file.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        }
        fs::write(&path, file.content).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(Vec::new())
}

/// One line for every generated file that is missing or stale.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let stale = files(root)?
        .into_iter()
        .filter(|file| fs::read_to_string(root.join(&file.path)).ok().as_ref() != Some(&file.content));
    Ok(stale.map(|file| format!("{}: is stale, run `cargo xtask generate`", file.path.display())).collect())
}

fn files(root: &Path) -> Result<Vec<Generated>> {
    let mut files = crds::files()?;
    files.push(doctor::file());
    files.push(pool_values::file()?);
    files.extend(prerequisites::files());
    files.push(prices::file(root)?);
    files.extend(roles::files());
    files.extend(values::files(root)?);
    files.extend(reference::files());
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_generated_file_is_fresh() {
        let stale = super::check(&crate::repository_root()).unwrap();
        assert!(stale.is_empty(), "\n{}", stale.join("\n"));
    }
}
