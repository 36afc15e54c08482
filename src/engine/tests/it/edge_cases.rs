//! docs/edge-cases.md names a scenario or a test for each edge case of the specification: each must exist, and each
//! scenario must be named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Scenarios about what the specification does not pin.
const OUR_OWN: [&str; 7] = [
    "default_spread.scn",
    "default_spread_soft.scn",
    "empty_budgets.scn",
    "empty_nodes.scn",
    "near_misses.scn",
    "not_planned_for.scn",
    "used_nodes_stay.scn",
];

/// The words between backticks in the last column of the tables of `text`.
fn pins(text: &str) -> Vec<String> {
    let last = text.lines().filter(|line| line.starts_with('|')).filter_map(|line| line.rsplit('|').nth(1));
    last.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Every Rust file below `directory`.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the crate has sources").filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_edge_case_is_pinned_by_something_that_exists() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = crate_root.join("../../docs/edge-cases.md");
    let text = fs::read_to_string(&page).expect("docs/edge-cases.md is there");
    let scenarios = crate_root.join("tests/it/scenarios");
    let mut files = Vec::new();
    sources(&crate_root.join("src"), &mut files);
    sources(&crate_root.join("tests"), &mut files);
    let mut pinned = BTreeSet::new();
    let mut file = String::new();
    for pin in pins(&text) {
        let extension = Path::new(&pin).extension().and_then(|extension| extension.to_str());
        if extension == Some("scn") {
            assert!(scenarios.join(&pin).is_file(), "there is no scenario `{pin}`");
            pinned.insert(pin);
        } else if extension == Some("rs") {
            file = pin;
        } else {
            let function = format!("fn {pin}(");
            let candidates =
                files.iter().filter(|path| path.file_name().is_some_and(|name| name == file.as_str()));
            let mut contents = candidates.filter_map(|path| fs::read_to_string(path).ok());
            assert!(contents.any(|text| text.contains(&function)), "no `{file}` has a test `{pin}`");
        }
    }
    assert!(pinned.len() > 70, "only {} scenarios are named", pinned.len());
    let entries = fs::read_dir(&scenarios).expect("there are scenarios").filter_map(Result::ok);
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let unnamed: Vec<String> =
        names.filter(|name| !pinned.contains(name) && !OUR_OWN.contains(&name.as_str())).collect();
    assert!(unnamed.is_empty(), "not in docs/edge-cases.md: {unnamed:?}");
}
