//! Report on each object, as text for people and as JSON for tools, and the exit code that follows from it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::log::{Entry, Kind};

/// Name, in the report, of a text as a whole, for entries that are not about an object in it.
pub(crate) const DOCUMENT: &str = "document";

/// Report on one object of the input.
#[derive(Clone, Debug, Serialize)]
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
    pub fn json(&self) -> String {
        let counts: serde_json::Map<String, Value> =
            KINDS.iter().map(|kind| (kind.as_str().to_owned(), json!(self.count(*kind)))).collect();
        json!({"objects": self.objects, "summary": counts, "exitCode": self.exit_code()}).to_string()
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
