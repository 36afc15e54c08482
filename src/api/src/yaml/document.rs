//! The documents of a file, cut so that putting them together again gives the same bytes.
//!
//! Documents that need no conversion are passed on as they were written, with comments and order of fields.

use std::borrow::Cow;

/// One document of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document<'t> {
    /// The marker before it, with its end of line; empty for the first document of most files.
    pub marker: &'t str,
    /// The document without its marker.
    pub text: Cow<'t, str>,
    /// Lines of the file above `text`.
    pub lines_before: usize,
}

/// The documents of a text. A marker stands at the beginning of a line, where no value of several lines reaches.
pub fn split(text: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut marker, mut start, mut lines_before) = (0..0, 0, 0);
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(length) = marker_length(line) {
            if at > 0 {
                documents.push(Document {
                    marker: &text[marker],
                    text: text[start..at].into(),
                    lines_before,
                });
            }
            marker = at..at + length;
            start = at + length;
            // Content behind the marker is on the marker's line.
            lines_before = if length == line.len() { index + 1 } else { index };
        }
        at += line.len();
    }
    documents.push(Document { marker: &text[marker], text: text[start..].into(), lines_before });
    documents
}

/// Returns the length of the marker in a line: all of it, unless content follows.
fn marker_length(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("---")?;
    if !rest.is_empty() && !rest.starts_with(|first: char| first.is_whitespace() || first == '#') {
        return None;
    }
    let content = rest.trim();
    if content.is_empty() || content.starts_with('#') {
        return Some(line.len());
    }
    Some(line.len() - rest.trim_start().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_together_are_the_file() {
        for text in [
            "",
            "a: 1\n",
            "---\na: 1\n---\nb: 2",
            "# c\n---\n--- # d\na: |\n  ---\n  x\n",
            "--- {a: 1}\n---x\n---# e\nb: 2\n",
        ] {
            let again: String =
                split(text).iter().map(|document| format!("{}{}", document.marker, document.text)).collect();
            assert_eq!(again, text);
        }
    }

    #[test]
    fn documents_know_where_they_begin() {
        let text = "a: 1\n---\nb: 2\n--- {c: 3}\n";
        let documents = split(text);
        let found: Vec<_> =
            documents.iter().map(|document| (document.text.as_ref(), document.lines_before)).collect();
        assert_eq!(found, [("a: 1\n", 0), ("b: 2\n", 2), ("{c: 3}\n", 3)]);
    }
}
