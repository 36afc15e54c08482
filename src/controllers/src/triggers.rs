//! Triggers of a plan: pods that wait, pools that become able to take nodes, buffers and overlays that change.

use karpenter_api::{ConditionStatus, NodePool};
use karpenter_model::names::condition;
use karpenter_model::{BufferKey, NodeId, PodUid, PoolUid};
use kube::ResourceExt;
use tokio::sync::mpsc;

use crate::view::{Conditioned, PodSeen, StatusSeen};

/// Trigger of a plan. A trigger that equals one of the same batch does not extend the batch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trigger {
    /// A pod waits.
    Pod(PodUid),
    /// A pool has become able to take nodes.
    Pool(PoolUid),
    /// The pods of a node that is being disrupted will need a place soon.
    DisruptedNode(NodeId),
    /// A capacity buffer was looked at.
    Buffer(BufferKey),
    /// Other overlays are in force: pods may have waited for them.
    Overlays,
    /// The view has become complete: pods from before were not planned for.
    ViewComplete,
    /// The last plan left pods out.
    Backlog,
    /// A node has come, and a pod that it was launched for still waits.
    LeftOver,
}

/// The triggering end.
#[derive(Clone)]
pub(crate) struct Triggers(mpsc::UnboundedSender<Trigger>);

impl Triggers {
    /// A channel for triggers.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Trigger>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Asks for a pass if a watch shows a pod that waits.
    pub(crate) fn pod(&self, seen: &PodSeen) {
        let pod = seen.pod();
        if !matches!(seen, PodSeen::Deleted(_)) && pod.is_provisionable() {
            self.send(Trigger::Pod(pod.uid.clone()));
        }
    }

    /// Asks for a pass if a pool has just become able to take nodes: pods may have waited for that. A node class that
    /// becomes ready shows as a pool that does.
    pub(crate) fn pool(&self, seen: &StatusSeen) {
        if let StatusSeen::Changed { old: Conditioned::Pool(old), new: Conditioned::Pool(new) } = seen
            && opens(old, new)
        {
            self.send(Trigger::Pool(new.uid().unwrap_or_default().as_str().into()));
        }
    }

    /// Asks for a pass because a capacity buffer was looked at.
    pub(crate) fn buffer(&self, key: &BufferKey) {
        self.send(Trigger::Buffer(key.clone()));
    }

    /// Asks for a pass because the view is complete, so that plans can be made.
    pub(crate) fn view_complete(&self) {
        self.send(Trigger::ViewComplete);
    }

    /// Asks for a pass because other overlays are in force.
    pub(crate) fn overlays(&self) {
        self.send(Trigger::Overlays);
    }

    fn send(&self, trigger: Trigger) {
        // Fails only when the provisioner has ended.
        let _ended = self.0.send(trigger);
    }
}

/// Returns whether a pool is ready and was not, or is ready and has another spec than before.
fn opens(old: &NodePool, new: &NodePool) -> bool {
    let ready = |pool: &NodePool| {
        let conditions = pool.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|one| one.kind == condition::READY && one.status == ConditionStatus::True)
    };
    // A changed spec may take pods that the one before refused.
    ready(new) && (!ready(old) || old.metadata.generation != new.metadata.generation)
}
