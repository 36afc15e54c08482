//! Golden scenarios: text files with a fixture, a line `--- expect`, and the rendered outcome.

use std::fs;
use std::path::{Path, PathBuf};

/// Line between the fixture and the expectation.
const MARK: &str = "--- expect\n";

/// Checks every `.scn` file below `directory` with `outcome`, which turns a fixture into text. With
/// `UPDATE_GOLDEN=1` in the environment the files are rewritten instead; read the difference.
pub fn check_all(directory: &Path, outcome: impl Fn(&str) -> String) {
    let files = scenarios(directory);
    assert!(!files.is_empty(), "no scenarios in {}", directory.display());
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut failures = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (fixture, expected) = text.split_once(MARK).unwrap_or((&text, ""));
        let actual = outcome(fixture);
        if actual == expected {
            continue;
        }
        if update {
            let text = format!("{}\n{MARK}{actual}", fixture.trim_end());
            fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        } else {
            failures.push(format!("{}\nexpected:\n{expected}\nactual:\n{actual}", file.display()));
        }
    }
    assert!(failures.is_empty(), "{}\n(UPDATE_GOLDEN=1 rewrites the expectations)", failures.join("\n"));
}

fn scenarios(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "scn"))
        .collect();
    files.sort();
    files
}
