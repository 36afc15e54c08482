//! Pods that ask for the same are one class: they are rejected, compiled and relaxed once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use indexmap::IndexMap;
use karpenter_model::{
    HostPort, Labels, Namespace, NodeTerm, Pod, PodAffinity, PodOutcome, Resources, Settings,
    SpreadConstraint, Toleration,
};

use crate::amounts::{Amounts, ResourceId};
use crate::bits::Bits;
use crate::place::default_spread;
use crate::place::topology::ProfileId;
use crate::place::volumes::NeedId;
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
    volumes: NeedId,
    has_resource_claims: bool,
    spread_by_default: bool,
    /// It has a machine and would have to leave it.
    moves: bool,
    /// Who it is to other pods; only looked at when some pod has rules about others.
    identity: Option<(&'a Namespace, &'a Labels)>,
}

impl<'a> Signature<'a> {
    /// The signature of `pod`, whose volumes ask for `volumes`; `social` when labels and namespace matter,
    /// `moves` when it has a machine that may be taken away.
    pub(crate) fn of(pod: &'a Pod, volumes: NeedId, settings: &Settings, social: bool, moves: bool) -> Self {
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
            volumes,
            has_resource_claims: pod.has_resource_claims,
            spread_by_default: default_spread::concerns(pod, settings),
            moves,
            identity: social.then_some((&pod.key.namespace, &pod.labels)),
        }
    }
}

/// A class of interchangeable pods.
#[derive(Debug, Clone)]
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
    /// Where its volumes can be attached: any one of these; none when they exclude each other.
    pub(crate) places: Vec<RuleSetId>,
    /// Volumes other pods mount too: their number, and the resource each takes one of.
    pub(crate) shared: Vec<(usize, ResourceId)>,
    /// What it is to other pods, where any pod has rules about others.
    pub(crate) profile: Option<ProfileId>,
    /// It has a machine and would have to leave it.
    pub(crate) moves: bool,
}

/// What the planner has learnt about an ask. Machines and bins only ever get narrower during a pass, so a
/// refusal is final and never asked for again; what-if questions each begin a pass of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    /// The pass the rest is about, apart from `unsuitable` and `kinds`.
    pass: u64,
    /// Existing machines that refuse in every pass: labels, taints, or no room even before anything moves.
    pub(crate) unsuitable: Bits,
    /// Existing machines that refuse for good in this pass.
    pub(crate) refused_nodes: Bits,
    /// Bins it has not been refused by for good, by load and number; loads may be out of date.
    candidates: BinaryHeap<Reverse<(usize, usize)>>,
    /// Bins before this one are candidates or refuse.
    known_bins: usize,
    /// Everything that exists and every pool refuses, for good.
    pub(crate) exhausted: bool,
    /// Version of what was in the way and may change; worth another try once it has grown.
    pub(crate) stuck_at: Option<u64>,
    /// The pool whose reservations were in the way.
    pub(crate) used_up: Option<usize>,
    /// Per kind of machine: whether labels and taints are acceptable, once known.
    pub(crate) kinds: Vec<Option<bool>>,
}

/// All asks of a pass.
#[derive(Debug, Clone, Default)]
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
    /// Forgets what was learnt in another pass than `pass`, which begins with `bins` bins nobody may join.
    pub(crate) fn begin(&mut self, pass: u64, bins: usize) {
        if self.pass != pass {
            let (unsuitable, kinds) = (std::mem::take(&mut self.unsuitable), std::mem::take(&mut self.kinds));
            *self = Self { pass, unsuitable, kinds, known_bins: bins, ..Self::default() };
        }
    }

    /// Makes bins below `count` candidates. Their load is looked up when they are taken.
    pub(crate) fn learn(&mut self, count: usize) {
        self.candidates.extend((self.known_bins..count).map(|number| Reverse((0, number))));
        self.known_bins = count;
    }

    /// Takes the least loaded candidate, `load` telling how loaded a bin is now. Loads only grow, so an entry
    /// that is out of date comes too early and is put back where it belongs.
    pub(crate) fn take(&mut self, load: impl Fn(usize) -> usize) -> Option<usize> {
        while let Some(Reverse((known, number))) = self.candidates.pop() {
            let current = load(number);
            if known == current {
                return Some(number);
            }
            self.candidates.push(Reverse((current, number)));
        }
        None
    }

    /// Puts bin `number` back.
    pub(crate) fn put_back(&mut self, number: usize, load: usize) {
        self.candidates.push(Reverse((load, number)));
    }
}
