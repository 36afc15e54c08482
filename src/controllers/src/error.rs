//! Failures of a pass: a call of the API server or of the cloud that failed.

use karpenter_lifecycle::node::termination::InvalidDeadline;
use karpenter_telemetry::observe::Chain;

/// A failed effect. The pass is tried again after the back-off of its object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kube(#[from] karpenter_kube_harness::Error),
    #[error(transparent)]
    Cloud(#[from] karpenter_cloud::Error),
    #[error(transparent)]
    Deadline(#[from] InvalidDeadline),
    /// Several stages of one pass failed; each has done what it could.
    #[error("{}", join(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// The API server refused a write because the object had changed: look again, there is nothing to report.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Kube(error) if error.is_conflict())
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Kube(error) if error.is_not_found())
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
