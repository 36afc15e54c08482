//! What pods ask for, and what has been learnt about it.
//!
//! An *ask* is what a pod asks of a machine, whoever it is; a *want* is an ask together with what the pod is to other
//! pods. Machines and in-flight nodes only ever get narrower during a pass, so a refusal is final. It is remembered
//! where its cause is: what labels, taints and room refuse is refused to every want of the ask.

use std::collections::BTreeMap;

use karpenter_devices::ClaimId;
use karpenter_model::{HostPort, Resources, Toleration};

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::index::{
    AskIx, DemandIx, InFlightIx, Ix, IxVec, KindIx, NodeIx, PoolIx, ProfileIx, ResourceIx, TolerationsIx,
    VariantIx, VolumeIx, WantIx,
};
use crate::interning::{Interned, InternedMap};
use crate::place::solve::Prices;
use crate::rules::RuleSetId;

/// What a pod asks of a machine at one relaxation step.
#[derive(Debug, Clone)]
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
    pub(crate) shared: Vec<(VolumeIx, ResourceIx)>,
    /// Claims for devices it uses.
    pub(crate) claims: Vec<ClaimId>,
    /// It has a machine and would have to leave it.
    pub(crate) moves: bool,
}

/// What tells asks apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AskKey {
    /// Requirements; `None` when they contradict each other.
    pub(crate) rules: Option<RuleSetId>,
    /// What the pod takes, by number.
    pub(crate) demand: DemandIx,
    /// What it tolerates, by number.
    pub(crate) tolerations: TolerationsIx,
}

/// What has been learnt about an ask. What-if questions each begin a pass of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    /// The pass `nodes` and `in_flight` are about.
    pass: u64,
    /// Existing machines that refuse in every pass: labels, taints, or no room even before anything moves.
    pub(crate) unsuitable: Bits<NodeIx>,
    /// Per kind of machine: whether labels and taints are acceptable, once known.
    pub(crate) kinds: IxVec<KindIx, Option<bool>>,
    /// Per pool, once known: the instance types that could host the ask alone if there were no limits.
    pub(crate) hosts: BTreeMap<PoolIx, Option<Bits<VariantIx>>>,
    /// The least price of a machine for the ask alone, by requirements.
    pub(crate) prices: Prices,
    /// Existing machines that have no room in this pass.
    pub(crate) nodes: Bits<NodeIx>,
    /// In-flight nodes that cannot take it in this pass.
    pub(crate) in_flight: Bits<InFlightIx>,
}

/// What has been learnt about a want in one pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pass: u64,
    /// Existing machines that other pods keep it out of for good.
    pub(crate) nodes: Bits<NodeIx>,
    /// In-flight nodes that other pods keep it out of for good.
    pub(crate) in_flight: Bits<InFlightIx>,
    /// Everything that exists and every pool refuses, for good.
    pub(crate) exhausted: bool,
    /// Version of what was in the way and may change; worth another try once it has grown.
    pub(crate) stuck_at: Option<u64>,
    /// The pool whose reservations were in the way.
    pub(crate) used_up: Option<PoolIx>,
}

/// An ask, by number, and what the pod is to other pods, where any pod has rules about others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Want {
    ask: AskIx,
    profile: Option<ProfileIx>,
}

/// A want with everything that is known about it.
pub(crate) struct Known<'w> {
    /// What it asks of a machine.
    pub(crate) ask: &'w Ask,
    /// What it is to other pods.
    pub(crate) profile: Option<ProfileIx>,
    /// What has been learnt about the ask.
    pub(crate) refusals: &'w mut Refusals,
    /// What has been learnt about the want.
    pub(crate) memory: &'w mut Memory,
}

/// All wants of a compiled snapshot. They never change; what is found out about them is in [`Learnt`].
#[derive(Debug, Default)]
pub(crate) struct Wants {
    asks: InternedMap<AskKey, Ask>,
    wants: Interned<Want>,
}

/// What has been learnt about asks and wants, each at its number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learnt {
    asks: IxVec<AskIx, Refusals>,
    wants: IxVec<WantIx, Memory>,
    /// Number of the pass; what-if questions are passes of their own.
    pass: u64,
}

impl Wants {
    /// The number of the want of a pod that asks for what `key` stands for, which `ask` makes, and is `profile` to
    /// others.
    pub(crate) fn intern(
        &mut self,
        key: AskKey,
        ask: impl FnOnce() -> Ask,
        profile: Option<ProfileIx>,
    ) -> WantIx {
        let entry = self.asks.entry(key);
        let ask_ix = AskIx::new(entry.index());
        entry.or_insert_with(ask);
        WantIx::new(self.wants.insert_full(Want { ask: ask_ix, profile }).0)
    }

    fn want(&self, id: WantIx) -> Want {
        self.wants[id.get()]
    }

    /// What `id` asks of a machine.
    pub(crate) fn ask(&self, id: WantIx) -> &Ask {
        &self.asks[self.want(id).ask.get()]
    }

    /// What `id` is to other pods.
    pub(crate) fn profile(&self, id: WantIx) -> Option<ProfileIx> {
        self.want(id).profile
    }

    /// What pods that are something to others ask for.
    pub(crate) fn profiled(&self) -> impl Iterator<Item = (&Ask, ProfileIx)> {
        self.wants.iter().filter_map(|want| Some((&self.asks[want.ask.get()], want.profile?)))
    }

    /// What is asked for.
    pub(crate) fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.asks.values()
    }
}

impl Learnt {
    /// Nothing yet about any of `wants`.
    pub(crate) fn new(wants: &Wants) -> Self {
        let (asks, wants) = (wants.asks.len(), wants.wants.len());
        Self {
            asks: IxVec::filled(Refusals::default(), asks),
            wants: IxVec::filled(Memory::default(), wants),
            pass: 0,
        }
    }

    /// Everything about `id`, one of `wants`. What was learnt in an earlier pass and holds in that one only is dropped
    /// here, when it is next looked at: most wants are of no concern to most passes.
    pub(crate) fn known<'w>(&'w mut self, wants: &'w Wants, id: WantIx) -> Known<'w> {
        let Want { ask, profile } = wants.want(id);
        let (refusals, memory) = (&mut self.asks[ask], &mut self.wants[id]);
        let pass = self.pass;
        if memory.pass != pass {
            *memory = Memory { pass, ..Memory::default() };
        }
        if refusals.pass != pass {
            refusals.pass = pass;
            (refusals.nodes, refusals.in_flight) = Default::default();
        }
        Known { ask: &wants.asks[ask.get()], profile, refusals, memory }
    }

    /// Whether there is nothing more to try for `id`.
    pub(crate) fn is_exhausted(&self, id: WantIx) -> bool {
        self.wants[id].exhausted
    }

    /// Begins another pass.
    pub(crate) fn next_pass(&mut self) {
        self.pass += 1;
    }
}
