//! Answers of step functions: effects in order, condition changes, and the time of the next look.
//!
//! The caller carries the effects out in order and stops at the first that fails; condition changes are written
//! after them in one status patch, and milestones are reported when everything else has been written.
//! Everything here is data: no step function performs anything.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{
    Annotations, Claim, ClaimName, ClaimUid, Condition, ConditionStatus, ConditionType, ImageId, LabelKey,
    LabelValue, Labels, NodeName, NoticeKind, Pod, PodKey, PodUid, PoolName, ProviderId, Resources, Taint,
};

/// The outcome of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Effects to carry out, in order.
    pub effects: Vec<Effect>,
    /// Changes to write into the claim's conditions afterwards.
    pub conditions: Vec<Change>,
    /// Time of the next run.
    pub wake: Wake,
}

/// Time at which a step is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wake {
    /// Only when something it depends on changes.
    #[default]
    OnEvent,
    /// After this long, or when something changes.
    After(Duration),
    /// After the caller's exponential back-off: something failed.
    Backoff,
}

impl Wake {
    /// The earlier of two wishes. A back-off wins: the caller's delays bound it anyway.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Backoff, _) | (_, Self::Backoff) => Self::Backoff,
            (Self::OnEvent, wish) | (wish, Self::OnEvent) => wish,
            (Self::After(left), Self::After(right)) => Self::After(left.min(right)),
        }
    }
}

/// A change of one condition of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub kind: ConditionType,
    /// New value; `None` removes the condition (never a root or one of its dependents).
    pub to: Option<ConditionValue>,
}

/// Value of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionValue {
    /// True, false or unknown.
    pub status: ConditionStatus,
    /// Stable `UpperCamelCase` word.
    pub reason: String,
    /// Text for people.
    pub message: String,
}

impl Change {
    /// `True`, with the type as reason and no message (spec disruption 0.2).
    pub fn holds(kind: ConditionType) -> Self {
        Self::with(kind, ConditionStatus::True, kind.as_str(), "")
    }

    /// `Unknown` for this reason.
    pub fn unknown(kind: ConditionType, reason: &str, message: impl Into<String>) -> Self {
        Self::with(kind, ConditionStatus::Unknown, reason, message)
    }

    /// `False` for this reason.
    pub fn fails(kind: ConditionType, reason: &str, message: impl Into<String>) -> Self {
        Self::with(kind, ConditionStatus::False, reason, message)
    }

    /// `Drifted`, with the reason as message too (spec disruption 4.1).
    pub fn drifted(reason: &str) -> Self {
        Self::with(ConditionType::Drifted, ConditionStatus::True, reason, reason)
    }

    /// Removal.
    pub fn removed(kind: ConditionType) -> Self {
        Self { kind, to: None }
    }

    /// The condition as it is, written again so that its observed generation follows the object's.
    pub fn restamp(claim: &Claim, kind: ConditionType) -> Option<Self> {
        let Condition { status, reason, message, .. } = claim.conditions.get(&kind)?;
        Some(Self::with(kind, *status, reason, message.as_str()))
    }

    fn with(kind: ConditionType, status: ConditionStatus, reason: &str, message: impl Into<String>) -> Self {
        Self { kind, to: Some(ConditionValue { status, reason: reason.to_owned(), message: message.into() }) }
    }
}

/// One thing to do. Effects without an object mean the claim or node the step was asked about.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Put the termination finalizer on the claim (optimistic lock); nothing else may precede it.
    AddFinalizer,
    /// Take the termination finalizer off the claim (optimistic lock); `NotFound` is success.
    RemoveFinalizer,
    /// Ask the provider to launch, and feed the answer to [`crate::claim::launch::answered`].
    Launch,
    /// Ask the provider which machine was started for the claim, which has none recorded, and feed the answer to
    /// [`crate::claim::finalize::looked_up`].
    LookUp,
    /// Write the id of the claim's machine into its status.
    RecordMachine(ProviderId),
    /// Merge what the provider resolved into the claim's metadata and status.
    RecordLaunch(Box<Launched>),
    /// Write `status.nodeName`.
    RecordNode(NodeName),
    /// Add a label to the claim.
    LabelClaim(LabelKey, LabelValue),
    /// Write annotations of the claim.
    AnnotateClaim(Annotations),
    /// Remove annotations of the claim.
    ForgetAnnotations(Vec<String>),
    /// Write `status.lastPodEventTime`.
    RecordPodEvent(Timestamp),
    /// Delete the claim; count it under the cause only if the call succeeds.
    DeleteClaim(DeletionCause),
    /// Tell the scheduler which pods the claim was launched for, and that this is its Node. A hint: what cannot be written is
    /// left out.
    Nominate(NodeName),
    /// Change a Node; with an optimistic lock when taints are part of it.
    PatchNode(NodePatch),
    /// Delete a Node; `NotFound` is success.
    DeleteNode(NodeName),
    /// Take the termination finalizer off a Node.
    RemoveNodeFinalizer(NodeName),
    /// Ask the provider to terminate; feed the answer to the same stage.
    Terminate(ProviderId),
    /// Put a pod into the eviction queue; adding it twice is harmless.
    Evict(PodRef),
    /// Delete a pod with this many seconds of grace, at least 1; `NotFound` is success.
    DeletePod(PodRef, u32),
    /// Note an outcome in the pool's registration health.
    RegistrationHealth(RegistrationOutcome),
    /// Tell people.
    Event(Event),
    /// Something worth a metric and a log line has happened.
    Milestone(Milestone),
}

