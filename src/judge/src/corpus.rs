//! Worlds in files: one YAML stream each, whose comment describes it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// The folder of worlds that once showed a difference; in its folder `open` are those that still do.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The worlds of a folder, by name.
///
/// # Errors
/// A file that cannot be read.
pub fn worlds(folder: &Path) -> Result<Vec<(String, Vec<Value>)>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| format!("list `{}`", folder.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let yaml = files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    yaml.map(|path| {
        let text = std::fs::read_to_string(&path).with_context(|| format!("read `{}`", path.display()))?;
        let objects =
            serde_saphyr::from_multiple(&text).with_context(|| format!("read `{}`", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, objects))
    })
    .collect()
}

/// A world as the text of such a file.
///
/// # Errors
/// Never for JSON values.
pub fn text(comment: &str, objects: &[Value]) -> Result<String> {
    let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    let documents: Vec<String> = objects.iter().map(serde_saphyr::to_string).collect::<Result<_, _>>()?;
    Ok(comment + &documents.join("---\n"))
}
