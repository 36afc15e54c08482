//! What a page shows that is not followed but asked for while the page is open: events, and the controller's answer.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::PodKey;

/// What a page is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A machine: its node, its claim, or both.
    Machine {
        /// Name of the node.
        node: Option<Arc<str>>,
        /// Name of the claim.
        claim: Option<Arc<str>>,
    },
    /// A pod.
    Pod(PodKey),
}

impl Subject {
    /// How `karpenter explain` calls it: the node rather than its claim.
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
    /// The answer.
    Is(T),
    /// Why there is none.
    Not(String),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    /// When it was last seen.
    pub at: Timestamp,
    /// How often.
    pub count: i32,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What was asked for about a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Details {
    /// What it is about.
    pub subject: Subject,
    /// Its events, the latest first.
    pub events: Found<Vec<EventFacts>>,
    /// What the controller says.
    pub explained: Found<String>,
}

impl Details {
    /// Nothing is known about `subject` yet.
    pub(crate) fn asking(subject: Subject) -> Self {
        Self { subject, events: Found::Asking, explained: Found::Asking }
    }
}