impl Effect {
    /// Writes one annotation of the claim.
    pub(crate) fn annotate_claim(key: &str, text: String) -> Self {
        Self::AnnotateClaim(Annotations::from([(key.to_owned(), text)]))
    }
}

/// An instant as annotations and messages have it: whole seconds, RFC 3339.
pub(crate) fn whole_seconds(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Machine that the provider resolved for a claim. In an effect its labels and annotations are those the claim is to have.
#[derive(Debug, Clone, PartialEq)]
pub struct Launched {
    /// Id of the machine.
    pub provider_id: ProviderId,
    /// Image it was started from.
    pub image_id: Option<ImageId>,
    pub labels: Labels,
    pub annotations: Annotations,
    /// Expected capacity.
    pub capacity: Resources,
    /// Expected allocatable.
    pub allocatable: Resources,
}

/// Cause for which a claim is deleted: the `reason` label of `karpenter_nodeclaims_disrupted_total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletionCause {
    /// No offering had capacity.
    InsufficientCapacity,
    /// The node class cannot be launched from.
    NodeClassNotReady,
    /// Not launched in time.
    LaunchTimeout,
    /// Launched, but no Node registered in time, or it has been gone for as long.
    RegistrationTimeout,
    /// Registered, but not initialized in time, or not needed any more by then.
    InitializationTimeout,
    /// Older than its `expireAfter`.
    Expired,
    /// Its machine is gone.
    GarbageCollected,
    /// Its Node has been broken for too long.
    Unhealthy,
    /// The cloud takes its machine, or has found it broken.
    Interrupted(NoticeKind),
    /// Its Node was deleted.
    NodeDeleted,
}

impl DeletionCause {
    /// The metric label; `None` for deletions that only follow another one and are not counted.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::InsufficientCapacity => Some("insufficient_capacity"),
            Self::NodeClassNotReady => Some("nodeclass_not_ready"),
            Self::LaunchTimeout => Some("launch_timeout"),
            Self::RegistrationTimeout => Some("registration_timeout"),
            Self::InitializationTimeout => Some("initialization_timeout"),
            Self::Expired => Some("expired"),
            Self::GarbageCollected => Some("garbage_collected"),
            Self::Unhealthy => Some("unhealthy"),
            Self::Interrupted(kind) => Some(kind.as_str()),
            Self::NodeDeleted => None,
        }
    }
}

/// Changes to a Node. Taints are given as differences so that fields we do not model (`timeAdded`) survive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePatch {
    pub node: NodeName,
    /// Add the termination finalizer.
    pub add_finalizer: bool,
    /// Add an owner reference to this claim, blocking its deletion.
    pub add_owner: Option<(ClaimName, ClaimUid)>,
    /// Labels to set.
    pub labels: Labels,
    /// Labels to remove.
    pub remove_labels: Vec<LabelKey>,
    /// Annotations to set.
    pub annotations: Annotations,
    /// Taints to remove, by key and effect.
    pub remove_taints: Vec<Taint>,
    /// Taints to append.
    pub add_taints: Vec<Taint>,
}

impl NodePatch {
    /// A patch of this Node that changes nothing yet.
    pub fn of(node: &NodeName) -> Self {
        Self { node: node.clone(), ..Self::default() }
    }

    /// A patch that makes a Node with these taints have the disrupted taint.
    pub fn with_disrupted_taint(node: &NodeName, taints: &[Taint]) -> Self {
        let mut patch = Self::of(node);
        let ours = Taint::disrupted();
        if !taints.iter().any(|taint| taint.matches(&ours)) {
            // Another effect of the key would stay behind when ours is taken off.
            patch.remove_taints = taints.iter().filter(|taint| taint.key == ours.key).cloned().collect();
            patch.add_taints = vec![ours];
        }
        patch
    }

    /// A patch that takes the disrupted taint off a Node with these taints.
    pub fn without_disrupted_taint(node: &NodeName, taints: &[Taint]) -> Self {
        let mut patch = Self::of(node);
        let ours = Taint::disrupted();
        if taints.iter().any(|taint| taint.matches(&ours)) {
            patch.remove_taints = vec![ours];
        }
        patch
    }

    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::of(&self.node)
    }
}

