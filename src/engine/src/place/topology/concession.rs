//! Rules are read with caution as long as that leaves no pod waiting, and with less of it for those that are left.
//!
//! *Spread.* A domain counts that new nodes could be in. Where none comes, because the pods that could be there must be
//! elsewhere for the sake of others or do not tolerate the pool, the scheduler counts nodes and would bind the rest next to the
//! others: domains without a node are ignored then. One that other pods get there later counts; see [`super::late`].
//!
//! *Affinity.* A pod that its own affinity selects may be the first only while no such pod is in any domain. Others that the rule
//! selects and that do not have it go anywhere, and the scheduler may bind them first: the pod would be refused for good where it
//! was planned as the first. So it waits for the others to have a place, and is the first only if none of them gets one.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::names::label;

use super::group::{Group, GroupKey};
use super::{Bounds, Links, ProfileKey, Topology};
use crate::index::{GroupIx, Ix, ProfileIx};
use crate::interning::InternedMap;

impl Topology {
    /// Reads the rules of `profiles` with less caution, and returns those that this concerns. Nodes that are planned already
    /// must be named with [`will_be`](Self::will_be).
    pub(crate) fn concede(&mut self, profiles: impl Iterator<Item = ProfileIx>) -> BTreeSet<GroupIx> {
        let may_help = |index: &GroupIx| {
            let (key, group) = self.at(*index);
            // A new host is always possible.
            let is_spread = key.topology_key != label::HOSTNAME && group.has_empty();
            !group.conceded() && if self.mixed.contains(index) { group.occupied() == 0 } else { is_spread }
        };
        let owned = profiles.flat_map(|id| {
            let (profile, _) = self.entry(id);
            profile.hard_spread.iter().chain(&profile.required_affinity).copied()
        });
        let groups: BTreeSet<GroupIx> = owned.filter(may_help).collect();
        self.set_conceded(&groups, true);
        self.conceded.extend(&groups);
        self.partial.extend(&groups);
        groups
    }

    /// Returns whether the scheduler insists on a spread constraint of `profile` as read with caution, because a node is
    /// leaving a domain that would be ignored otherwise.
    pub(crate) fn is_insisted_on(&self, profile: ProfileIx) -> bool {
        let (profile, _) = self.entry(profile);
        profile.hard_spread.iter().any(|group| self.at(*group).1.has_left())
    }

    /// Reads these `groups` with caution again.
    pub(crate) fn withdraw(&mut self, groups: &BTreeSet<GroupIx>) {
        self.set_conceded(groups, false);
        self.conceded.retain(|index| !groups.contains(index));
    }

    pub(super) fn set_conceded(&mut self, groups: &BTreeSet<GroupIx>, conceded: bool) {
        for index in groups {
            if let Some((_, group)) = self.groups.get_index_mut(index.get()) {
                group.concede(conceded);
            }
        }
    }
}

/// The groups of required affinity that select pods which do not have it.
pub(super) fn mixed(
    groups: &InternedMap<GroupKey, Group>,
    profiles: &InternedMap<ProfileKey, Links>,
    seekers: &BTreeMap<GroupIx, BTreeSet<Bounds>>,
) -> BTreeSet<GroupIx> {
    let selects = |group: &GroupIx| seekers.contains_key(group) && !groups.keys()[group.get()].is_shared();
    let others = profiles.iter().flat_map(|(profile, links)| {
        links.counted.iter().filter(|group| !profile.required_affinity.contains(group))
    });
    others.copied().filter(selects).collect()
}
