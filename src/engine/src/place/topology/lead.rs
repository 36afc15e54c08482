//! Domain of the first of pods that others must be with: the one that keeps out the fewest of those others by what they
//! select and by their volumes (aws#8914).

use std::collections::BTreeSet;

use karpenter_model::LabelValue;
use karpenter_model::names::label;

use super::Topology;
use super::group::{Domain, GroupKey};
use crate::index::GroupIx;

impl Topology {
    /// Learns where the pods may go that must be with others, once every profile is known.
    pub(super) fn learn_bounds(&mut self) {
        for profile in self.profiles.keys() {
            for group in &profile.owned {
                if let Some(seekers) = self.seekers.get_mut(group) {
                    seekers.insert(profile.bounds.clone());
                }
            }
        }
    }

    /// Returns the number of different pods that must be with one of `group` and could not be in the domain `value`.
    pub(super) fn kept_out(&self, group: GroupIx, value: &LabelValue) -> u32 {
        let key = &self.at(group).0.topology_key;
        let seekers = self.seekers.get(&group).into_iter().flatten();
        let kept_out = seekers.filter(|bounds| !bounds.allow(key, value)).count();
        u32::try_from(kept_out).unwrap_or(u32::MAX)
    }

    /// Returns whether a pod that the others of `group` follow may be the first of them in `domain`: not where fewer of
    /// them would be kept out of another one. Once a pod of theirs has a place there is no choice left.
    pub(super) fn may_lead(&self, index: GroupIx, domain: &Domain) -> bool {
        let (GroupKey { topology_key: key, .. }, group) = self.at(index);
        let Some(seekers) = self.seekers.get(&index) else { return true };
        if group.occupied() > 0 {
            return true;
        }
        let new_host = || {
            let kept_out = seekers.iter().filter(|bounds| !bounds.allow_new_host(key)).count();
            u32::try_from(kept_out).unwrap_or(u32::MAX)
        };
        let own = match domain {
            Domain::Value(value) => self.kept_out(index, value),
            Domain::InFlight(_) => new_host(),
        };
        if own == 0 {
            return true;
        }
        // Domains that no pod names are as good as each other.
        let named = seekers.iter().flat_map(|bounds| bounds.named(key));
        let named: BTreeSet<&LabelValue> = named.chain(group.known(None)).collect();
        let least = named.into_iter().map(|value| self.kept_out(index, value)).min();
        let least = least.into_iter().chain((*key == label::HOSTNAME).then(new_host)).min();
        least.is_none_or(|least| own <= least)
    }
}
