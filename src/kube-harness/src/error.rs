//! Errors of calls of the API server.

use std::fmt;

use karpenter_telemetry::observe::Chain;

/// An answer of the API server other than success, or the lack of one, without its internals.
#[derive(Debug)]
pub struct ApiFailure(Box<kube::Error>);

impl ApiFailure {
    /// The HTTP status the API server answered with, if it answered.
    fn code(&self) -> Option<u16> {
        match self.0.as_ref() {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }
}

impl From<kube::Error> for ApiFailure {
    fn from(error: kube::Error) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Display for ApiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_ref() {
            kube::Error::Api(status) => write!(f, "{} ({})", status.message, status.code),
            other => write!(f, "{}", Chain(other)),
        }
    }
}

impl std::error::Error for ApiFailure {}

/// A call that failed: what was attempted, on which object.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} `{name}`")]
pub struct Error {
    /// The attempted operation: `patch`, `delete`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: String,
    pub name: String,
    pub source: ApiFailure,
}

impl Error {
    /// The API server refused a write because the object had changed: look again.
    pub fn is_conflict(&self) -> bool {
        self.source.code() == Some(409)
    }

    /// We may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.source.code() == Some(403)
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.source.code() == Some(404)
    }
}
