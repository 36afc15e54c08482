//! The images of a `NodeClass` (condition `AMIsReady`).

use std::time::Duration;

use karpenter_api::ec2nodeclass::Ec2NodeClassStatus;
use karpenter_aws::image::resolve;
use karpenter_model::names::{condition, reason};

use super::conditions::Part;
use crate::Error;
use crate::refresh::{self, Task};

const AGAIN: Duration = Duration::from_mins(5);
const NONE_FOUND: Duration = Duration::from_mins(1);

/// Resolves images into the status; returns when to look again.
pub(super) async fn resolve(
    mut part: Part<'_, '_>,
    status: &mut Ec2NodeClassStatus,
) -> Result<Option<Duration>, Error> {
    let mut kubernetes = part.context.aws.cluster.version();
    if kubernetes.is_none() {
        if let Err(error) = refresh::once(Task::Version, part.context).await {
            part.unanswered(condition::aws::AMIS_READY, reason::aws::AMI_RESOLUTION_FAILED, &error);
            return Err(error);
        }
        kubernetes = part.context.aws.cluster.version();
    }
    let kubernetes = kubernetes.unwrap_or_default();
    let amis = match part.context.aws.images.resolve(part.class, &kubernetes).await {
        Ok(amis) => amis,
        Err(resolve::Error::Unsupported(unsupported)) => {
            part.refuse(condition::aws::AMIS_READY, reason::aws::UNSUPPORTED_ALIAS, &unsupported.to_string());
            // Only an edit or another version of Kubernetes can help.
            return Ok(Some(AGAIN));
        }
        Err(error) => {
            part.unanswered(condition::aws::AMIS_READY, reason::aws::AMI_RESOLUTION_FAILED, &error);
            return Err(error.into());
        }
    };
    if amis.is_empty() {
        status.amis.clear();
        part.refuse(
            condition::aws::AMIS_READY,
            reason::aws::AMI_NOT_FOUND,
            "AMISelector did not match any AMIs",
        );
        return Ok(Some(NONE_FOUND));
    }
    status.amis = amis;
    part.conditions.set_true(condition::aws::AMIS_READY);
    Ok(Some(AGAIN))
}
