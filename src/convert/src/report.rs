//! Report on each object, as text for people and as JSON for tools, and the exit code that follows from it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::log::{Entry, Kind};

/// Name, in the report, of a text as a whole, for entries that are not about an object in it.
pub(crate) const DOCUMENT: &str = "document";

/// Report on one object of the input.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ObjectReport {
    /// File and line where the object begins.
    pub source: String,
    /// Kind and name as they were read.
    pub from: String,
    /// Kinds and names of what was made of it; empty if it was refused or passed on.
    pub to: Vec<String>,
    pub entries: Vec<Entry>,
}

/// Report on the input.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub objects: Vec<ObjectReport>,
}

/// A report for tools.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counted<'a> {
    objects: &'a [ObjectReport],
    /// Number of entries of each kind.
    summary: BTreeMap<&'static str, usize>,
    /// Exit code of the command: 0 without loss, 1 text that could not be read, 2 something dropped or refused, 3 decisions
    /// to make.
    exit_code: u8,
}

impl Report {
    /// 0 without loss, 1 text that could not be read, 2 something dropped or refused, 3 decisions to make.
    pub fn exit_code(&self) -> u8 {
        match self.worst() {
            Some(Kind::Faulty) => 1,
            Some(Kind::Dropped | Kind::Refused) => 2,
            Some(Kind::Decide) => 3,
            _ => 0,
        }
    }

    /// Returns whether there was text that could not be read.
    pub(crate) fn is_faulty(&self) -> bool {
        self.worst() == Some(Kind::Faulty)
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for object in self.objects.iter().filter(|object| !object.entries.is_empty()) {
            let to =
                if object.to.is_empty() { String::new() } else { format!(" -> {}", object.to.join(", ")) };
            text.push_str(&format!("{} {}{to}\n", object.source, object.from));
            for Entry { kind, field, line, text: said } in &object.entries {
                let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                let place =
                    if field.is_empty() { line.trim_start().to_owned() } else { format!("{field}{line}") };
                let place = if place.is_empty() { place } else { format!("{place} ") };
                let colon = if said.starts_with("->") { "" } else { ": " };
                let place = if place.is_empty() { place } else { format!("{}{colon}", place.trim_end()) };
                let gap = if colon.is_empty() && !place.is_empty() { " " } else { "" };
                text.push_str(&format!("  {:<8}{place}{gap}{said}\n", kind.as_str()));
            }
        }
        text + &self.summary() + "\n"
    }

    /// The report for tools.
    pub fn counted(&self) -> Counted<'_> {
        let summary = KINDS.iter().map(|kind| (kind.as_str(), self.count(*kind))).collect();
        Counted { objects: &self.objects, summary, exit_code: self.exit_code() }
    }

    fn summary(&self) -> String {
        let objects = || self.objects.iter().filter(|object| object.from != DOCUMENT);
        let converted = objects().filter(|object| !object.to.is_empty()).count();
        let of = |kind| self.count(kind);
        format!(
            "{converted} of {} objects converted; to decide: {}, dropped: {}, refused: {}, faulty: {}",
            objects().count(),
            of(Kind::Decide),
            of(Kind::Dropped),
            of(Kind::Refused),
            of(Kind::Faulty),
        )
    }

    fn count(&self, kind: Kind) -> usize {
        self.entries().filter(|entry| entry.kind == kind).count()
    }

    fn worst(&self) -> Option<Kind> {
        self.entries().map(|entry| entry.kind).max()
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.objects.iter().flat_map(|object| object.entries.iter())
    }
}

/// All kinds, from harmless to bad; the order of the enumeration decides which is the worst.
const KINDS: [Kind; 8] = [
    Kind::Mapped,
    Kind::Added,
    Kind::Noted,
    Kind::Fixed,
    Kind::Decide,
    Kind::Dropped,
    Kind::Refused,
    Kind::Faulty,
];
