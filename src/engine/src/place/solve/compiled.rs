//! Data that are fixed as long as a solver lives: compiled once from the snapshot and only read from then on.
//!
//! Simulations on several cores share one [`Compiled`]; each has its own [`Filling`](super::filling::Filling) and
//! [`Caches`](super::caches::Caches).

use std::collections::BTreeMap;

use karpenter_model::{Pod, Resources, Settings, VolumeClaimName};

use crate::amounts::ResourceIndex;
use crate::index::{ArrivalIx, ClassIx, IxVec, LevelIx, NodeIx, PodIx, ProfileIx, VolumeIx};
use crate::interning::InternedMap;
use crate::place::class::Class;
use crate::place::level::Levels;
use crate::place::pool::Pools;

/// Pods, pools and the demands of pods.
#[derive(Debug)]
pub(super) struct Compiled<'a> {
    pub(super) settings: Settings,
    pub(super) pools: Pools<'a>,
    pub(super) resources: ResourceIndex,
    pub(super) levels: Levels,
    pub(super) classes: IxVec<ClassIx, Class>,
    /// Pods in the order they are tried, with their class.
    pub(super) queue: IxVec<PodIx, (&'a Pod, ClassIx)>,
    /// Requests of the pods: one list for all that request the same.
    pub(super) requests: IxVec<PodIx, &'a Resources>,
    /// Pods in the order of the snapshot, by position in the queue; only where a plan is made.
    pub(super) arrivals: IxVec<ArrivalIx, PodIx>,
    /// Nodes that earlier passes promised pods a place on.
    pub(super) promised: InternedMap<PodIx, NodeIx>,
    /// Volumes that one pod at a time may use and others mount too, by the pod that uses them.
    pub(super) exclusive: BTreeMap<PodIx, Vec<(VolumeIx, &'a VolumeClaimName)>>,
    /// True if every refusal is explained at once; a what-if simulation explains only those it reports.
    pub(super) explains: bool,
}

impl<'a> Compiled<'a> {
    /// The pod at `index` in the queue.
    pub(super) fn pod(&self, index: PodIx) -> &'a Pod {
        self.queue[index].0
    }

    /// The class of the pod at `index`.
    pub(super) fn class(&self, index: PodIx) -> &Class {
        &self.classes[self.queue[index].1]
    }

    /// The relaxation levels of the pod at `index`, the strictest first; none when it is refused.
    pub(super) fn levels(&self, index: PodIx) -> &[LevelIx] {
        self.class(index).levels()
    }

    /// Returns the profile of the pod at `index` at its strictest level. Relaxing takes away rules of its own,
    /// never how others count it.
    pub(super) fn profile(&self, index: PodIx) -> Option<ProfileIx> {
        self.levels.profile(*self.levels(index).first()?)
    }

    /// Returns whether the pod at `index` has a node it would have to leave.
    pub(super) fn moves(&self, index: PodIx) -> bool {
        match self.class(index) {
            Class::Refused(_) => true,
            Class::Levels(levels) => levels.first().is_some_and(|level| self.levels.demand(*level).moves),
        }
    }
}
