//! The pages `docs/reference/edge-cases*.md` say what pins each edge case of the specification, and `e2e/COVERAGE.md`
//! what proves each end-to-end scenario of the reference. A page that names a
//! scenario or a test that is not there promises what no test keeps; a scenario that no page names is not found.
//!
//! Pins stand between backticks in the last column of the tables: `name.scn`, `file.rs` followed by the functions in
//! it, or `file.yaml` followed by the names of the cases in it. A file is written with as much of its path as makes it
//! clear.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folder of the pages.
const PAGES: &str = "docs/reference";

/// A page of the same form elsewhere.
const COVERAGE: &str = "e2e/COVERAGE.md";

/// Folder of the scenarios.
const SCENARIOS: &str = "src/engine/tests/it";

/// Folder of the tables of cases.
const CASES: &str = "src/api/src/cases";

/// Checks every page below `root` against sources and scenarios.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut sources = super::files::with_extension(&root.join("src"), "rs")?;
    sources.extend(super::files::with_extension(&root.join("e2e"), "rs")?);
    sources.extend(super::files::with_extension(&root.join(CASES), "yaml")?);
    let scenarios = super::files::with_extension(&root.join(SCENARIOS), "scn")?;
    let mut violations = Vec::new();
    let mut named = BTreeSet::new();
    let coverage = Some(root.join(COVERAGE)).filter(|page| page.exists());
    for page in pages(&root.join(PAGES))?.into_iter().chain(coverage) {
        let text = read(&page)?;
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        for (line, pins) in tables(&text) {
            let report = |what: String| format!("{name}:{line}: {what}");
            violations.extend(broken(&pins, &sources, &scenarios, &mut named)?.into_iter().map(report));
        }
    }
    for scenario in scenarios.iter().filter(|scenario| !named.contains(*scenario)) {
        let name = scenario.strip_prefix(root).unwrap_or(scenario);
        violations.push(format!("{}: no page `{PAGES}/edge-cases*.md` names it", name.display()));
    }
    Ok(violations)
}

/// The pages in `folder`, in order.
fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let pages = super::files::with_extension(folder, "md")?;
    let is_page = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("edge-cases"))
    };
    Ok(pages.into_iter().filter(is_page).collect())
}

/// Line numbers of the rows of tables that pin something, and the words between backticks in their last column.
fn tables(text: &str) -> Vec<(usize, Vec<String>)> {
    let rows = text.lines().zip(1..).filter(|(line, _)| line.starts_with('|'));
    let pins = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let cells = rows.filter_map(|(line, number)| Some((number, pins(line.rsplit('|').nth(1)?))));
    cells.filter(|(_, pins)| !pins.is_empty()).collect()
}

/// Returns the `pins` that are not there; scenarios that are go to `named`.
fn broken(
    pins: &[String],
    sources: &[PathBuf],
    scenarios: &[PathBuf],
    named: &mut BTreeSet<PathBuf>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut file: Vec<&PathBuf> = Vec::new();
    for pin in pins {
        match Path::new(pin).extension().and_then(OsStr::to_str) {
            Some("scn") => {
                let mut candidates = scenarios.iter().filter(|path| path.ends_with(pin));
                match (candidates.next(), candidates.next()) {
                    (None, _) => found.push(format!("there is no scenario `{pin}`")),
                    (Some(_), Some(_)) => {
                        found.push(format!("there are several scenarios `{pin}`: name the folder"));
                    }
                    (Some(path), None) => {
                        named.insert(path.clone());
                    }
                }
            }
            Some("rs" | "yaml") => {
                file = sources.iter().filter(|path| path.ends_with(pin)).collect();
                if file.is_empty() {
                    found.push(format!("there is no source file `{pin}`"));
                }
            }
            _ => {
                let mut is_there = false;
                for path in &file {
                    is_there |= has(path, &read(path)?, pin);
                }
                if !is_there {
                    found.push(format!("none of the files named before it has a test or case `{pin}`"));
                }
            }
        }
    }
    Ok(found)
}

/// Returns whether the file at `path` with `text` has the test or case `name`. In the end-to-end scenarios, which a runner
/// calls, any function is one.
fn has(path: &Path, text: &str, name: &str) -> bool {
    if path.extension().is_some_and(|extension| extension == "yaml") {
        let case = format!("- name: {name}");
        return text.lines().any(|line| line == case);
    }
    has_test(text, name, path.iter().any(|part| part == "e2e"))
}

/// Returns whether `text` has a test `function`: one with an attribute of tests, unless `any` function will do.
fn has_test(text: &str, function: &str, any: bool) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let signature = format!("fn {function}(");
    let is_declared = |line: &str| {
        line.find(&signature).is_some_and(|at| {
            line[..at].split_whitespace().all(|word| word.starts_with("pub") || word == "async")
        })
    };
    let declared = lines.iter().enumerate().filter(|(_, line)| is_declared(line)).map(|(index, _)| index);
    let mut attributes =
        declared.map(|index| lines[..index].iter().rev().take_while(|line| line.starts_with("#[")));
    attributes.any(|mut attributes| any || attributes.any(|line| line.contains("test")))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_the_words_between_backticks_of_the_last_column() {
        let page =
            "# Page\n\n`no.scn`\n\n| `what` | pinned by |\n|---|---|\n| `In` | `a.scn`, `b.rs` `c` |\n";
        assert_eq!(tables(page), [(7, ["a.scn", "b.rs", "c"].map(str::to_owned).to_vec())]);
    }

    #[test]
    fn only_functions_marked_as_tests_count() {
        let text = "#[test]\nfn good() {}\n#[tokio::test]\n#[allow(x)]\nasync fn later() {}\nfn helper() {}\n// fn said()";
        assert!(has_test(text, "good", false));
        assert!(has_test(text, "later", false));
        assert!(!has_test(text, "helper", false));
        assert!(has_test(text, "helper", true));
        assert!(!has_test(text, "said", true));
        assert!(!has_test(text, "goo", false));
    }

    #[test]
    fn cases_are_named_in_full() {
        let (path, text) = (Path::new("cases/a.yaml"), "cases:\n- name: no key\n  reject: a\n");
        assert!(has(path, text, "no key"));
        assert!(!has(path, text, "no"));
    }

    #[test]
    fn what_is_not_there_is_reported_and_what_is_there_is_named() {
        let scenarios = ["x/a.scn", "x/c.scn", "y/c.scn"].map(|name| Path::new("/r").join(name));
        let mut named = BTreeSet::new();
        let pins = ["a.scn", "b.scn", "c.scn", "y/c.scn", "none.rs", "f"].map(str::to_owned);
        let broken = broken(&pins, &[], &scenarios, &mut named).unwrap();
        assert_eq!(
            broken,
            [
                "there is no scenario `b.scn`",
                "there are several scenarios `c.scn`: name the folder",
                "there is no source file `none.rs`",
                "none of the files named before it has a test or case `f`"
            ]
        );
        assert_eq!(named.len(), 2);
    }
}
