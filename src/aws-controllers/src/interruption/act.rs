//! Finds the claims that run on instances, and does what has to happen to them.

use std::collections::BTreeMap;

use karpenter_aws::instances::provider_id::instance_of;
use karpenter_aws::market::unavailable::{Cause, Subject};
use karpenter_cloud::{InstanceId, OfferingKey};
use karpenter_controllers::node::interruption::{Exhausted, exhausted, interrupted, is_news};
use karpenter_model::{ClaimName, NoticeKind};

use crate::{AwsContext, Error};

/// Claims by the instance they run on.
pub(super) struct Claims {
    by_instance: BTreeMap<String, Vec<ClaimName>>,
    /// Some claim has not recorded its instance yet: any unknown one may be it.
    launching: bool,
}

impl Claims {
    /// Every claim that has an instance.
    pub(super) fn known(context: &AwsContext) -> Self {
        let (mut by_instance, mut launching) = (BTreeMap::<String, Vec<ClaimName>>::new(), false);
        for known in context.common.view.claims() {
            launching |= known.model.provider_id.is_none();
            if let Some(instance) = known.model.provider_id.as_ref().and_then(instance_of) {
                by_instance.entry(instance.to_string()).or_default().push(known.model.name.clone());
            }
        }
        Self { by_instance, launching }
    }

    /// Returns whether the instance belongs to this cluster.
    pub(super) fn contain(&self, instance: &str) -> bool {
        self.by_instance.contains_key(instance)
    }

    /// Returns whether a notice about these may be early: none is known, and a launch is under way that could have made one.
    pub(super) fn may_come_to_know(&self, instances: &[InstanceId]) -> bool {
        self.launching && !instances.iter().any(|instance| self.contain(instance.as_str()))
    }

    /// Reacts to a notice about instances. Those that no claim has recorded are left to their owner.
    pub(super) async fn act(
        &self,
        context: &AwsContext,
        controller: &'static str,
        kind: NoticeKind,
        instances: &[InstanceId],
    ) -> Result<(), Error> {
        let known = instances.iter().filter_map(|instance| self.by_instance.get(instance.as_str()));
        let claims: Vec<ClaimName> = known.flatten().cloned().collect();
        let mut errors = Vec::new();
        for claim in claims.iter().filter(|claim| is_news(&context.common, kind, claim)) {
            tracing::info!(nodeclaim = %claim, "message-kind" = %kind, "initiating delete from interruption message");
            if let Some(gone) = exhausted(&context.common, kind, claim) {
                remember(context, &gone);
            }
            errors.extend(interrupted(&context.common, controller, kind, claim).await.err().map(Error::from));
        }
        Error::combined(errors)
    }
}

/// Keeps launches away from what has just been taken back.
fn remember(context: &AwsContext, gone: &Exhausted) {
    match gone {
        Exhausted::Offering { instance_type, zone, capacity_type } => {
            let key = OfferingKey {
                instance_type: instance_type.clone(),
                zone: zone.clone(),
                capacity_type: *capacity_type,
            };
            context.aws.unavailable.mark(Subject::Offering(key), Cause::Lacking);
        }
        Exhausted::Reservation(id) => context.aws.reservations.availability().exhausted(id.as_str()),
    }
}
