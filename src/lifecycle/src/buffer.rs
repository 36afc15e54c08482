//! Capacity buffers: the room one asks for, the virtual pods that stand for it, and its conditions
//! (spec scheduling 23).
//!
//! A buffer names a pod template or a workload; the caller fetches that object and passes what it found.
//! Virtual pods take part in plans like pods that wait, and exist nowhere else.

mod provisioning;
mod replicas;
mod room;

use std::time::Duration;

use karpenter_model::names::reason;
use karpenter_model::{Buffer, ConditionStatus, Like, Pod};

pub use provisioning::{Tally, provisioning};
pub use replicas::replicas;
pub use room::pods;

use crate::step::ConditionValue;

/// Period between looks at a buffer without an event: its workload may have been scaled.
pub const PERIOD: Duration = Duration::from_secs(30);
/// Delay of the next look after another client wrote its status.
pub const CONFLICT_PERIOD: Duration = Duration::from_secs(1);

/// The object that defines the pods of a buffer, in the namespace of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    PodTemplate(&'a str),
    /// A `Deployment` of `apps`.
    Deployment(&'a str),
    /// A `StatefulSet` of `apps`.
    StatefulSet(&'a str),
    /// A `ReplicaSet` of `apps`.
    ReplicaSet(&'a str),
}

/// Pods that the object of a buffer describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// Pod that the object would create.
    pub pod: Pod,
    /// Number of its replicas; a pod template has none.
    pub replicas: Option<u32>,
}

/// Reason why the pods of a buffer cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error("neither `podTemplateRef` nor `scalableRef` is set; name one of them")]
    NoReference,
    #[error(
        "`{kind}` of group `{group}` is not supported; name a Deployment, StatefulSet or ReplicaSet of `apps`"
    )]
    Unsupported { group: String, kind: String },
    #[error("PodTemplate `{0}` does not exist in the namespace of the buffer")]
    NoPodTemplate(String),
    #[error("{0} does not exist in the namespace of the buffer")]
    NoWorkload(String),
    #[error("ResourceClaimTemplate `{0}` does not exist in the namespace of the buffer")]
    NoClaimTemplate(String),
    #[error("{0}")]
    Unreadable(String),
}

impl Unresolved {
    /// Value of the condition `ReadyForProvisioning`.
    pub fn verdict(&self) -> ConditionValue {
        let reason = match self {
            Self::NoPodTemplate(_) => reason::POD_TEMPLATE_NOT_FOUND,
            Self::NoWorkload(_) => reason::SCALABLE_REF_NOT_FOUND,
            Self::NoReference | Self::Unsupported { .. } | Self::NoClaimTemplate(_) | Self::Unreadable(_) => {
                reason::RESOLUTION_FAILED
            }
        };
        verdict(ConditionStatus::False, reason, self.to_string())
    }

    /// Returns whether it is tried again with a growing delay instead of every [`PERIOD`].
    pub fn backs_off(&self) -> bool {
        // A missing object is looked for at the period, because it may be created at any time; the reference
        // returns an error, and with it backs off, for these two only (spec scheduling 23).
        matches!(self, Self::Unsupported { .. } | Self::Unreadable(_))
    }
}

/// Returns the object that `buffer` refers to.
pub fn source(buffer: &Buffer) -> Result<Source<'_>, Unresolved> {
    let (group, kind, name) = match &buffer.like {
        None => return Err(Unresolved::NoReference),
        Some(Like::PodTemplate(name)) => return Ok(Source::PodTemplate(name)),
        Some(Like::Workload { group, kind, name }) => (group.as_str(), kind.as_str(), name),
    };
    match (group, kind) {
        // An empty group means `apps` in a `scalableRef` (spec scheduling 6).
        ("" | "apps", "Deployment") => Ok(Source::Deployment(name)),
        ("" | "apps", "StatefulSet") => Ok(Source::StatefulSet(name)),
        ("" | "apps", "ReplicaSet") => Ok(Source::ReplicaSet(name)),
        _ => Err(Unresolved::Unsupported { group: group.to_owned(), kind: kind.to_owned() }),
    }
}

impl<'a> Source<'a> {
    /// Kind and name of the object.
    pub const fn named(self) -> (&'static str, &'a str) {
        match self {
            Self::PodTemplate(name) => ("PodTemplate", name),
            Self::Deployment(name) => ("Deployment", name),
            Self::StatefulSet(name) => ("StatefulSet", name),
            Self::ReplicaSet(name) => ("ReplicaSet", name),
        }
    }

    /// Returns the reason for a buffer whose object does not exist.
    pub fn missing(self) -> Unresolved {
        match self.named() {
            ("PodTemplate", name) => Unresolved::NoPodTemplate(name.to_owned()),
            (kind, name) => Unresolved::NoWorkload(format!("{kind} `{name}`")),
        }
    }
}

/// Value of the condition `ReadyForProvisioning` for a buffer whose reference was followed.
pub fn resolved() -> ConditionValue {
    verdict(ConditionStatus::True, "Resolved", String::new())
}

fn verdict(status: ConditionStatus, reason: &str, message: String) -> ConditionValue {
    ConditionValue { status, reason: reason.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use karpenter_model::BufferKey;

    use super::*;

    fn buffer(like: Option<Like>) -> Buffer {
        let key = BufferKey::new("shop", "spare");
        Buffer { key, uid: "u".into(), like, replicas: None, percentage: None, limits: None }
    }

    fn workload(group: &str, kind: &str) -> Like {
        Like::Workload { group: group.into(), kind: kind.into(), name: "web".into() }
    }

    #[test]
    fn templates_and_three_workloads_of_apps_are_followed() {
        let template = Like::PodTemplate("web".into());
        let table = [
            (template, Source::PodTemplate("web")),
            (workload("", "Deployment"), Source::Deployment("web")),
            (workload("apps", "Deployment"), Source::Deployment("web")),
            (workload("apps", "StatefulSet"), Source::StatefulSet("web")),
            (workload("", "ReplicaSet"), Source::ReplicaSet("web")),
        ];
        for (like, expected) in table {
            assert_eq!(source(&buffer(Some(like))), Ok(expected));
        }
    }

    #[test]
    fn every_situation_has_its_reason_and_its_pace() {
        let unsupported = |group, kind| source(&buffer(Some(workload(group, kind)))).unwrap_err();
        let table = [
            (source(&buffer(None)).unwrap_err(), "ResolutionFailed", false),
            (Source::PodTemplate("web").missing(), "PodTemplateNotFound", false),
            (Source::Deployment("web").missing(), "ScalableRefNotFound", false),
            (Source::StatefulSet("web").missing(), "ScalableRefNotFound", false),
            (unsupported("batch", "Job"), "ResolutionFailed", true),
            (unsupported("extensions", "Deployment"), "ResolutionFailed", true),
            (unsupported("apps", "DaemonSet"), "ResolutionFailed", true),
            (Unresolved::Unreadable("no".into()), "ResolutionFailed", true),
        ];
        for (unresolved, reason, backs_off) in table {
            let verdict = unresolved.verdict();
            assert_eq!((verdict.status, verdict.reason.as_str()), (ConditionStatus::False, reason));
            assert!(!verdict.message.is_empty());
            assert_eq!(unresolved.backs_off(), backs_off, "{unresolved}");
        }
        assert_eq!((resolved().status, resolved().reason.as_str()), (ConditionStatus::True, "Resolved"));
    }
}
