//! The placement group of a `NodeClass` (condition `PlacementGroupReady`). It is not part of the status.

use karpenter_aws::network::placement_groups::is_wanted;
use karpenter_model::names::{condition, reason};

use super::conditions::Part;
use crate::Error;

/// Resolves the placement group. A name EC2 does not have is an error of the selector; an EC2 that does not answer
/// changes nothing as long as the group was known lately.
pub(super) async fn resolve(mut part: Part<'_, '_>) -> Result<(), Error> {
    if !is_wanted(part.class) {
        part.conditions.set_true(condition::aws::PLACEMENT_GROUP_READY);
        return Ok(());
    }
    let groups = &part.context.aws.placement_groups;
    match groups.resolve(part.class).await {
        Ok(Some(_)) => {
            part.conditions.set_true(condition::aws::PLACEMENT_GROUP_READY);
            Ok(())
        }
        Ok(None) => {
            let message = "PlacementGroupSelector did not match an available placement group";
            part.refuse(
                condition::aws::PLACEMENT_GROUP_READY,
                reason::aws::PLACEMENT_GROUP_NOT_FOUND,
                message,
            );
            Ok(())
        }
        Err(error) => {
            let reason = reason::aws::PLACEMENT_GROUP_RESOLUTION_FAILED;
            if groups.last_known(part.class).is_some() && !error.is_not_found() {
                part.unanswered(condition::aws::PLACEMENT_GROUP_READY, reason, &error);
            } else {
                part.failed(condition::aws::PLACEMENT_GROUP_READY, reason, &error);
            }
            Err(error.into())
        }
    }
}
