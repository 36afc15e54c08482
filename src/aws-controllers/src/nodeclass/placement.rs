//! The placement group of a `NodeClass` (condition `PlacementGroupReady`). It is not part of the status.

use karpenter_api::conditions::ec2nodeclass::{
    PLACEMENT_GROUP_READY, REASON_PLACEMENT_GROUP_NOT_FOUND, REASON_PLACEMENT_GROUP_RESOLUTION_FAILED,
};
use karpenter_aws::network::placement_groups::is_wanted;

use super::conditions::Part;
use crate::Error;

/// Resolves the placement group. A name EC2 does not know is an error of the selector; an EC2 that does not answer
/// changes nothing as long as the group was known lately.
pub(super) async fn resolve(mut part: Part<'_, '_>) -> Result<(), Error> {
    if !is_wanted(part.class) {
        part.conditions.set_true(PLACEMENT_GROUP_READY);
        return Ok(());
    }
    let groups = &part.context.aws.placement_groups;
    match groups.resolve(part.class).await {
        Ok(Some(_)) => {
            part.conditions.set_true(PLACEMENT_GROUP_READY);
            Ok(())
        }
        Ok(None) => {
            let message = "PlacementGroupSelector did not match an available placement group";
            part.refuse(PLACEMENT_GROUP_READY, REASON_PLACEMENT_GROUP_NOT_FOUND, message);
            Ok(())
        }
        Err(error) => {
            let reason = REASON_PLACEMENT_GROUP_RESOLUTION_FAILED;
            if groups.last_known(part.class).is_some() && !error.is_not_found() {
                part.unanswered(PLACEMENT_GROUP_READY, reason, &error);
            } else {
                part.failed(PLACEMENT_GROUP_READY, reason, &error);
            }
            Err(error.into())
        }
    }
}
