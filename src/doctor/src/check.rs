//! What a check is: who it is, what it looks for, what to do about it.

use serde::Serialize;

use crate::facts::{Facts, Unseen};
use crate::repair::Repair;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Works, and could work better or safer.
    Advice,
    /// Will not work under some circumstances.
    Warning,
    /// Does not work.
    Error,
}

/// Which part of the world a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The AWS account: can be looked at before anything is installed.
    Account,
    /// The Kubernetes cluster.
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
    /// What users notice.
    pub symptom: &'static str,
    /// Why it happens.
    pub cause: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// How it is found.
    pub look: Look,
}

impl Check {
    /// Whether it goes by this id, in any case.
    pub fn is_called(&self, id: &str) -> bool {
        std::iter::once(&self.id).chain(self.also).any(|one| one.eq_ignore_ascii_case(id))
    }
}

/// How a check finds out.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// From what is configured.
    At(fn(&Facts) -> Outcome),
    /// From what was reported: an event, a condition or a line of the controller's log has all words of one of these
    /// lists, in any case.
    Said(&'static [&'static [&'static str]]),
    /// Both ways: what is configured shows what has not happened yet, what was said shows what cannot be
    /// read.
    Either(fn(&Facts) -> Outcome, &'static [&'static [&'static str]]),
}

/// Everything that is wrong, nothing, or what could not be asked.
pub type Outcome = Result<Vec<Evidence>, Unseen>;

/// One object that is as it should not be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evidence {
    /// The object, such as `NodePool default`.
    pub object: String,
    /// Field and value, in words.
    pub seen: String,
    /// What `--fix` would do.
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

    /// The same, with what `--fix` would do.
    #[must_use]
    pub fn with(mut self, repair: Repair) -> Self {
        self.repair = Some(repair);
        self
    }

    /// The same, but nothing fails for it: no reason to call anything ill.
    #[must_use]
    pub(crate) fn advice_only(mut self) -> Self {
        self.severity = Some(Severity::Advice);
        self
    }
}
