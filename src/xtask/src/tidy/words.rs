//! One word per thing: the phrases that `docs/style.md` lists as not used are in no prose.
//!
//! Prose is what people read: pages, comments, and the texts in quotes that become events, logs, errors and help. Names in
//! code are no prose, and neither is what stands between backticks.

use std::path::Path;

use anyhow::Result;

use super::references;

/// The page with the table of phrases.
const STYLE: &str = "docs/style.md";
/// The heading of the table.
const HEADING: &str = "## Words that are not used";
/// Folders in which the words are refused, together with the pages beside them.
const FOLDERS: &[&str] = &["src", "e2e", "docs", "charts", "terraform", "cloudformation", "scripts"];

/// Checks every text file below `root` that git has or would take.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let style = references::read(&root.join(STYLE))?;
    let phrases = phrases(&style);
    let mut violations = Vec::new();
    for name in references::files(root)? {
        let is_page = name.components().count() == 1 && references::is_page(&name);
        if name == Path::new(STYLE) || !(is_page || FOLDERS.iter().any(|folder| name.starts_with(folder))) {
            continue;
        }
        let text = references::read(&root.join(&name))?;
        let prose = if name.extension().is_some_and(|end| end == "rs") { prose_of_rust(&text) } else { text };
        for (line, phrase) in found(&prose, &phrases) {
            violations
                .push(format!("{}:{line}: `{phrase}` is a word of {STYLE} that is not used", name.display()));
        }
    }
    Ok(violations)
}

/// The phrases in the first column of the table, as lists of words.
fn phrases(style: &str) -> Vec<Vec<String>> {
    let table = style.split_once(HEADING).map(|(_, table)| table).unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let phrases = cells.flat_map(|cell| cell.split('`').step_by(2));
    phrases.map(|phrase| phrase.split_whitespace().map(str::to_lowercase).collect()).collect()
}

/// Returns the places where `prose` has one of the `phrases`, which may go over the end of a line.
fn found(prose: &str, phrases: &[Vec<String>]) -> Vec<(usize, String)> {
    let words = words(prose);
    let mut found = Vec::new();
    for at in 0..words.len() {
        let rest = &words[at..];
        let matching = phrases.iter().filter(|phrase| {
            phrase.len() <= rest.len() && phrase.iter().zip(rest).all(|(word, (_, there))| word == there)
        });
        found.extend(matching.map(|phrase| (rest[0].0, phrase.join(" "))));
    }
    found
}

/// The words of `prose` in lower case with their lines, without names: what is between backticks, or alone between
/// quotes, brackets or braces, and the beginning of an id such as `node-{}`.
fn words(prose: &str) -> Vec<(usize, String)> {
    // A name such as `jar_of` or `shape.rs` is one word and another than its parts.
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '\'' | '/');
    let mut found = Vec::new();
    for (line, number) in prose.lines().zip(1..) {
        for text in line.split('`').step_by(2) {
            let mut rest = text;
            while let Some(begin) = rest.find(is_part) {
                let length = rest[begin..].find(|letter| !is_part(letter)).unwrap_or(rest.len() - begin);
                let (before, (word, after)) = (&rest[..begin], rest[begin..].split_at(length));
                let is_alone = before.ends_with(['"', '[', '{']) && after.starts_with(['"', ']', '}', ':']);
                let is_name = is_alone || word.ends_with('-');
                let word = word.trim_matches(['-', '\'', '/']);
                if !word.is_empty() {
                    found.push((number, if is_name { String::new() } else { word.to_lowercase() }));
                }
                rest = after;
            }
        }
    }
    found
}

/// Comments and texts in quotes; everything else is blank. Lines stay where they are.
fn prose_of_rust(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (kept, length) = if rest.starts_with("//") {
            (true, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(quote) = raw_quote(rest, &prose) {
            let end = format!("\"{}", "#".repeat(quote));
            let start = quote + 2;
            (true, rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len()))
        } else if letter == '"' {
            (true, end_of_text(rest))
        } else if let Some(length) = character(rest) {
            (false, length)
        } else {
            (false, letter.len_utf8())
        };
        let (taken, behind) = rest.split_at(length);
        if kept {
            prose.push_str(taken);
        } else {
            prose.extend(taken.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        }
        rest = behind;
    }
    prose
}

/// Returns the number of `#` of the raw text that begins here; `None` if no raw text begins here.
fn raw_quote(rest: &str, before: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?;
    let quote = hashes.trim_start_matches('#');
    // `r` may also end a name, which prose has as blanks.
    let begins = before.ends_with(|letter: char| letter.is_whitespace()) || before.is_empty();
    (begins && quote.starts_with('"')).then_some(hashes.len() - quote.len())
}

/// Returns the end of the text in quotes that begins `rest`.
fn end_of_text(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of the character in quotes that begins `rest`; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    if let Some(escaped) = inside.strip_prefix('\\') {
        return escaped.char_indices().skip(1).find(|(_, letter)| *letter == '\'').map(|(at, _)| at + 3);
    }
    let letter = inside.chars().next()?;
    inside[letter.len_utf8()..].starts_with('\'').then(|| letter.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: &str =
        "## Words that are not used\n\n| not | but |\n|---|---|\n| `jar`, `told apart` | x |\n";

    fn lines(text: &str) -> Vec<usize> {
        found(&prose_of_rust(text), &phrases(STYLE)).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn comments_and_texts_are_read_and_names_are_not() {
        for (text, expected) in [
            ("// one Jar.", vec![1]),
            ("let jar = 1;\nlet x = \"\\\"a jar\";", vec![2]),
            ("let x = r#\"\nthe jar\n\"#;\nlet jar = 1;", vec![2]),
            ("let x = '\"'; let jar = '\\''; // `jar` and ajar and jar_of", vec![]),
            ("let jar = \"jar\"; // [jar] {jar}", vec![]),
            ("fn f<'a>(jar: &'a str) {} // told\n// apart", vec![1]),
            ("// told, it may be apart", vec![]),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
    }
}
