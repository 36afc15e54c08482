//! Errors of a cloud, as a closed set of kinds.
//!
//! Callers decide on [`Kind`] alone, never on a code or a text: a provider that meets a new code has to choose a
//! kind for it, and the compiler then shows every place that must handle it. Source: spec disruption 1.3 and
//! spec scheduling 10 (provider errors that matter).

use std::fmt;

use karpenter_model::names::reason;

/// A failed operation of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Kind, by which the caller decides.
    pub kind: Kind,
    /// The attempted operation, as a verb phrase: `launch instance`.
    pub operation: &'static str,
    /// The object of the operation: a claim name, a provider id, a pool.
    pub subject: String,
    /// Message of the cloud, in one line.
    pub message: String,
    /// The cloud's own error code (`InsufficientInstanceCapacity`), if it gave one.
    pub code: Option<Box<str>>,
    /// The reason to write into the `Launched` condition instead of `LaunchFailed`, `UpperCamelCase`.
    pub reason: Option<Box<str>>,
    /// Next step for a person.
    pub hint: Option<Box<str>>,
    /// The token of this launch is of no more use, because the cloud answered that nothing came of it or
    /// has the token with other contents. The next try is a new attempt. A lost answer spends nothing.
    pub token_spent: bool,
}

impl Error {
    /// An error with only the mandatory parts.
    pub fn new(
        kind: Kind,
        operation: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            operation,
            subject: subject.into(),
            message: message.into(),
            code: None,
            reason: None,
            hint: None,
            token_spent: false,
        }
    }

    /// Adds the cloud's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<Box<str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Adds a condition reason.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<Box<str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Adds advice for a person.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets whether the launch token of this attempt is spent.
    #[must_use]
    pub fn with_token_spent(mut self, spent: bool) -> Self {
        self.token_spent = spent;
        self
    }

    /// True when the object does not exist (any more).
    pub fn not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {} `{}`: ", self.operation, self.subject)?;
        if let Some(code) = &self.code {
            write!(f, "{code}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Kind of failure of an operation. Closed: a new cloud code is mapped onto one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Every offering that would have served the request is out of capacity; the request itself was fine.
    NoCapacity,
    /// The node class does not exist, is being deleted or is not ready to launch from.
    NodeClassNotReady,
    /// The object does not exist, or exists only as a terminated machine.
    NotFound,
    /// The cloud asked us to slow down.
    Throttled,
    /// Our credentials do not allow the operation.
    Denied,
    /// The request can never succeed as it is.
    Invalid,
    /// Anything that may go away by itself: time-outs, server errors, lost connections.
    Transient,
}

/// Next step of a caller after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Try again with exponential back-off.
    Backoff,
    /// Try again, but at the slowest rate: only a person or a configuration change can help.
    Slowly,
    /// Give the request up; a fresh decision is needed.
    Never,
}

impl Kind {
    /// Every kind, in declaration order.
    pub const ALL: [Self; 7] = [
        Self::NoCapacity,
        Self::NodeClassNotReady,
        Self::NotFound,
        Self::Throttled,
        Self::Denied,
        Self::Invalid,
        Self::Transient,
    ];

    /// The value of the label `error` of `karpenter_cloudprovider_errors_total`: the reference's name where it has one.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoCapacity => reason::INSUFFICIENT_CAPACITY,
            Self::NotFound => "NodeClaimNotFoundError",
            Self::NodeClassNotReady => "NodeClassNotReadyError",
            Self::Throttled | Self::Denied | Self::Invalid | Self::Transient => self.as_str(),
        }
    }

    /// The stable name, used in logs and as event reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoCapacity => "NoCapacity",
            Self::NodeClassNotReady => "NodeClassNotReady",
            Self::NotFound => "NotFound",
            Self::Throttled => "Throttled",
            Self::Denied => "Denied",
            Self::Invalid => "Invalid",
            Self::Transient => "Transient",
        }
    }

    /// Next step after an error of this kind.
    pub const fn retry(self) -> Retry {
        match self {
            Self::Throttled | Self::Transient => Retry::Backoff,
            Self::Denied | Self::Invalid => Retry::Slowly,
            Self::NoCapacity | Self::NodeClassNotReady | Self::NotFound => Retry::Never,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_operation_subject_code_message_and_hint_once() {
        let error = Error::new(Kind::Denied, "launch instance", "web-x2k4p", "not authorized")
            .with_code("UnauthorizedOperation")
            .with_hint("allow ec2:CreateFleet in the controller role");
        assert_eq!(
            error.to_string(),
            "failed to launch instance `web-x2k4p`: UnauthorizedOperation: not authorized; \
             allow ec2:CreateFleet in the controller role"
        );
    }

    #[test]
    fn names_of_kinds_are_distinct() {
        let names: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn only_errors_that_pass_by_themselves_are_retried_with_backoff() {
        let backoff: Vec<_> = Kind::ALL.into_iter().filter(|kind| kind.retry() == Retry::Backoff).collect();
        assert_eq!(backoff, [Kind::Throttled, Kind::Transient]);
    }
}