/// A pod, exactly this one and not another of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Namespace and name.
    pub key: PodKey,
    /// Uid, sent as precondition.
    pub uid: PodUid,
}

impl PodRef {
    /// Refers to this very pod.
    pub fn of(pod: &Pod) -> Self {
        Self { key: pod.key.clone(), uid: pod.uid.clone() }
    }
}

/// One outcome for the pool's registration health (spec disruption 1.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// A Node registered.
    Success,
    /// A claim was given up before its Node registered, with the reason and message to show on the pool.
    Failure {
        /// Condition reason.
        reason: String,
        /// Condition message.
        message: String,
    },
}

/// A Kubernetes Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Object it is about.
    pub about: About,
    /// Stable `UpperCamelCase` word; whether the event is a warning follows from it.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// An event repeats another one of the same reason and object only if their topics are equal.
    pub topic: Option<String>,
}

/// The object of an [`Event`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    Claim(ClaimName),
    Node(NodeName),
    Pod(PodRef),
    Pool(PoolName),
}

impl Event {
    /// An event without a topic.
    pub fn new(about: About, reason: &'static str, message: impl Into<String>) -> Self {
        Self { about, reason, message: message.into(), topic: None }
    }

    /// Sets the topic of the event.
    #[must_use]
    pub fn on(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }
}

/// A point in the life of a claim or node that dashboards count and logs show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Milestone {
    /// `launched nodeclaim`
    Launched(ProviderId),
    /// `registered nodeclaim`, `karpenter_nodes_created_total`
    Registered(NodeName),
    /// `initialized nodeclaim`
    Initialized(NodeName),
    /// `deleting unhealthy node`, `karpenter_nodeclaims_unhealthy_disrupted_total`
    Unhealthy {
        node: NodeName,
        /// Type of the node condition that was tolerated for too long.
        condition: String,
    },
    /// `terminating due to timeout`
    TimedOut(DeletionCause, Duration),
    Tainted(NodeName),
    /// `karpenter_nodes_drained_total`
    Drained(NodeName),
    /// `karpenter_nodeclaims_instance_termination_duration_seconds`, since termination was asked for.
    InstanceGone(Duration),
    /// `deleted node`, nodes terminated, termination and lifetime durations.
    NodeDeleted {
        node: NodeName,
        /// Since its deletion timestamp.
        terminating: Duration,
        /// Since its creation.
        lifetime: Duration,
    },
    /// `deleted nodeclaim`, claims terminated and their termination duration.
    ClaimDeleted(Duration),
    /// `annotated nodeclaim` with its termination deadline.
    DeadlineSet(Timestamp),
    /// A reboot has ended; `karpenter_nodes_reboots_total` and its durations.
    Rebooted {
        /// How it ended.
        result: RebootResult,
        /// Since it was requested.
        took: Duration,
        /// Since the cloud was asked, where the node is back.
        recovery: Option<Duration>,
    },
}

/// End of a reboot: the label `result` of its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootResult {
    /// The machine has booted and its Node is ready.
    Succeeded,
    /// The cloud did not reboot it.
    ProviderError,
    /// The Node did not become ready in time.
    RecoveryTimeout,
    /// The request could not be read.
    InvalidRequest,
}

impl RebootResult {
    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::ProviderError => "provider_error",
            Self::RecoveryTimeout => "recovery_timeout",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

impl Step {
    /// A step that does nothing and waits for events.
    pub fn idle() -> Self {
        Self::default()
    }

    /// A step with these effects.
    pub fn of(effects: impl IntoIterator<Item = Effect>) -> Self {
        Self { effects: effects.into_iter().collect(), ..Self::default() }
    }

    /// Adds the change of a condition.
    #[must_use]
    pub(crate) fn and_condition(mut self, change: impl Into<Option<Change>>) -> Self {
        self.conditions.extend(change.into());
        self
    }

    /// Adds a wake-up; the soonest counts.
    #[must_use]
    pub(crate) fn and_wake(mut self, wake: Wake) -> Self {
        self.wake = self.wake.sooner(wake);
        self
    }

    /// Both steps, this one first; the stages of one pass are joined like this.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.effects.extend(next.effects);
        self.conditions.extend(next.conditions);
        self.wake = self.wake.sooner(next.wake);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sooner_wake_wins_and_backoff_beats_both() {
        let after = |seconds| Wake::After(Duration::from_secs(seconds));
        let table = [
            (Wake::OnEvent, Wake::OnEvent, Wake::OnEvent),
            (Wake::OnEvent, after(5), after(5)),
            (after(3), after(5), after(3)),
            (after(3), Wake::Backoff, Wake::Backoff),
            (Wake::OnEvent, Wake::Backoff, Wake::Backoff),
        ];
        for (left, right, expected) in table {
            assert_eq!(left.sooner(right), expected);
            assert_eq!(right.sooner(left), expected);
        }
    }
}
