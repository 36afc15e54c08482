//! A pod as the stand-ins look at it: what they ask at every pass is read once for each of its revisions.

use std::sync::Arc;

use karpenter_model::{Quantity, Resources};
use serde_json::Value;

use super::{
    requests,
    template::{has_ended, is_ready, number},
};
use crate::apiserver::object;

/// One revision of a pod.
pub(super) struct Pod {
    /// Object as it is stored.
    pub(super) object: Arc<Value>,
    /// True if its deletion has begun.
    pub(super) deleting: bool,
    /// True if it has ended, well or not.
    pub(super) ended: bool,
    /// True if it is ready.
    pub(super) ready: bool,
    /// Higher is more important.
    pub(super) priority: i64,
    /// Resources it asks of a node.
    pub(super) requests: Resources,
    /// CPU and memory that it counts for where nodes are scored by what is free.
    pub(super) scored: [Quantity; 2],
}

impl Pod {
    pub(super) fn of(object: &Arc<Value>) -> Self {
        Self {
            deleting: object::is_deleting(object),
            ended: has_ended(object),
            ready: is_ready(object),
            priority: number(object, "/spec/priority"),
            requests: requests::of(object),
            scored: requests::for_score(object, true),
            object: Arc::clone(object),
        }
    }

    /// Returns whether it counts towards what its controller wants: it neither ended nor is about to.
    pub(super) fn is_active(&self) -> bool {
        !self.deleting && !self.ended
    }
}
