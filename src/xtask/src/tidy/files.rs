//! Rules about source files: documented, declared, and short enough to read.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// No source file may be longer; split by reason to change instead.
const LINES_MAX: usize = 800;

/// Text that must not reach a commit. Assembled so that this file does not match itself.
const LEFTOVERS: &[(&str, &str)] = &[("FIX", "ME"), ("XX", "X"), ("todo", "!("), ("dbg", "!(")];

/// Checks every Rust file below `src/` and `e2e/`.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let mut crates = subfolders(&root.join("src"))?;
    crates.push(root.join("e2e"));
    for krate in crates {
        let files = with_extension(&krate, "rs")?;
        let declared = declared_files(&files)?;
        for file in &files {
            let text =
                fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
            let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
            violations.extend(text_violations(&name, &text));
            if !is_root(&krate, file) && !declared.contains(file) {
                violations.push(format!("{name}: no `mod` declares this file"));
            }
        }
    }
    Ok(violations)
}

fn text_violations(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        found.push(format!("{name}: does not open with a `//!` line saying what it is for"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{name}: has {lines} lines, the limit is {LINES_MAX}"));
    }
    for (head, tail) in LEFTOVERS {
        if text.contains(&format!("{head}{tail}")) {
            found.push(format!("{name}: contains the leftover `{head}{tail}`"));
        }
    }
    if text.contains(&format!("#[{}]", "ignore")) {
        found.push(format!("{name}: skips a test; opt in by an environment variable instead"));
    }
    found
}

/// Files that cargo finds by itself: crate roots, binaries, benches and the one integration test.
fn is_root(krate: &Path, file: &Path) -> bool {
    let Ok(relative) = file.strip_prefix(krate) else { return false };
    let parts: Vec<_> = relative.iter().filter_map(OsStr::to_str).collect();
    matches!(
        parts.as_slice(),
        ["src", "lib.rs" | "main.rs"]
            | ["tests", "it", "main.rs"]
            | ["benches" | "examples", _]
            | ["benches" | "examples", _, "main.rs"]
            | ["src", "bin", _]
    )
}

/// Every file that some `mod name;` in `files` points to. Only `foo.rs` beside `foo/` is supported, which is
/// the layout of this repository.
fn declared_files(files: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut declared = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
        let folder = module_folder(file);
        for name in text.lines().filter_map(declared_module) {
            declared.insert(folder.join(format!("{name}.rs")));
        }
    }
    Ok(declared)
}

/// Returns the folder of the submodules of `file`.
fn module_folder(file: &Path) -> PathBuf {
    let parent = file.parent().unwrap_or(Path::new(""));
    match file.file_stem().and_then(OsStr::to_str) {
        Some("lib" | "main") | None => parent.to_owned(),
        Some(_) if is_standalone(file) => parent.to_owned(),
        Some(stem) => parent.join(stem),
    }
}

/// Benches and binaries are roots whatever their name.
fn is_standalone(file: &Path) -> bool {
    let parent = file.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    matches!(parent, Some("benches" | "examples" | "bin"))
}

/// `mod name;`, with any visibility in front.
fn declared_module(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = line.strip_suffix(';')?;
    let mut words = rest.split_whitespace().rev();
    let name = words.next()?;
    (words.next()? == "mod").then_some(name)
}

/// Every file below `folder` with the given extension, in order; build output left out.
pub(super) fn with_extension(folder: &Path, wanted: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in entries(folder)? {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "target" && name != ".cache") {
            found.extend(with_extension(&entry, wanted)?);
        } else if entry.extension().is_some_and(|extension| extension == wanted) {
            found.push(entry);
        }
    }
    Ok(found)
}

pub(super) fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|entry| entry.is_dir()).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    let mut found = listing.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_module_declarations_with_any_visibility() {
        for (line, expected) in [
            ("mod plan;", Some("plan")),
            ("    pub(crate) mod plan;", Some("plan")),
            ("mod tests {", None),
            ("// mod plan;x", None),
            ("use mod_name;", None),
        ] {
            assert_eq!(declared_module(line), expected, "{line}");
        }
    }

    #[test]
    fn each_rule_about_text_is_reported() {
        assert_eq!(text_violations("a.rs", "//! fine\n"), Vec::<String>::new());
        assert_eq!(text_violations("a.rs", "fn main() {}\n").len(), 1);
        assert_eq!(text_violations("a.rs", &format!("//! long\n{}", "\n".repeat(LINES_MAX))).len(), 1);
        assert_eq!(text_violations("a.rs", &format!("//! x\n// {}{}\n", "FIX", "ME")).len(), 1);
    }
}
