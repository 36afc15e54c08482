//! Why bootstrap stopped.

use crate::policy::document::ParseError;

/// A failed run. Whatever was done before stays done; running again goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read. Nothing has been written.
    #[error("cannot read {what} before planning; nothing was changed")]
    Observe {
        /// What was read.
        what: String,
        /// What AWS answered.
        #[source]
        source: karpenter_aws_client::Error,
    },
    /// A policy document in the account is not one.
    #[error("cannot understand the policy of `{object}`; repair it by hand or delete it")]
    Document {
        /// Role, policy or queue.
        object: String,
        /// What is wrong with it.
        #[source]
        source: ParseError,
    },
    /// The account holds things under our names that are not ours.
    #[error("{} thing(s) in the account are in the way: {}", .0.len(), .0.join("; "))]
    Conflicts(Vec<String>),
    /// One step failed.
    #[error("cannot {step}; what was done before stays, run the command again to go on from here")]
    Step {
        /// The step in words, for example `create role KarpenterNodeRole-prod`.
        step: String,
        /// What AWS answered.
        #[source]
        source: karpenter_aws_client::Error,
    },
}

impl Error {
    /// For `map_err` on reads.
    pub(crate) fn observing(what: impl Into<String>) -> impl FnOnce(karpenter_aws_client::Error) -> Self {
        let what = what.into();
        move |source| Self::Observe { what, source }
    }
}
