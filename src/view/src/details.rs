//! Data of a page that are not followed but requested while the page is open: events, and the controller's explanation.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::PodKey;

/// Subject of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A machine: its node, its claim, or both.
    Machine {
        /// Name of the node.
        node: Option<Arc<str>>,
        /// Name of the claim.
        claim: Option<Arc<str>>,
    },
    Pod(PodKey),
}

impl Subject {
    /// Returns the name that `karpenter explain` takes: the node rather than its claim.
    pub(crate) fn question(&self) -> String {
        match self {
            Self::Machine { node: Some(node), .. } => format!("node/{node}"),
            Self::Machine { claim, .. } => format!("nodeclaim/{}", claim.as_deref().unwrap_or_default()),
            Self::Pod(key) => format!("pod/{key}"),
        }
    }
}

/// Something that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    /// There is no answer yet.
    Asking,
    Is(T),
    /// Reason why there is none.
    Not(String),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    /// Time when it was last seen.
    pub at: Timestamp,
    /// Number of times it was seen.
    pub count: i32,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// Data requested about a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// Subject of the data.
    pub subject: Subject,
    /// Events of the subject, the latest first.
    pub events: Found<Vec<EventFacts>>,
    /// Explanation of the controller.
    pub explained: Found<String>,
}

impl Details {
    /// Details about `subject` while nothing is known yet.
    pub(crate) fn asking(subject: Subject) -> Self {
        Self { subject, events: Found::Asking, explained: Found::Asking }
    }
}
