//! Subnets and security groups of a `NodeClass` (conditions `SubnetsReady` and `SecurityGroupsReady`).

use std::time::Duration;

use karpenter_api::ec2nodeclass::Ec2NodeClassStatus;
use karpenter_aws::network::{security_groups, subnets};
use karpenter_model::names::{condition, reason};

use super::conditions::Part;
use crate::Error;

const MINUTE: Duration = Duration::from_mins(1);
const GROUPS_AGAIN: Duration = Duration::from_mins(5);

/// Resolves subnets into the status; returns when to look again.
pub(super) async fn subnets(
    mut part: Part<'_, '_>,
    status: &mut Ec2NodeClassStatus,
) -> Result<Option<Duration>, Error> {
    match part.context.aws.subnets.select(part.class).await {
        Ok(found) if found.is_empty() => {
            status.subnets.clear();
            part.refuse(
                condition::aws::SUBNETS_READY,
                reason::aws::SUBNETS_NOT_FOUND,
                "SubnetSelector did not match any Subnets",
            );
        }
        Ok(found) => {
            status.subnets = subnets::to_status(&found);
            part.conditions.set_true(condition::aws::SUBNETS_READY);
        }
        Err(error) => {
            part.unanswered(condition::aws::SUBNETS_READY, reason::aws::SUBNET_RESOLUTION_FAILED, &error);
            return Err(error.into());
        }
    }
    Ok(Some(MINUTE))
}

/// Resolves security groups into the status; returns when to look again.
pub(super) async fn groups(
    mut part: Part<'_, '_>,
    status: &mut Ec2NodeClassStatus,
) -> Result<Option<Duration>, Error> {
    match part.context.aws.security_groups.select(part.class).await {
        Ok(found) if found.is_empty() => {
            status.security_groups.clear();
            let message = "SecurityGroupSelector did not match any SecurityGroups";
            part.refuse(
                condition::aws::SECURITY_GROUPS_READY,
                reason::aws::SECURITY_GROUPS_NOT_FOUND,
                message,
            );
            Ok(Some(MINUTE))
        }
        Ok(found) => {
            status.security_groups = security_groups::to_status(&found);
            part.conditions.set_true(condition::aws::SECURITY_GROUPS_READY);
            Ok(Some(GROUPS_AGAIN))
        }
        Err(error) => {
            part.unanswered(
                condition::aws::SECURITY_GROUPS_READY,
                reason::aws::SECURITY_GROUP_RESOLUTION_FAILED,
                &error,
            );
            Err(error.into())
        }
    }
}
