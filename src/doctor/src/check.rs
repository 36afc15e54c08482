//! Definition of a check: its name, what it looks for, what to do about it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::{Facts, Unseen};
use crate::repair::Repair;

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Works, and could work better or safer.
    Advice,
    /// Will not work under some circumstances.
    Warning,
    /// Does not work.
    Error,
}

/// Part of the world that a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The AWS account: can be looked at before anything is installed.
    Account,
    Cluster,
}

/// One thing that can be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Stable name, such as `D-06` (spec aws-operations 7.2) or `P-12` (spec aws-operations 1.14).
    pub id: &'static str,
    /// Entries of the specification that have the same cause and are found by this check too.
    pub also: &'static [&'static str],
    pub severity: Severity,
    pub scope: Scope,
    /// Symptom that users notice.
    pub symptom: &'static str,
    /// Cause of the symptom.
    pub cause: &'static str,
    /// Fix for the operator.
    pub fix: &'static str,
    /// Way in which it is found.
    pub look: Look,
}

impl Check {
    /// Returns whether it has this id, in any case.
    pub fn is_called(&self, id: &str) -> bool {
        std::iter::once(&self.id).chain(self.also).any(|one| one.eq_ignore_ascii_case(id))
    }
}

/// Source of a check's findings.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// From what is configured.
    At(fn(&Facts) -> Outcome),
    /// From what was reported: an event, a condition or a line of the controller's log is one of these phrases.
    Said(&'static [Phrase]),
    /// From what was reported, unless the facts show that the cause is gone: what was said stays in the log and in events for
    /// an hour.
    SaidUnless(fn(&Facts) -> bool, &'static [Phrase]),
    /// From the configuration and from reports: what is configured shows what has not happened yet, what was said shows what
    /// cannot be read.
    Either(fn(&Facts) -> Outcome, &'static [Phrase]),
}

/// Origin of a phrase. A change of a text of this controller has to be made in the phrases of that origin as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// AWS: a code or a text of its APIs, or a program on its images.
    Aws,
    /// The reference and this controller, which keeps the text.
    Both,
    /// Kubernetes: the kubelet, or a container runtime.
    Kubernetes,
    /// This controller, in words of its own.
    Ours,
    /// The reference, where this controller says something else.
    Reference,
}

/// A text that is known by some of its words.
#[derive(Clone, Copy, Debug)]
pub struct Phrase {
    pub speaker: Speaker,
    /// Words that are all in the text. In lower case, and found in any.
    pub words: &'static [&'static str],
    /// Words of which none is in the text.
    pub without: &'static [&'static str],
}

impl Phrase {
    /// A text with all of these words.
    pub(crate) const fn of(speaker: Speaker, words: &'static [&'static str]) -> Self {
        Self { speaker, words, without: &[] }
    }

    /// Returns the phrase for texts without these words.
    pub(crate) const fn without(self, without: &'static [&'static str]) -> Self {
        Self { without, ..self }
    }

    /// Returns whether this text, which is in lower case, matches the phrase.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.words.iter().all(|word| text.contains(word))
            && !self.without.iter().any(|word| text.contains(word))
    }
}

/// Words of AWS.
pub(crate) const fn aws(words: &'static [&'static str]) -> Phrase {
    Phrase::of(Speaker::Aws, words)
}

/// Words of both controllers.
pub(crate) const fn both(words: &'static [&'static str]) -> Phrase {
    Phrase::of(Speaker::Both, words)
}

/// Words of Kubernetes.
pub(crate) const fn kubernetes(words: &'static [&'static str]) -> Phrase {
    Phrase::of(Speaker::Kubernetes, words)
}

/// Words of this controller.
pub(crate) const fn ours(words: &'static [&'static str]) -> Phrase {
    Phrase::of(Speaker::Ours, words)
}

/// Words of the reference.
pub(crate) const fn reference(words: &'static [&'static str]) -> Phrase {
    Phrase::of(Speaker::Reference, words)
}

/// Everything that is wrong, nothing, or what could not be asked.
pub type Outcome = Result<Vec<Evidence>, Unseen>;

/// One object that is as it should not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Evidence {
    /// The object, such as `NodePool default`.
    pub object: String,
    /// Field and value, in words.
    pub seen: String,
    /// Repair by `--fix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// It matters less than its check says: nothing depends on it yet, or something else makes up for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

impl Evidence {
    /// Evidence that only people can act on.
    pub fn new(object: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { object: object.into(), seen: seen.into(), repair: None, severity: None }
    }

    /// Returns the evidence, with what `--fix` would do.
    #[must_use]
    pub fn with(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }

    /// Returns the evidence as advice: nothing fails for it, so there is no reason to call anything ill.
    #[must_use]
    pub(crate) fn advice_only(mut self) -> Self {
        self.severity = Some(Severity::Advice);
        self
    }
}
