//! The end of a `NodeClass`: wait for its claims, clean up the account, let it go (spec aws-provider 12.3).

use std::time::Duration;

use karpenter_api::EC2NodeClass;
use karpenter_kube_harness::queue::Done;
use karpenter_kube_harness::write;
use karpenter_model::names::{finalizer, reason};
use karpenter_telemetry::events::reason::WAITING_ON_NODE_CLAIM_TERMINATION;
use karpenter_telemetry::events::{Reason, Severity};
use kube::ResourceExt;

use super::conditions::without_request_id;
use super::{Reconciler, forget};
use crate::Error;

const AGAIN: Duration = Duration::from_mins(10);
const UNKNOWN: Duration = Duration::from_secs(5);
const NAMED_MAX: usize = 5;

impl Reconciler {
    /// One pass over a `NodeClass` that is being deleted. A failed clean-up keeps the finalizer.
    pub(super) async fn finalize(&self, class: &EC2NodeClass) -> Result<Done, Error> {
        let name = class.name_any();
        let Some(change) = write::without_finalizer(class, finalizer::EC2_NODE_CLASS) else {
            return Ok(Done::idle());
        };
        if !self.context.cluster_known() {
            return Ok(Done::idle().after(UNKNOWN));
        }
        let claims = self.claims_of(&name);
        if !claims.is_empty() {
            self.context.publish_event(class, WAITING_ON_NODE_CLAIM_TERMINATION, waiting_on(&claims));
            return Ok(Done::idle().after(AGAIN));
        }
        if let Err(error) = self.clean_up(class, &name).await {
            // Without a word the class would stay for ever, and nothing shows which right is missing (aws#9185).
            let message = format!("finalizer stays: {}", without_request_id(&error.to_string()));
            let reason = Reason::unlisted(reason::aws::CLEAN_UP_FAILED, Severity::Warning);
            self.context.publish_event(class, reason, message);
            return Err(error);
        }
        let api = self.context.common.all::<EC2NodeClass>();
        if write::merge(&api, &name, &change).await?.is_none_or(|left| left.finalizers().is_empty()) {
            forget(&self.context, class);
        }
        self.forget_verdicts(&name);
        self.context.common.metrics.aws.ec2nodeclasses_userdata_bytes.remove([name.as_str()]);
        Ok(Done::applied())
    }

    fn claims_of(&self, class: &str) -> Vec<String> {
        // One that cannot be decoded may not show which class it has.
        let of_class = |name: &str| name == class || name.is_empty();
        let claims = self.context.common.view.claims_or_undecoded().into_iter();
        claims.filter(|claim| of_class(&claim.node_class.name)).map(|claim| claim.name.to_string()).collect()
    }

    async fn clean_up(&self, class: &EC2NodeClass, name: &str) -> Result<(), Error> {
        let aws = &self.context.aws;
        let mut errors = Vec::new();
        // No access to IAM from an isolated network: what is left there is left to its owner.
        if !aws.settings.isolated_vpc {
            errors.extend(aws.profiles.delete_of_class(class).await.err());
        }
        errors.extend(aws.templates.delete_of_class(name).await.err());
        Error::combined(errors.into_iter().map(Error::from).collect())
    }
}

fn waiting_on(claims: &[String]) -> String {
    let shown = claims.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match claims.len().saturating_sub(NAMED_MAX) {
        0 => format!("Waiting on NodeClaim termination for {shown}"),
        more => format!("Waiting on NodeClaim termination for {shown} and {more} other(s)"),
    }
}
