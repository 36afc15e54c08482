//! Doc lines start with a noun or a verb: paragraphs of comments that open with a headless clause ("What it is for") are counted
//! for each crate, and their number only falls.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::references;

/// Words that open a headless clause.
const OPENINGS: &[&str] = &["What", "Which", "Who", "Whose", "Whether", "How", "Where", "When", "Why"];
/// Most paragraphs of a thousand that may open so: sentences that need the word exist, and ripgrep has 48.
const MOST_PER_MILLE: usize = 48;
/// Crates that have more, with their number, which goes down with every change that finds it lower.
const MORE: &[(&str, usize)] = &[("telemetry", 24)];

/// Checks every crate below `root`.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for name in references::files(root)? {
        let Some(krate) = krate(&name).filter(|_| name.extension().is_some_and(|end| end == "rs")) else {
            continue;
        };
        counts.entry(krate).or_default().add(&references::read(&root.join(&name))?);
    }
    Ok(counts.iter().filter_map(|(krate, count)| violation(krate, count)).collect())
}

/// Paragraphs of comments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    all: usize,
    headless: usize,
}

impl Count {
    /// Adds the paragraphs of a source file: the first line of each run of comment lines, and each that follows an empty one.
    fn add(&mut self, text: &str) {
        let mut within = false;
        for line in text.lines() {
            let comment = line.trim_start().strip_prefix("//");
            let comment = comment.and_then(|line| line.strip_prefix(['/', '!']));
            let paragraph = comment.map(str::trim).filter(|line| !line.is_empty());
            if let Some(first) = paragraph.filter(|_| !within) {
                self.all += 1;
                let word = first.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
                self.headless += usize::from(OPENINGS.contains(&word));
            }
            within = paragraph.is_some();
        }
    }
}

fn violation(krate: &str, count: &Count) -> Option<String> {
    let Count { all, headless } = count;
    let more = MORE.iter().find(|(name, _)| *name == krate).map(|(_, most)| *most);
    let most = more.unwrap_or(all * MOST_PER_MILLE / 1000);
    if *headless > most {
        return Some(format!(
            "{krate}: {headless} of {all} paragraphs of comments open with {} and the like, {most} may; start with a noun or a \
             verb (docs/style.md)",
            OPENINGS[0]
        ));
    }
    (more.is_some() && *headless < most)
        .then(|| format!("{krate}: {headless} paragraphs of comments are headless; lower its number in src/xtask/src/tidy/openings.rs"))
}

/// The crate of a file: the folder below `src`, or `e2e`.
fn krate(name: &Path) -> Option<String> {
    let mut parts = name.components().map(|part| part.as_os_str().to_string_lossy());
    match &*parts.next()? {
        "src" => parts.next().map(Cow::into_owned),
        "e2e" => Some("e2e".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_their_openings_are_counted() {
        let mut count = Count::default();
        count.add(
            "//! What it is for.\n//! How is in the same paragraph.\n//!\n//! Whether it is read alone.\n\nfn a() {}\n\
             /// Owner of the field.\n    /// Whatever opens a word of its own does not count.\n// Why: no doc line.\n",
        );
        assert_eq!(count, Count { all: 3, headless: 2 });
    }

    #[test]
    fn a_crate_may_have_its_share() {
        let within = Count { all: 1000, headless: 48 };
        assert_eq!(violation("some", &within), None);
        assert!(violation("some", &Count { headless: 49, ..within }).is_some());
    }
}
