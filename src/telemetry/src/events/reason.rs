//! The reasons events carry. A reason's name is an API: alerts and scripts match on it.

use std::time::Duration;

use karpenter_model::names::reason;

/// Whether an event reports progress or trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

impl Severity {
    /// The value of the event's `type` field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// A limit on how often one reason is emitted, over all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

/// Why an event is emitted, and how often it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    name: &'static str,
    severity: Severity,
    period: Duration,
    unchanged: Duration,
    rate: Option<Rate>,
    about: &'static [&'static str],
    distinguished_by: &'static [&'static str],
}

impl Reason {
    const fn normal(name: &'static str) -> Self {
        Self::unlisted(name, Severity::Normal)
    }

    const fn warning(name: &'static str) -> Self {
        Self::unlisted(name, Severity::Warning)
    }

    const fn about(self, kinds: &'static [&'static str]) -> Self {
        Self { about: kinds, ..self }
    }

    const fn distinguished_by(self, values: &'static [&'static str]) -> Self {
        Self { distinguished_by: values, ..self }
    }

    const fn every(self, period: Duration) -> Self {
        Self { period, ..self }
    }

    const fn unchanged_every(self, unchanged: Duration) -> Self {
        Self { unchanged, ..self }
    }

    const fn limited(self, rate: Rate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The reason of a status-condition transition, which is the condition's type; never suppressed.
    pub const fn condition(condition_type: &'static str) -> Self {
        Self::unlisted(condition_type, Severity::Normal).every(Duration::ZERO)
    }

    /// A reason that is not in the table, suppressed as most are.
    pub const fn unlisted(name: &'static str, severity: Severity) -> Self {
        Self {
            name,
            severity,
            period: PERIOD,
            unchanged: Duration::ZERO,
            rate: None,
            about: &[],
            distinguished_by: &[],
        }
    }

    /// The value of the event's `reason` field.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Progress or trouble.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// How long an equal event is suppressed.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// How long an equal event is suppressed while it also says the same; at least [`Self::period`]. For what is true of
    /// most machines most of the time.
    pub fn unchanged_period(&self) -> Duration {
        self.unchanged.max(self.period)
    }

    /// Kinds of the objects such an event is about; empty for a reason that is not in the table.
    pub fn kinds(&self) -> &'static [&'static str] {
        self.about
    }

    /// What tells two events about one object apart. An event may leave out the last of them.
    pub fn distinctions(&self) -> &'static [&'static str] {
        self.distinguished_by
    }

    /// The limit over all objects, if there is one.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }
}

/// How often what goes on being true is written again: as often as client-go does with a series of events. API servers keep
/// events for an hour, so that it is always there.
const STANDING: Duration = Duration::from_mins(30);

/// An event about a machine is published on both of its objects.
const MACHINE: &[&str] = &["Node", "NodeClaim"];

/// How long equal events are suppressed unless their reason says otherwise.
pub const PERIOD: Duration = Duration::from_mins(2);

