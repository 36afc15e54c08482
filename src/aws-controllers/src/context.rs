//! Context of every reconciler of this crate.

use std::sync::Arc;

use karpenter_api::EC2NodeClass;
use karpenter_aws::{AwsProvider, NODE_CLASS_KIND};
use karpenter_controllers::Context;
use karpenter_telemetry::events::{Event, ObjectRef, Reason};
use kube::ResourceExt;

/// The common surroundings plus the AWS provider. Cheap to clone.
#[derive(Clone)]
pub struct AwsContext {
    /// API server, clock, events, metrics, shared view.
    pub common: Context,
    /// The provider whose knowledge is filled here.
    pub aws: Arc<AwsProvider>,
}

impl AwsContext {
    /// Joins the two. From here on nothing is planned before the node classes have been listed.
    pub fn new(common: Context, aws: Arc<AwsProvider>) -> Self {
        common.view.wait_for(NODE_CLASS_KIND.kind);
        Self { common, aws }
    }

    /// Publishes an event on a `NodeClass`. A text that changes is published again.
    pub fn publish_event(&self, class: &EC2NodeClass, reason: Reason, message: impl Into<String>) {
        let message = message.into();
        let (name, uid) = (class.name_any(), class.uid().unwrap_or_default());
        let object = ObjectRef::cluster_scoped("karpenter.k8s.aws/v1", "EC2NodeClass", name, uid);
        self.common.recorder.publish(Event::new(object, reason, message.clone()).distinguished_by(message));
    }

    /// Returns whether claims, Nodes and pools have been listed completely; nothing is deleted before.
    pub(crate) fn cluster_known(&self) -> bool {
        self.common.view.unlisted().is_empty()
    }
}
