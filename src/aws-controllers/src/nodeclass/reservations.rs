//! The capacity reservations of a `NodeClass` (condition `CapacityReservationsReady`, only with the gate
//! `ReservedCapacity`). To select none is fine, so the condition is never false.

use std::time::Duration;

use karpenter_api::ec2nodeclass::Ec2NodeClassStatus;
use karpenter_aws::launch::filter;
use karpenter_aws::market::reservations::status::to_status;
use karpenter_model::names::{condition, reason};
use kube::ResourceExt;

use super::conditions::Part;
use crate::Error;

const AGAIN: Duration = Duration::from_mins(1);
const SOONEST: Duration = Duration::from_secs(1);

/// Resolves reservations into the status; returns when to look again: in a minute, or when the first of them ends.
pub(super) async fn resolve(
    mut part: Part<'_, '_>,
    status: &mut Ec2NodeClassStatus,
) -> Result<Option<Duration>, Error> {
    if !part.context.aws.settings.reserved_capacity {
        status.capacity_reservations.clear();
        // Left from a time with the gate, it would keep showing that time. No dependent, so it can be removed.
        let _gone = part.conditions.clear(condition::aws::CAPACITY_RESERVATIONS_READY);
        return Ok(None);
    }
    match part.context.aws.reservations.select(part.class).await {
        Ok(found) => {
            let now = part.context.common.now();
            let name = part.class.name_any();
            let pools = part.context.common.view.pools().into_iter().map(|known| known.model);
            let dedicated = pools
                .filter(|pool| pool.template.node_class.name == name)
                .any(|pool| filter::names_dedicated(&pool.template.requirements));
            status.capacity_reservations = to_status(&found, part.class, dedicated, now);
            part.conditions.set_true(condition::aws::CAPACITY_RESERVATIONS_READY);
            let ends = found.iter().filter_map(|one| one.ends_at);
            let left = ends.filter_map(|end| Duration::try_from(end.duration_since(now)).ok());
            Ok(Some(left.min().map_or(AGAIN, |first| first.clamp(SOONEST, AGAIN))))
        }
        Err(error) => {
            part.unanswered(
                condition::aws::CAPACITY_RESERVATIONS_READY,
                reason::aws::CAPACITY_RESERVATION_RESOLUTION_FAILED,
                &error,
            );
            Err(error.into())
        }
    }
}
