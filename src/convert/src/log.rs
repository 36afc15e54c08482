//! Log of the conversion of one object.
//!
//! Readers of fields hold a shared reference to the log, because they nest; it is only ever appended to.

use std::cell::RefCell;

use schemars::JsonSchema;
use serde::Serialize;

/// Outcome for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It has an equal, which is named.
    Mapped,
    /// It was not there; what the old version took for granted is written out.
    Added,
    /// Nothing is lost, but there is something to know.
    Noted,
    /// A fault of the text that `--fix` corrected.
    Fixed,
    /// It is converted as far as possible; a person has to look at it.
    Decide,
    /// It has no equal: what it asked for does not happen.
    Dropped,
    /// The object is not converted.
    Refused,
    /// The text is no manifest, as far as this can be said; nothing is converted.
    Faulty,
}

impl Kind {
    /// The word in the report.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Added => "added",
            Self::Noted => "noted",
            Self::Fixed => "fixed",
            Self::Decide => "decide",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
            Self::Faulty => "faulty",
        }
    }
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Entry {
    pub kind: Kind,
    /// Path in the object as it was read; empty when it is about the whole object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Line in the file; `None` for what is not in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Place in v1 or reason why there is none, and what to do.
    pub text: String,
}

/// Collects entries.
#[derive(Debug, Default)]
pub(crate) struct Log(RefCell<Vec<Entry>>);

impl Log {
    /// About a field that is in the text.
    pub(crate) fn at(&self, kind: Kind, field: &str, line: usize, text: impl Into<String>) {
        let entry = Entry { kind, field: field.to_owned(), line: Some(line), text: text.into() };
        self.0.borrow_mut().push(entry);
    }

    /// About something that is not in the text.
    pub(crate) fn say(&self, kind: Kind, field: &str, text: impl Into<String>) {
        let entry = Entry { kind, field: field.to_owned(), line: None, text: text.into() };
        self.0.borrow_mut().push(entry);
    }

    /// Returns whether the object was refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.borrow().iter().any(|entry| entry.kind == Kind::Refused)
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.0.into_inner()
    }
}
