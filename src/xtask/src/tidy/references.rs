//! References lead somewhere. Code and pages cite the specification by page and number; a citation of a number that
//! `docs/spec` does not have is worth nothing, and neither is a link to a file or a heading that is not there.
//!
//! A citation is the word `spec`, a page of `docs/spec` and at least one number of that page, with `,`, `and` or `to`
//! between several. It may go over the end of a line. A page has the numbers of its headings; the items of lists and
//! the rows of tables have the number of their section before their own, so 9.18 is item or row 18 of section 9. Rows
//! with an id, such as `P-12`, are cited by it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Folder of the pages of the specification.
const SPECIFICATION: &str = "docs/spec";

/// Extensions of the files that are read.
const TEXT: &[&str] = &["md", "py", "rs", "scn", "sh", "tf", "toml", "yaml"];

/// Beginnings of comment lines.
const MARKS: &[&str] = &["//!", "///", "//", "#"];

/// The numbers of each page, by its name.
type Pages = BTreeMap<String, BTreeSet<String>>;

/// Checks every text file below `root` that git has or would take.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let pages = pages(&root.join(SPECIFICATION))?;
    let mut violations = Vec::new();
    for name in files(root)? {
        let text = read(&root.join(&name))?;
        let mut found = dead_citations(&text, &pages);
        if is_page(&name) {
            found.extend(dead_links(&root.join(&name), &text)?);
        }
        violations.extend(found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", name.display())));
    }
    Ok(violations)
}

fn pages(folder: &Path) -> Result<Pages> {
    let mut pages = Pages::new();
    for path in super::files::with_extension(folder, "md")? {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        pages.insert(name, numbers(&read(&path)?));
    }
    Ok(pages)
}

/// Files that are not ignored. One that is deleted is listed until the deletion is committed.
pub(super) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot run `git ls-files`")?;
    if !output.status.success() {
        bail!("`git ls-files` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let listing = String::from_utf8_lossy(&output.stdout);
    let names = listing.split('\0').map(PathBuf::from);
    let is_text = |name: &PathBuf| {
        name.extension().and_then(OsStr::to_str).is_some_and(|extension| TEXT.contains(&extension))
    };
    Ok(names.filter(is_text).filter(|name| root.join(name).is_file()).collect())
}

pub(super) fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

/// Citations in `text` of what `pages` do not have, with their lines.
fn dead_citations(text: &str, pages: &Pages) -> Vec<(usize, String)> {
    let words = words(text);
    let mut found = Vec::new();
    for (at, (line, word)) in words.iter().enumerate() {
        let word = word.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        let Some((_, page)) = words.get(at + 1).filter(|_| matches!(word, "spec" | "Spec")) else { continue };
        if let Some((number, _)) = number(page) {
            found.push((*line, format!("`spec {number}` does not say of which page")));
        }
        if !page.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-') {
            continue;
        }
        for number in cited(&words[at + 2..]) {
            match pages.get(*page) {
                None => found.push((*line, format!("there is no page `{SPECIFICATION}/{page}.md`"))),
                Some(numbers) if !numbers.contains(number) => {
                    found.push((*line, format!("`{SPECIFICATION}/{page}.md` has no {number}")));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// The words of `text` with their lines, without the marks that comment lines begin with.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let words = line.split_whitespace().enumerate();
        let words = words.filter(|(at, word)| *at > 0 || !MARKS.contains(word));
        found.extend(words.map(|(_, word)| (number, word)));
    }
    found
}

/// The numbers that `words` begin with.
fn cited<'a>(words: &[(usize, &'a str)]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut words = words.iter().map(|(_, word)| *word).peekable();
    let mut goes_on = true;
    while goes_on && let Some((number, rest)) = words.next().and_then(number) {
        found.push(number);
        let is_joined = rest.is_empty() || rest == ",";
        let joined = words.next_if(|word| is_joined && matches!(*word, "and" | "to"));
        goes_on = joined.is_some() || rest == ",";
    }
    found
}

/// A number such as `18.4` or an id such as `P-12` at the beginning of `word`, and what follows it there.
fn number(word: &str) -> Option<(&str, &str)> {
    let id = word.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    let digits = id.and_then(|id| id.strip_prefix('-')).unwrap_or(word);
    let rest = digits.trim_start_matches(|letter: char| letter == '.' || letter.is_ascii_digit());
    let number = word[..word.len() - rest.len()].trim_end_matches('.');
    let rest = &word[number.len()..];
    let is_number = digits.starts_with(|letter: char| letter.is_ascii_digit())
        && !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '%');
    is_number.then_some((number, rest))
}

/// Every number that can be cited of a page of the specification with `text`.
fn numbers(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut section = None;
    for (_, line) in prose(text) {
        if let Some(title) = heading(line) {
            section = title.split_whitespace().next().and_then(number).map(|(number, _)| number);
            found.extend(section.map(str::to_owned));
        } else if let (Some(section), Some(entry)) = (section, entry(line)) {
            let is_id = entry.starts_with(|letter: char| letter.is_ascii_uppercase());
            found.insert(if is_id { entry.to_owned() } else { format!("{section}.{entry}") });
        }
    }
    found
}

