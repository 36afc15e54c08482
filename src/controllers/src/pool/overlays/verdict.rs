//! The verdict on each overlay, in the form of its conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::nodeoverlay::NodeOverlayStatus;
use karpenter_api::{NodeOverlay, convert};
use karpenter_cloud::overlay::Conflict;
use karpenter_model::names::{condition, reason};
use karpenter_model::{LabelRegistry, Overlay, OverlayName};

/// Reasons and messages of the overlays that do not apply.
pub(super) struct Verdicts(BTreeMap<OverlayName, (&'static str, String)>);

impl Verdicts {
    /// Sorts out overlays that are wrong by themselves; the others are to be judged together.
    pub(super) fn of(objects: &[Arc<NodeOverlay>], registry: &LabelRegistry) -> (Self, Vec<Arc<Overlay>>) {
        let (mut refused, mut valid) = (BTreeMap::new(), Vec::new());
        // One that is being deleted conflicts with no other.
        for object in objects.iter().filter(|object| object.metadata.deletion_timestamp.is_none()) {
            match convert::overlay(object, registry) {
                Ok(overlay) => valid.push(Arc::new(overlay)),
                Err(message) => {
                    refused.insert(name(object), (reason::RUNTIME_VALIDATION, message));
                }
            }
        }
        (Self(refused), valid)
    }

    /// Adds the conflicts that were found when the valid overlays were judged together.
    pub(super) fn joined_by(mut self, conflicts: &BTreeMap<OverlayName, Conflict>) -> Self {
        let found =
            conflicts.iter().map(|(name, conflict)| (name.clone(), (reason::CONFLICT, conflict.to_string())));
        self.0.extend(found);
        self
    }

    /// The status of `object` with the verdict.
    pub(super) fn written(&self, object: &NodeOverlay, now: Timestamp) -> NodeOverlayStatus {
        let mut status = object.status.clone().unwrap_or_default();
        let mut conditions =
            Conditions::open(Dependents::NODE_OVERLAY, &mut status.conditions, &object.metadata, now);
        match self.0.get(&name(object)) {
            Some((reason, message)) => {
                conditions.set_false(condition::VALIDATION_SUCCEEDED, reason, message);
            }
            None => {
                conditions.set_true(condition::VALIDATION_SUCCEEDED);
            }
        }
        status
    }
}

fn name(object: &NodeOverlay) -> OverlayName {
    object.metadata.name.as_deref().unwrap_or_default().into()
}
