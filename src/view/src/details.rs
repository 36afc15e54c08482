//! Data of a page that are not followed but requested while the page is open: events and the controller's explanation, the plan,
//! an object as it is stored.

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
    /// The objects behind another subject.
    Stored(Box<Self>),
    /// The plan of the whole cluster.
    Plan,
}

impl Subject {
    /// Returns the name that `karpenter explain` takes: the node rather than its claim. There is none for what the controller
    /// is not asked about.
    pub(crate) fn question(&self) -> Option<String> {
        match self {
            Self::Machine { node: Some(node), .. } => Some(format!("node/{node}")),
            Self::Machine { claim, .. } => Some(format!("nodeclaim/{}", claim.as_deref()?)),
            Self::Pod(key) => Some(format!("pod/{key}")),
            Self::Stored(_) | Self::Plan => None,
        }
    }

    /// Returns the objects of the subject: version, kind, namespace and name.
    pub(crate) fn objects(&self) -> Vec<(&'static str, &'static str, Option<&str>, &str)> {
        match self {
            Self::Machine { node, claim } => {
                let node = node.as_deref().map(|name| ("v1", "Node", None, name));
                let claim = claim.as_deref().map(|name| ("karpenter.sh/v1", "NodeClaim", None, name));
                node.into_iter().chain(claim).collect()
            }
            Self::Pod(key) => vec![("v1", "Pod", Some(key.namespace.as_str()), key.name.as_str())],
            Self::Stored(of) => of.objects(),
            Self::Plan => Vec::new(),
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
    /// Explanation of the controller; the plan, or the objects, if the subject is one of these.
    pub explained: Found<String>,
}

impl Details {
    /// Details about `subject` while nothing is known yet.
    pub(crate) fn asking(subject: Subject) -> Self {
        Self { subject, events: Found::Asking, explained: Found::Asking }
    }
}