macro_rules! reasons {
    ($( $(#[doc = $doc:literal])+ $id:ident = $value:expr; )*) => {
        $( $(#[doc = $doc])+ pub const $id: Reason = $value; )*

        /// The reason called `name`, if there is one. Of two with the same name the first.
        pub fn find(name: &str) -> Option<Reason> {
            [$($id),*].into_iter().find(|reason| reason.name == name)
        }

        /// Every named reason with its meaning: the source of the events reference page.
        pub fn reference() -> Vec<(Reason, &'static str)> {
            vec![$( ($id, concat!($($doc),+).trim_ascii_start()) ),*]
        }
    };
}

reasons! {
    /// A node or NodeClaim may not be disrupted now, or a budget of the NodePool is used up.
    DISRUPTION_BLOCKED = Reason::normal(reason::DISRUPTION_BLOCKED)
        .unchanged_every(STANDING)
        .about(MACHINE)
        .distinguished_by(&["blocker"]);
    /// A budget of the NodePool lets no node go.
    DISRUPTION_BLOCKED_BY_BUDGET = Reason::normal(reason::DISRUPTION_BLOCKED)
        .every(Duration::from_mins(1))
        .about(&["NodePool"])
        .distinguished_by(&["reason"]);
    /// A replacement is being launched.
    DISRUPTION_LAUNCHING = Reason::normal(reason::DISRUPTION_LAUNCHING)
        .about(&["NodeClaim"])
        .distinguished_by(&["reason"]);
    /// A replacement is not ready yet.
    DISRUPTION_WAITING_READINESS = Reason::normal(reason::DISRUPTION_WAITING_READINESS).about(&["NodeClaim"]);
    /// The node is being removed.
    DISRUPTION_TERMINATING = Reason::normal(reason::DISRUPTION_TERMINATING)
        .about(MACHINE)
        .distinguished_by(&["reason"]);
    /// Consolidation leaves the node alone.
    UNCONSOLIDATABLE = Reason::normal(reason::UNCONSOLIDATABLE)
        .every(Duration::from_mins(15))
        .unchanged_every(STANDING)
        .about(MACHINE);
    /// A cheaper replacement was found and is being checked.
    CONSOLIDATION_CANDIDATE = Reason::normal(reason::CONSOLIDATION_CANDIDATE)
        .about(MACHINE)
        .distinguished_by(&["command"]);
    /// The second look dropped a replacement.
    CONSOLIDATION_REJECTED = Reason::normal(reason::CONSOLIDATION_REJECTED)
        .about(MACHINE)
        .distinguished_by(&["command", "reason"]);
    /// The Balanced policy approved a move.
    CONSOLIDATION_APPROVED = Reason::normal(reason::CONSOLIDATION_APPROVED)
        .about(&["Node", "NodeClaim", "NodePool"]);
    /// A brake holds the disruption of a node or NodePool back; not in the reference.
    DISRUPTION_HELD = Reason::warning(reason::DISRUPTION_HELD)
        .every(Duration::from_mins(15))
        .about(&["Node", "NodeClaim", "NodePool"]);
    /// No NodePool can take the pod.
    FAILED_SCHEDULING = Reason::warning(reason::FAILED_SCHEDULING)
        .every(Duration::from_mins(5))
        .about(&["Pod"])
        .distinguished_by(&["gist"]);
    /// The requirements of the NodePool leave no instance type.
    NO_COMPATIBLE_INSTANCE_TYPES = Reason::warning(reason::NO_COMPATIBLE_INSTANCE_TYPES)
        .every(Duration::from_mins(1))
        .about(&["NodePool"]);
    /// The pod is expected on a node or NodeClaim.
    NOMINATED = Reason::normal(reason::NOMINATED).limited(Rate { per_second: 5, burst: 10 }).about(&["Pod"]);
    /// Too many nodes are unhealthy for repair to be safe.
    NODE_REPAIR_BLOCKED = Reason::warning(reason::NODE_REPAIR_BLOCKED)
        .every(Duration::from_mins(15))
        .about(&["Node", "NodeClaim", "NodePool"]);
    /// The instance of the node has rebooted.
    REBOOT_OBSERVED = Reason::normal(reason::REBOOT_OBSERVED).about(&["Node"]);
    /// A reboot was given up.
    REBOOT_FAILED = Reason::warning(reason::REBOOT_FAILED).about(MACHINE);
    /// The pod is deleted because its node reached its termination deadline.
    DISRUPTED = Reason::normal(reason::DISRUPTED).about(&["Pod"]);
    /// The pod was evicted from a node that is being removed.
    EVICTED = Reason::normal(reason::EVICTED).about(&["Pod"]);
    /// Pods still keep the node from being removed.
    FAILED_DRAINING = Reason::warning(reason::FAILED_DRAINING).about(&["Node"]).distinguished_by(&["pod"]);
    /// The cloud refuses to terminate the instance, so that node and NodeClaim stay; not in the reference.
    TERMINATION_FAILED = Reason::warning(reason::TERMINATION_FAILED)
        .every(Duration::from_mins(15))
        .about(MACHINE);
    /// The node will be removed at its deadline whatever its pods ask for.
    TERMINATION_GRACE_PERIOD_EXPIRING = Reason::warning(reason::TERMINATION_GRACE_PERIOD_EXPIRING)
        .about(MACHINE);
    /// Volumes are still attached to the node that is being removed.
    AWAITING_VOLUME_DETACHMENT = Reason::normal(reason::AWAITING_VOLUME_DETACHMENT).about(&["Node"]);
    /// The node does not have what its NodeClaim promised.
    FAILED_CONSISTENCY_CHECK = Reason::warning(reason::FAILED_CONSISTENCY_CHECK)
        .about(&["NodeClaim"])
        .distinguished_by(&["message"]);
    /// The cloud had no capacity for the NodeClaim, or for the one that a pod waits for.
    INSUFFICIENT_CAPACITY = Reason::warning(reason::INSUFFICIENT_CAPACITY).about(&["NodeClaim", "Pod"]);
    /// The node joined without the taint that keeps pods away until it is registered.
    UNREGISTERED_TAINT_MISSING = Reason::warning(reason::UNREGISTERED_TAINT_MISSING).about(&["NodeClaim"]);
    /// The node has registered long ago and is not initialized; not in the reference.
    NODE_NOT_INITIALIZED = Reason::warning(reason::NODE_NOT_INITIALIZED)
        .every(Duration::from_mins(15))
        .about(&["Node", "NodeClaim", "Pod"]);
    /// The node does not expire, because it took as long to come as it may live; not in the reference.
    EXPIRY_HELD = Reason::warning(reason::EXPIRY_HELD)
        .every(Duration::from_mins(15))
        .about(&["NodeClaim", "NodePool"]);
    /// The node expires soon, and its pool can launch nothing in its place; not in the reference.
    EXPIRES_UNREPLACED = Reason::warning(reason::EXPIRES_UNREPLACED)
        .every(Duration::from_mins(15))
        .about(&["NodeClaim", "NodePool", "Pod"]);
    /// The do-not-disrupt annotation of the pod is neither `true` nor a positive duration.
    INVALID_DO_NOT_DISRUPT = Reason::warning(reason::INVALID_DO_NOT_DISRUPT)
        .about(&["Pod"])
        .distinguished_by(&["message"]);
    /// The pod is protected until the given time.
    DO_NOT_DISRUPT_UNTIL = Reason::normal(reason::DO_NOT_DISRUPT_UNTIL).about(&["Pod"]).distinguished_by(&["end"]);
    /// The protection of the pod has ended.
    DO_NOT_DISRUPT_ELAPSED = Reason::normal(reason::DO_NOT_DISRUPT_ELAPSED).about(&["Pod"]);
    /// The finalizer is gone.
    FINALIZED = Reason::normal(reason::FINALIZED).every(Duration::ZERO).about(MACHINE);
    /// Nodes came up for pods like this one and the scheduler did not use them; not in the reference.
    PROMISED_NODE_NOT_USED = Reason::warning(reason::PROMISED_NODE_NOT_USED)
        .every(Duration::from_mins(5))
        .about(&["Pod", "NodeClaim", "NodePool"])
        .distinguished_by(&["until"]);
    /// A node has other devices than its type was to bring along; not in the reference.
    DEVICES_NOT_AS_DESCRIBED = Reason::warning(reason::DEVICES_NOT_AS_DESCRIBED)
        .every(Duration::from_mins(5))
        .about(&["NodeClaim"])
        .distinguished_by(&["driver"]);
    /// A plan broke a rule and was not applied; not in the reference.
    PLAN_REFUSED = Reason::warning(reason::PLAN_REFUSED).every(Duration::from_mins(5)).about(&["NodePool"]);
    /// The cluster is shifted away from a zone the NodePool could launch in.
    ZONAL_SHIFT_ACTIVE = Reason::warning(reason::ZONAL_SHIFT_ACTIVE).about(&["NodePool"]).distinguished_by(&["zone"]);
    /// A shift away from a zone the NodePool could launch in is over.
    ZONAL_SHIFT_CLEARED = Reason::normal(reason::ZONAL_SHIFT_CLEARED).about(&["NodePool"]).distinguished_by(&["zone"]);
    /// The cloud takes a spot instance back.
    SPOT_INTERRUPTED = Reason::warning(reason::SPOT_INTERRUPTED).about(MACHINE);
    /// The cloud takes a reserved instance back.
    CAPACITY_RESERVATION_INTERRUPTED = Reason::warning(reason::CAPACITY_RESERVATION_INTERRUPTED).about(MACHINE);
    /// The cloud advises to move off a spot instance.
    SPOT_REBALANCE = Reason::normal(reason::SPOT_REBALANCE).about(MACHINE);
    /// The instance is stopping.
    INSTANCE_STOPPING = Reason::warning(reason::INSTANCE_STOPPING).about(MACHINE);
    /// The instance is terminating.
    INSTANCE_TERMINATING = Reason::warning(reason::INSTANCE_TERMINATING).about(MACHINE);
    /// The instance is impaired or has maintenance ahead.
    INSTANCE_UNHEALTHY = Reason::warning(reason::INSTANCE_UNHEALTHY).about(MACHINE);
    /// The NodeClaim is deleted because its instance is going away.
    TERMINATING_ON_INTERRUPTION = Reason::warning(reason::TERMINATING_ON_INTERRUPTION).about(MACHINE);
    /// NodeClaims still use the node class that is being deleted.
    WAITING_ON_NODE_CLAIM_TERMINATION = Reason::normal(reason::WAITING_ON_NODE_CLAIM_TERMINATION).about(&["EC2NodeClass"]);
}
