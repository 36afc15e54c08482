//! Failures of a pass.

use karpenter_aws::catalogue::instance_types;
use karpenter_aws::image::resolve;
use karpenter_aws::launch::check::Inconclusive;
use karpenter_aws::market::prices::file;
use karpenter_telemetry::observe::Chain;

/// A failed effect. The pass is tried again after the back-off of its object.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused or could not be reached.
    #[error(transparent)]
    Kube(#[from] karpenter_kube_harness::Error),
    /// A part that controllers of every cloud share failed.
    #[error(transparent)]
    Common(#[from] karpenter_controllers::Error),
    /// AWS refused or could not be reached.
    #[error(transparent)]
    Aws(#[from] karpenter_aws_api::Error),
    /// The provider refused.
    #[error(transparent)]
    Cloud(#[from] karpenter_cloud::Error),
    /// Images could not be determined.
    #[error(transparent)]
    Images(#[from] resolve::Error),
    /// Instance types are not known.
    #[error(transparent)]
    Types(#[from] instance_types::Error),
    /// The price file cannot be used.
    #[error(transparent)]
    PriceFile(#[from] file::Error),
    /// A dry run gave no verdict on the `NodeClass`.
    #[error(transparent)]
    Check(#[from] Inconclusive),
    /// Several parts of one pass failed; the others have done what they could.
    #[error("{}", join(.0))]
    Several(Vec<Error>),
}

impl Error {
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
