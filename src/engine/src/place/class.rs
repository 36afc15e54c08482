//! Pods that ask for the same are one class: they are rejected, compiled and relaxed once.

use indexmap::IndexMap;
use karpenter_model::{
    HostPort, Labels, Namespace, NodeTerm, Pod, PodAffinity, PodOutcome, Resources, SpreadConstraint,
    Toleration, VolumeClaim,
};

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::place::topology::ProfileId;
use crate::rules::RuleSetId;

/// Everything about a pod that can change where it goes. Two pods with equal signatures are interchangeable.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signature<'a> {
    requests: &'a Resources,
    node_selector: &'a Labels,
    required_terms: &'a [NodeTerm],
    preferred_terms: &'a [(i32, NodeTerm)],
    tolerations: &'a [Toleration],
    host_ports: &'a [HostPort],
    spread: &'a [SpreadConstraint],
    affinity: &'a PodAffinity,
    anti_affinity: &'a PodAffinity,
    volumes: Option<(&'a Namespace, &'a [VolumeClaim])>,
    has_resource_claims: bool,
    /// Who it is to other pods; only looked at when some pod has rules about others.
    identity: Option<(&'a Namespace, &'a Labels)>,
}

impl<'a> Signature<'a> {
    /// The signature of `pod`; `social` when labels and namespace matter.
    pub(crate) fn of(pod: &'a Pod, social: bool) -> Self {
        Self {
            requests: &pod.requests,
            node_selector: &pod.node_selector,
            required_terms: &pod.required_terms,
            preferred_terms: &pod.preferred_terms,
            tolerations: &pod.tolerations,
            host_ports: &pod.host_ports,
            spread: &pod.spread,
            affinity: &pod.pod_affinity,
            anti_affinity: &pod.pod_anti_affinity,
            volumes: (!pod.volumes.is_empty()).then_some((&pod.key.namespace, &pod.volumes)),
            has_resource_claims: pod.has_resource_claims,
            identity: social.then_some((&pod.key.namespace, &pod.labels)),
        }
    }
}

/// A class of interchangeable pods.
#[derive(Debug)]
pub(crate) enum Class {
    /// Not placed at all.
    Refused(PodOutcome),
    /// Placed by the first of these asks that something accepts; each is one relaxation step further.
    Asks(Vec<AskId>),
}

/// Number of an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AskId(usize);

/// What a pod asks of a machine at one relaxation step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ask {
    /// Requirements; `None` when they contradict each other.
    pub(crate) rules: Option<RuleSetId>,
    /// Requests.
    pub(crate) requests: Resources,
    /// The same, dense.
    pub(crate) amounts: Amounts,
    /// Tolerations, those added by relaxation included.
    pub(crate) tolerations: Vec<Toleration>,
    /// Host ports.
    pub(crate) host_ports: Vec<HostPort>,
    /// What it is to other pods, where any pod has rules about others.
    pub(crate) profile: Option<ProfileId>,
}

/// What the planner has learnt about an ask. Machines and bins only ever get narrower during a pass, so a
/// refusal is final and never asked for again.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Existing machines before this one refuse.
    pub(crate) first_node: usize,
    /// Bins that refuse.
    pub(crate) refused_bins: Bits,
    /// How many bins refuse.
    pub(crate) refused_count: usize,
    /// Everything that exists and every pool refuses, for good.
    pub(crate) exhausted: bool,
    /// Version of the rules about others that were in the way; worth another try once it has grown.
    pub(crate) stuck_at: Option<u64>,
    /// Per kind of machine: whether labels and taints are acceptable, once known.
    pub(crate) kinds: Vec<Option<bool>>,
}

/// All asks of a pass.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    asks: IndexMap<Ask, Memory>,
}

impl Asks {
    /// The number of `ask`.
    pub(crate) fn intern(&mut self, ask: Ask) -> AskId {
        let entry = self.asks.entry(ask);
        let id = AskId(entry.index());
        entry.or_default();
        id
    }

    /// The ask behind `id`.
    pub(crate) fn get(&self, id: AskId) -> &Ask {
        let (ask, _) = self.asks.get_index(id.0).expect("invariant: asks are never removed");
        ask
    }

    /// The ask behind `id` and what is known about it.
    pub(crate) fn get_mut(&mut self, id: AskId) -> (&Ask, &mut Memory) {
        self.asks.get_index_mut(id.0).expect("invariant: asks are never removed")
    }

    /// All asks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Ask> {
        self.asks.keys()
    }
}

impl Memory {
    /// Remembers that `bin` refuses.
    pub(crate) fn refuse(&mut self, bin: usize) {
        self.refused_bins.insert(bin);
        self.refused_count += 1;
    }
}
