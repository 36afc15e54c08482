//! Classes of interchangeable pods, compiled into relaxation levels.
//!
//! A pod gives up its preferences one after the other, so its class has several *levels*, the strictest first. A level
//! is a *demand*, what the pod asks of its node, together with a *profile*, what it is to other pods.
//! Few demands are shared by many levels: labels, taints and room depend on the demand alone, and so does most of
//! what placement learns.

use std::collections::BTreeSet;

use karpenter_devices::ClaimId;
use karpenter_model::{HostPort, Resources, Toleration};

use crate::amounts::Amounts;
use crate::index::{DemandIx, FootprintIx, Ix, LevelIx, ProfileIx, ResourceIx, TolerationsIx, VolumeIx};
use crate::interning::{Interned, InternedMap};
use crate::rules::RuleSetId;

/// Demands of a pod on its node at one relaxation level.
#[derive(Debug, Clone)]
pub(crate) struct Demand {
    /// Requirements; `None` when they contradict each other.
    pub(crate) rules: Option<RuleSetId>,
    pub(crate) requests: Resources,
    /// Requests, dense.
    pub(crate) amounts: Amounts,
    /// Tolerations, those added by relaxation included.
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) host_ports: Vec<HostPort>,
    /// Places where its volumes can be attached: any one of these; none when they exclude each other.
    pub(crate) places: Vec<RuleSetId>,
    /// Reasons that tie its volumes to nodes that exist.
    pub(crate) tied: Vec<String>,
    /// Volumes other pods mount too: their number, and the resource each takes one of.
    pub(crate) shared: Vec<(VolumeIx, ResourceIx)>,
    /// Claims for devices it uses.
    pub(crate) claims: Vec<ClaimId>,
    /// Set when the pod has a node and would have to leave it.
    pub(crate) moves: bool,
}

impl Demand {
    /// Adds what shared volumes take to `amounts`. One that is `attached` already counts once per node, so it takes
    /// nothing more.
    pub(crate) fn attach(&self, attached: &mut BTreeSet<VolumeIx>, amounts: &mut Amounts) {
        for (volume, resource) in &self.shared {
            if attached.insert(*volume) {
                amounts.add_one(*resource);
            }
        }
    }
}

/// Properties that distinguish demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DemandKey {
    /// Requirements; `None` when they contradict each other.
    pub(crate) rules: Option<RuleSetId>,
    pub(crate) footprint: FootprintIx,
    pub(crate) tolerations: TolerationsIx,
}

/// One relaxation level of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Level {
    pub(crate) demand: DemandIx,
    /// Profile of the pod; `None` where no pod of the pass has a rule about others.
    pub(crate) profile: Option<ProfileIx>,
}

/// All levels of a compiled snapshot. They never change; what placement learns about them is in
/// [`Learnt`](crate::place::learnt::Learnt).
#[derive(Debug, Default)]
pub(crate) struct Levels {
    demands: InternedMap<DemandKey, Demand>,
    levels: Interned<Level>,
}

impl Levels {
    /// The level with the demand of `key`, which `demand` makes if it is new, and with `profile`.
    pub(crate) fn intern(
        &mut self,
        key: DemandKey,
        demand: impl FnOnce() -> Demand,
        profile: Option<ProfileIx>,
    ) -> LevelIx {
        let entry = self.demands.entry(key);
        let demand_ix = DemandIx::new(entry.index());
        entry.or_insert_with(demand);
        LevelIx::new(self.levels.insert_full(Level { demand: demand_ix, profile }).0)
    }

    /// The level `id`.
    pub(crate) fn level(&self, id: LevelIx) -> Level {
        self.levels[id.get()]
    }

    /// Returns the footprint of the pod at level `id`.
    pub(crate) fn footprint(&self, id: LevelIx) -> FootprintIx {
        let (key, _) = self
            .demands
            .get_index(self.level(id).demand.get())
            .expect("invariant: demands are never removed");
        key.footprint
    }

    /// Returns the demand of the pod at level `id`.
    pub(crate) fn demand(&self, id: LevelIx) -> &Demand {
        &self.demands[self.level(id).demand.get()]
    }

    /// Returns the profile of the pod at level `id`.
    pub(crate) fn profile(&self, id: LevelIx) -> Option<ProfileIx> {
        self.level(id).profile
    }

    /// The demands of levels with a profile.
    pub(crate) fn profiled(&self) -> impl Iterator<Item = (&Demand, ProfileIx)> {
        self.levels.iter().filter_map(|level| Some((&self.demands[level.demand.get()], level.profile?)))
    }

    /// Number of levels.
    pub(crate) fn len(&self) -> usize {
        self.levels.len()
    }

    /// All demands.
    pub(crate) fn demands(&self) -> impl ExactSizeIterator<Item = &Demand> {
        self.demands.values()
    }
}
