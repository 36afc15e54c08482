//! What can go wrong in a pass: a call of the API server or of the cloud that failed.

use std::fmt;

use karpenter_lifecycle::termination::InvalidDeadline;
use karpenter_telemetry::observe::Chain;

/// An answer of the API server other than success, or the lack of one, told without its internals.
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

/// A failed effect. The pass is tried again after the back-off of its object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {verb} {kind} `{name}`")]
    Kube {
        /// The attempted operation: `patch`, `delete`.
        verb: &'static str,
        /// Kind of the object.
        kind: String,
        name: String,
        #[source]
        source: ApiFailure,
    },
    #[error(transparent)]
    Cloud(#[from] karpenter_cloud::Error),
    #[error(transparent)]
    Deadline(#[from] InvalidDeadline),
    /// Several stages of one pass failed; each has done what it could.
    #[error("{}", join(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// The API server refused a write because the object had changed: look again, nobody needs to know.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kube { source, .. } if source.code() == Some(409))
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Kube { source, .. } if source.code() == Some(404))
    }

    /// No error, the only one, or all of them.
    pub fn combined(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }
}

fn join(errors: &[Error]) -> String {
    errors.iter().map(|error| Chain(error).to_string()).collect::<Vec<_>>().join("; ")
}
