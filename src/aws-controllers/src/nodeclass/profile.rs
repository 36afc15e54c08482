//! The instance profile of a `NodeClass` (condition `InstanceProfileReady`, which is never `False`).

use karpenter_api::ec2nodeclass::Ec2NodeClassStatus;
use karpenter_model::names::{condition, reason};

use super::conditions::Part;
use crate::Error;

/// Makes sure there is a profile and notes its name.
pub(super) async fn resolve(mut part: Part<'_, '_>, status: &mut Ec2NodeClassStatus) -> Result<(), Error> {
    match part.context.aws.profiles.ensure(part.class).await {
        Ok(Some(profile)) => {
            status.instance_profile = Some(profile);
            part.conditions.set_true(condition::aws::INSTANCE_PROFILE_READY);
            Ok(())
        }
        // The schema requires a role or a profile; an object from before it may have neither.
        Ok(None) => {
            let message = "neither spec.role nor spec.instanceProfile is set; set one of them";
            part.unanswered(
                condition::aws::INSTANCE_PROFILE_READY,
                reason::aws::INSTANCE_PROFILE_RESOLUTION_FAILED,
                &message,
            );
            Ok(())
        }
        Err(error) => {
            let help = match &part.class.spec.role {
                Some(role) if error.is_not_found() => {
                    format!("; create the role `{role}` or correct spec.role")
                }
                _ => String::new(),
            };
            part.unanswered(
                condition::aws::INSTANCE_PROFILE_READY,
                reason::aws::INSTANCE_PROFILE_RESOLUTION_FAILED,
                &format!("{error}{help}"),
            );
            Err(error.into())
        }
    }
}
