//! The cache folder: where prepared programs live between runs.
//!
//! `KARPENTER_CACHE` if set, else `.cache` at the top of the repository. An entry is built in a temporary
//! folder beside its place and renamed when complete, so a half-built entry is never found; a lock file
//! makes the second process wait for the first instead of building the same thing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The top of the repository this harness was compiled in.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("invariant: e2e is a folder of the repository")
}

/// The cache folder; not created here.
pub fn root() -> PathBuf {
    match std::env::var_os("KARPENTER_CACHE") {
        Some(folder) if !folder.is_empty() => folder.into(),
        _ => repository().join(".cache"),
    }
}

/// A short name for a set of inputs: equal inputs, equal key.
pub fn key(inputs: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for input in inputs {
        // The length keeps ("ab", "c") apart from ("a", "bc").
        hash.update(input.len().to_le_bytes());
        hash.update(input);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The folder `<cache>/<kind>/<key>`, made by `build` in a fresh folder if it does not exist.
pub fn entry(kind: &str, key: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    entry_below(&root(), kind, key, build)
}

fn entry_below(
    root: &Path,
    kind: &str,
    key: &str,
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let parent = root.join(kind);
    let place = parent.join(key);
    if place.is_dir() {
        return Ok(place);
    }
    fs::create_dir_all(&parent).with_context(|| format!("create cache folder `{}`", parent.display()))?;
    let lock_path = parent.join(format!("{key}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("create lock `{}`", lock_path.display()))?;
    lock.lock().with_context(|| format!("wait for lock `{}`", lock_path.display()))?;
    if place.is_dir() {
        return Ok(place);
    }
    let draft = tempfile::Builder::new()
        .prefix(&format!("{key}.draft-"))
        .tempdir_in(&parent)
        .with_context(|| format!("create a folder in `{}`", parent.display()))?;
    build(draft.path())?;
    let draft = draft.keep();
    fs::rename(&draft, &place)
        .with_context(|| format!("move `{}` to `{}`", draft.display(), place.display()))?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn keys_follow_the_inputs_and_their_borders() {
        assert_eq!(key(&[b"ab", b"c"]), key(&[b"ab", b"c"]));
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_ne!(key(&[b"ab"]), key(&[b"ab", b""]));
        assert_eq!(key(&[]).len(), 16);
    }

    #[test]
    fn builds_an_entry_once_and_leaves_nothing_of_a_failed_build() {
        let root = tempfile::tempdir().unwrap();
        let failed = entry_below(root.path(), "tool", "k", |draft| {
            fs::write(draft.join("half"), "")?;
            bail!("no compiler")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no compiler");
        let place = entry_below(root.path(), "tool", "k", |draft| Ok(fs::write(draft.join("whole"), "")?));
        let place = place.unwrap();
        assert!(place.join("whole").exists() && !place.join("half").exists());
        let again = entry_below(root.path(), "tool", "k", |_| bail!("built twice")).unwrap();
        assert_eq!(again, place);
        let names: Vec<_> =
            fs::read_dir(root.path().join("tool")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "the entry and its lock: {names:?}");
    }
}