/// The number that begins an item of a list, or the first cell of a row.
fn entry(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let first = match line.strip_prefix("| ") {
        Some(row) => row.split(" |").next()?,
        None => line.split_once(". ")?.0,
    };
    number(first).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// The lines of a Markdown page that are not code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    let lines = text.lines().zip(1..).filter(move |(line, _)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    lines.map(|(line, number)| (number, line))
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
}

/// Links of the page at `path` with `text` to files and headings that are not there, with their lines.
fn dead_links(path: &Path, text: &str) -> Result<Vec<(usize, String)>> {
    let mut found = Vec::new();
    for (line, target) in links(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
        let file = if file.is_empty() { path.to_owned() } else { path.with_file_name(file) };
        if !file.exists() {
            found.push((line, format!("the link `{target}` leads nowhere")));
        } else if !anchor.is_empty() && is_page(&file) && !anchors(&read(&file)?).contains(anchor) {
            found.push((line, format!("the link `{target}` leads to no heading")));
        }
    }
    Ok(found)
}

/// Targets of the links within the repository, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line: String = line.split('`').step_by(2).collect();
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let targets = targets.filter(|target| !target.contains(':'));
        found.extend(targets.map(|target| (number, target.to_owned())));
    }
    found
}

/// Returns the anchors that GitHub makes of the headings of a page: a title that was there before gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let anchor = |title: &str| {
        let anchor = slug(title);
        let before = times.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    };
    prose(text).filter_map(|(_, line)| heading(line)).map(anchor).collect()
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase().replace(' ', "-");
    lower.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_')).collect()
}

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Wiring\n\n1. before any section\n\n## 1. First\n\n### 1.2 Deeper\n\n1. one\n2. two\n\n\
        ## 2 Rows\n\n| # | what |\n|---|---|\n| 7 | seven |\n| P-3 | three |\n";

    #[test]
    fn headings_items_and_rows_have_numbers() {
        let expected = ["1", "1.2", "1.2.1", "1.2.2", "2", "2.7", "P-3"].map(str::to_owned);
        assert_eq!(numbers(PAGE), BTreeSet::from(expected));
    }

    #[test]
    fn numbers_end_where_the_citation_does() {
        for (text, expected) in [
            ("18.4)", &["18.4"][..]),
            ("18.4. The", &["18.4"]),
            ("5, 24).", &["5", "24"]),
            ("3.15, 6 and 7).", &["3.15", "6", "7"]),
            ("1.14, P-2 and P-3", &["1.14", "P-2", "P-3"]),
            ("1.1 to 1.10)", &["1.1", "1.10"]),
            ("3.9 and more", &["3.9"]),
            ("5.8 15 s later", &["5.8"]),
            ("5.8, 15s", &["5.8"]),
            ("100% of", &[]),
            ("or so", &[]),
        ] {
            assert_eq!(cited(&words(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_a_page_does_not_have_is_reported_with_its_line() {
        let pages = Pages::from([("wiring".to_owned(), numbers(PAGE))]);
        for (text, expected) in [
            ("fine (cite wiring 1.2)", &[][..]),
            ("//! over the end (cite\n//! wiring 1.2, P-3).", &[]),
            ("Cite wiring 1.2, 2.8:", &[(1, "`docs/spec/wiring.md` has no 2.8")]),
            ("\n/// (cite wiring\n/// 9)", &[(2, "`docs/spec/wiring.md` has no 9")]),
            ("cite plumbing 1", &[(1, "there is no page `docs/spec/plumbing.md`")]),
            ("see `cite 1.2`", &[(1, "`cite 1.2` does not say of which page")]),
            ("cite: wiring 9, to cite (wiring 9)", &[]),
        ] {
            // Written with another word, so that this file does not cite what is not there.
            let real = |text: &str| text.replace("cite", "spec").replace("Cite", "Spec");
            let expected: Vec<_> = expected.iter().map(|(line, what)| (*line, real(what))).collect();
            assert_eq!(dead_citations(&real(text), &pages), expected, "{text}");
        }
    }

    #[test]
    fn links_are_those_outside_code_to_this_repository() {
        let page = "[a](b.md#c) and [`d`](e/)\n```\n[x](y)\n```\n`[x](y)` [web](https://example.com) [f](#g)";
        let expected = [(1, "b.md#c"), (1, "e/"), (5, "#g")].map(|(line, link)| (line, link.to_owned()));
        assert_eq!(links(page), expected);
    }

    #[test]
    fn anchors_are_spelt_as_github_spells_them() {
        let page = "# Rights, `all` of them\n## 3.4 Budgets (a/b)\n## Twice\n## Twice\n```\n# comment\n```\n";
        let expected = ["34-budgets-ab", "rights-all-of-them", "twice", "twice-1"].map(str::to_owned);
        assert_eq!(anchors(page), BTreeSet::from(expected));
    }
}
