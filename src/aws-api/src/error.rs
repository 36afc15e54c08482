//! Failures of AWS calls: a closed set of kinds a caller may branch on, and the text a human needs.
//!
//! Invariant: branching happens on [`Kind`], never on message text outside this module; only why a launch was refused is
//! read from texts, in `karpenter-aws`. Messages are AWS's own and may change; codes are part of its API.

mod classify;
mod text;

pub use classify::{is_unfulfillable, kind_of};
pub use text::readable;

/// Result of an AWS call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {operation} `{subject}`: {}{message}{}{}", lead(self), trail(self), kind.advice())]
pub struct Error {
    /// AWS operation, for example `CreateFleet`.
    pub operation: &'static str,
    /// Subject of the call: an id, a name, or a short description of the query.
    pub subject: String,
    /// AWS error code, when AWS answered at all.
    pub code: Option<String>,
    /// AWS's text, or the transport's.
    pub message: String,
    /// Request id to quote to AWS support.
    pub request_id: Option<String>,
    /// Kind of failure; a caller may branch on it.
    pub kind: Kind,
}

/// Kind of failure, as far as a caller can act on it. Closed on purpose: a new kind is a new decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The thing is not there (any more).
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The thing is in use, changing, or was changed by another caller.
    Conflict,
    /// Too many requests; slow down. The same request may succeed later.
    Throttled,
    /// The caller may not do this: identity policy, boundary, service control policy or bad credentials.
    Denied,
    /// The request is wrong and will stay wrong, or AWS's answer cannot be understood.
    Invalid,
    /// EC2 has no capacity (or no free address) for it right now.
    NoCapacity,
    /// An account quota stands in the way.
    LimitExceeded,
    /// A dry run found nothing wrong: the call would have succeeded.
    DryRun,
    /// AWS or the network failed; the same request may succeed later.
    Transient,
}

impl Kind {
    /// True when repeating the same request unchanged makes sense.
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::Throttled | Self::Transient | Self::NoCapacity)
    }

    /// Stable lower-case name for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Conflict => "conflict",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::NoCapacity => "no_capacity",
            Self::LimitExceeded => "limit_exceeded",
            Self::DryRun => "dry_run",
            Self::Transient => "transient",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::Denied => "; grant the caller this action on this resource",
            Self::LimitExceeded => "; raise the account quota or remove what is no longer used",
            Self::Throttled => "; it is retried more slowly",
            Self::NotFound
            | Self::AlreadyExists
            | Self::Conflict
            | Self::Invalid
            | Self::NoCapacity
            | Self::DryRun
            | Self::Transient => "",
        }
    }
}

impl Error {
    /// An error AWS answered with: its kind follows from the code.
    pub fn answered(
        operation: &'static str,
        subject: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (code, message) = (code.into(), message.into());
        Self {
            operation,
            subject: subject.into(),
            kind: kind_of(&code, &message),
            code: Some(code),
            message,
            request_id: None,
        }
    }

    /// AWS answered, but without a field every caller relies on. Never defaulted: half an answer is no answer.
    pub fn missing_field(operation: &'static str, subject: impl Into<String>, field: &str) -> Self {
        Self {
            operation,
            subject: subject.into(),
            code: None,
            message: format!("the answer has no `{field}`"),
            request_id: None,
            kind: Kind::Invalid,
        }
    }

    /// A request or an answer that is wrong for a reason found on our side.
    pub fn invalid(operation: &'static str, subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            operation,
            subject: subject.into(),
            code: None,
            message: message.into(),
            request_id: None,
            kind: Kind::Invalid,
        }
    }

    /// No answer arrived: connection, timeout, or credentials could not be had.
    pub fn transient(
        operation: &'static str,
        subject: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            operation,
            subject: subject.into(),
            code: None,
            message: message.into(),
            request_id: None,
            kind: Kind::Transient,
        }
    }

    /// True for [`Kind::NotFound`].
    pub fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    /// Returns whether AWS's text names this thing: tells which of the ids of one call a refusal is about.
    pub fn names(&self, id: &str) -> bool {
        let part_of_id = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        let text = self.message.as_bytes();
        self.message.match_indices(id).any(|(start, _)| {
            let before = start.checked_sub(1).and_then(|before| text.get(before));
            let after = text.get(start + id.len());
            !id.is_empty() && !before.is_some_and(part_of_id) && !after.is_some_and(part_of_id)
        })
    }

    /// `code: message`, the form launch failures are classified and reported in.
    pub fn code_and_message(&self) -> String {
        format!("{}{}", lead(self), self.message)
    }
}

/// `Ok(None)` instead of [`Kind::NotFound`]: for callers to whom absence is an answer.
pub fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn lead(error: &Error) -> String {
    error.code.as_deref().map_or_else(String::new, |code| format!("{code}: "))
}

fn trail(error: &Error) -> String {
    error.request_id.as_deref().map_or_else(String::new, |id| format!(" (request {id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_operation_the_object_and_what_to_do() {
        let mut error = Error::answered("CreateRole", "KarpenterNodeRole-demo", "AccessDenied", "no policy");
        error.request_id = Some("r-1".into());
        assert_eq!(
            error.to_string(),
            "cannot CreateRole `KarpenterNodeRole-demo`: AccessDenied: no policy (request r-1); \
             grant the caller this action on this resource"
        );
        assert_eq!(error.code_and_message(), "AccessDenied: no policy");
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = Error::missing_field("DescribeSubnets", "subnet-1", "availabilityZone");
        assert_eq!(error.kind, Kind::Invalid);
        assert!(error.to_string().contains("`availabilityZone`"));
    }

    #[test]
    fn optional_turns_only_absence_into_none() {
        assert_eq!(optional::<()>(Err(Error::answered("GetRole", "x", "NoSuchEntity", "gone"))), Ok(None));
        assert_eq!(optional(Ok(1)), Ok(Some(1)));
        assert!(optional::<()>(Err(Error::answered("GetRole", "x", "AccessDenied", "no"))).is_err());
    }

    #[test]
    fn a_refusal_names_whole_ids_only() {
        for (text, named) in [
            ("The instance ID 'i-0abc' does not exist", true),
            ("The instance IDs 'i-1, i-0abc, i-2' do not exist", true),
            (
                "not authorized to perform: ec2:TerminateInstances on resource: arn:aws:ec2:x:1:instance/i-0abc",
                true,
            ),
            ("The instance ID 'i-0abcd' does not exist", false),
            ("The instance ID 'eni-0abc' or 'xi-0abc' does not exist", false),
            ("You are not authorized to perform this operation.", false),
        ] {
            let error = Error::answered("TerminateInstances", "two", "InvalidInstanceID.NotFound", text);
            assert_eq!(error.names("i-0abc"), named, "{text}");
            assert!(!error.names(""), "{text}");
        }
    }

    #[test]
    fn only_failures_that_pass_by_themselves_are_retryable() {
        assert!(Kind::Throttled.is_retryable() && Kind::Transient.is_retryable());
        assert!(!Kind::Denied.is_retryable() && !Kind::Invalid.is_retryable());
    }
}
