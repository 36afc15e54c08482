//! Faults of texts that were copied from a page: what is wrong in which line, and the text without them.
//!
//! Printed manifests lose indentation, gain tabs and typographic quotes, and have label keys with blanks. Only what has
//! one meaning is corrected: a field is moved if there is exactly one open place for it. A text without such faults stays
//! as it is.

mod layout;
mod places;

use karpenter_api::yaml::{Data, Node};

/// Fault in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Counted from 1 in the document.
    pub(crate) line: usize,
    /// Description of the fault, and what would be right.
    pub(crate) text: String,
}

/// A text and the faults that it does not have any more.
pub(crate) struct Repaired {
    pub(crate) text: String,
    pub(crate) faults: Vec<Fault>,
    /// Fault that has no single correction and must be corrected by a person.
    pub(crate) unclear: Option<Fault>,
}

/// Corrects a document of a kind whose fields are known here; others have no faults.
pub(crate) fn repair(text: &str) -> Repaired {
    let mut repaired = Repaired { text: text.to_owned(), faults: Vec::new(), unclear: None };
    let Some(place) = text.lines().find_map(places::of_kind) else { return repaired };
    // In a text that can be read, tabs and quotes are part of values.
    let is_read = is_well_formed(text);
    let fix = |(at, line)| letters(at + 1, line, is_read, &mut repaired.faults);
    let lines: Vec<String> = text.lines().enumerate().map(fix).collect();
    if !repaired.faults.is_empty() {
        repaired.text = joined(&lines, text);
    }
    if is_well_formed(&repaired.text) {
        return repaired;
    }
    match layout::arrange(&lines, place) {
        Ok((lines, faults)) if is_well_formed(&joined(&lines, text)) => {
            repaired.text = joined(&lines, text);
            repaired.faults.extend(faults);
            repaired.faults.sort_by_key(|fault| fault.line);
        }
        Ok(_) => {}
        Err(unclear) => repaired.unclear = Some(unclear),
    }
    repaired
}

/// Returns whether the text is YAML and its first fields are those of an object.
fn is_well_formed(text: &str) -> bool {
    let Ok(Some(node)) = Node::parse(text, 0) else { return false };
    let Data::Map(fields) = &node.data else { return false };
    let is_outer = |name: &str| ["apiVersion", "kind", "metadata", "spec", "status"].contains(&name);
    let is_open = |name: &str| fields.iter().any(|(key, node)| key == name && node.is_null());
    let strays = fields.iter().any(|(key, _)| !is_outer(key));
    !(strays && (is_open("metadata") || is_open("spec")))
}

/// The line without letters that only a page has; of a text that can be read, only label keys without blanks.
fn letters(at: usize, line: &str, is_read: bool, faults: &mut Vec<Fault>) -> String {
    let mut fixed = line.to_owned();
    let mut found = |text: String| faults.push(Fault { line: at, text });
    if !is_read {
        if fixed.contains('\u{a0}') {
            fixed = fixed.replace('\u{a0}', " ");
            found("has blanks that do not break lines, as pages have them; use spaces".to_owned());
        }
        let depth = fixed.len() - fixed.trim_start().len();
        if fixed[..depth].contains('\t') {
            fixed = format!("{}{}", fixed[..depth].replace('\t', "  "), &fixed[depth..]);
            found("is indented with a tab; use spaces".to_owned());
        }
        let straight = fixed.replace(['\u{201c}', '\u{201d}'], "\"").replace(['\u{2018}', '\u{2019}'], "'");
        if straight != fixed && !fixed.trim_start().starts_with('#') {
            fixed = straight;
            found("has typographic quotes; use straight ones".to_owned());
        }
    }
    let content = fixed.trim_start().trim_start_matches("- ");
    if !content.starts_with("key:") && !content.starts_with(['"', '\'']) {
        return fixed;
    }
    for (start, quoted) in quoted(&fixed).into_iter().rev() {
        let name = quoted.trim();
        if name != quoted && is_label(name) {
            found(format!("label key \"{quoted}\" has a blank at its beginning or end; write \"{name}\""));
            fixed.replace_range(start..start + quoted.len(), name);
        }
    }
    fixed
}

/// Texts in quotes with the place of their first letter.
fn quoted(line: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(open) = line[rest..].find(['"', '\'']).map(|at| rest + at) {
        let quote = &line[open..=open];
        let Some(length) = line[open + 1..].find(quote) else { break };
        found.push((open + 1, line[open + 1..open + 1 + length].to_owned()));
        rest = open + length + 2;
    }
    found
}

/// A label key with a domain, in which no blank can be.
fn is_label(name: &str) -> bool {
    name.split_once('/').is_some_and(|(domain, name)| {
        let fits = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        };
        fits(domain) && fits(name)
    })
}

fn joined(lines: &[String], original: &str) -> String {
    let end = if original.ends_with('\n') { "\n" } else { "" };
    lines.join("\n") + end
}
