//! Every event that is declared is also published: one that is only declared is a promise in the reference
//! page that no code keeps.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use karpenter_telemetry::events::reason::reference;

/// The text of every source file outside the table, tests left out.
fn sources(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !["telemetry", "xtask", "tests", "target", "names"].contains(&name.as_str()) {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            found.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
        }
    }
}

/// The constants of each reason: that of the table, and that of its name in `karpenter_model::names::reason`.
fn constants() -> Vec<(String, String)> {
    let table = crate::repository_root().join("src/telemetry/src/events/reason.rs");
    let text = fs::read_to_string(table).unwrap();
    let lines = text.lines().filter_map(|line| line.trim().split_once(" = Reason::"));
    let pair = |(constant, rest): (&str, &str)| {
        let (_, name) = rest.split_once("(reason::").unwrap();
        (constant.to_owned(), name.split(')').next().unwrap().to_owned())
    };
    lines.map(pair).collect()
}

#[test]
fn every_declared_event_is_published_somewhere() {
    let mut text = String::new();
    sources(&crate::repository_root().join("src"), &mut text);
    let constants = constants();
    assert_eq!(constants.len(), reference().len(), "every reason is a line of the table");
    let words: BTreeSet<&str> = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let used = |constant: &str, name: &str| words.contains(constant) || words.contains(name);
    let published: BTreeSet<&str> = constants
        .iter()
        .filter(|(constant, name)| used(constant, name))
        .map(|(_, name)| name.as_str())
        .collect();
    let unpublished: BTreeSet<&str> =
        constants.iter().map(|(_, name)| name.as_str()).filter(|name| !published.contains(name)).collect();
    assert!(unpublished.is_empty(), "declared and never published: {unpublished:?}");
}
