//! Reasons why bootstrap stops.

/// A failed run. Whatever was done before stays done; running again continues from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something could not be read. Nothing has been written.
    #[error("cannot read {what} before planning; nothing was changed")]
    Observe {
        /// Object that was read.
        what: String,
        #[source]
        source: karpenter_aws_api::Error,
    },
    /// A policy document in the account is not one.
    #[error("cannot understand the policy of `{object}`; repair it by hand or delete it")]
    Document {
        /// Role, policy or queue.
        object: String,
        /// Error in the document.
        #[source]
        source: karpenter_iam::Error,
    },
    /// The account holds things under our names that are not ours.
    #[error("{} thing(s) in the account are in the way: {}", .0.len(), .0.join("; "))]
    Conflicts(Vec<String>),
    /// One step failed.
    #[error("cannot {step}; what was done before stays, run the command again to continue")]
    Step {
        /// The step in words, for example `create role KarpenterNodeRole-prod`.
        step: String,
        #[source]
        source: karpenter_aws_api::Error,
    },
    /// The template does not fit into a request.
    #[error(
        "the template has {bytes} bytes and CloudFormation takes no more than 51200 in a request: upload what `karpenter \
         bootstrap render cloudformation` prints to a bucket and deploy it with `aws cloudformation deploy --s3-bucket`, \
         or use --via sdk"
    )]
    TemplateTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// `CloudFormation` cannot list its changes.
    #[error("CloudFormation refuses the change set of stack `{stack}`; nothing was changed: {reason}")]
    ChangeSet {
        /// Name of the stack.
        stack: String,
        /// Reason in AWS's words.
        reason: String,
    },
    /// A stack ended otherwise than it should.
    #[error(
        "cannot {doing} stack `{stack}`, it ended as {status}: {}; fix that and run the command again to continue",
        if .reasons.is_empty() { "CloudFormation gives no reason".to_owned() } else { .reasons.join("; ") }
    )]
    Stack {
        /// Attempted operation: `create`, `change`, `delete`, ...
        doing: &'static str,
        /// Name of the stack.
        stack: String,
        /// Last status of the stack.
        status: String,
        /// Failures of resources, first things first.
        reasons: Vec<String>,
    },
    /// An operation on a stack takes longer than we wait.
    #[error("stack `{stack}` is still {status}; run the command again to keep waiting")]
    StillBusy {
        /// Name of the stack.
        stack: String,
        /// Status of the stack.
        status: String,
    },
}

impl Error {
    /// Makes an error of a read, for `map_err`.
    pub(crate) fn observing(what: impl Into<String>) -> impl FnOnce(karpenter_aws_api::Error) -> Self {
        let what = what.into();
        move |source| Self::Observe { what, source }
    }
}
