//! Rules about hosts for pods that are put together on hosts that do not exist yet, before any is placed.

use std::collections::BTreeMap;

use karpenter_model::names::label;

use super::Topology;
use super::group::Kind;
use super::record::counting;
use crate::index::{GroupIx, ProfileIx};

/// Order of pods where rules about others decide it, and not size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Turn {
    /// The pod must share its host with others.
    Together,
    /// The pod is to spread over hosts: pods that are on one already may keep it off.
    Spread,
    /// The pod has rules about other domains.
    First,
    /// The pod has no rules.
    #[default]
    Then,
    /// The pod keeps others off its host: a host it joins early is lost for them.
    Last,
}

impl Turn {
    /// All of them, the first one first.
    pub(crate) const ALL: [Self; 5] = [Self::Together, Self::Spread, Self::First, Self::Then, Self::Last];

    /// Returns the position in [`Self::ALL`].
    pub(crate) fn position(self) -> usize {
        Self::ALL.iter().position(|turn| *turn == self).unwrap_or_default()
    }
}

/// Pods of one host by the rules about hosts that count them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(BTreeMap<GroupIx, u32>);

impl Topology {
    /// Returns whether any rule is about hosts.
    pub(crate) fn has_host_rules(&self) -> bool {
        self.groups.keys().any(|key| key.topology_key == label::HOSTNAME)
    }

    /// Returns the turn of a pod of profile `id`.
    pub(crate) fn turn(&self, id: ProfileIx) -> Turn {
        let (profile, _) = self.entry(id);
        let turns = profile.owned.iter().map(|group| {
            let (key, _) = self.at(*group);
            match &key.kind {
                _ if key.topology_key != label::HOSTNAME => Turn::First,
                Kind::Affinity => Turn::Together,
                Kind::Spread { .. } => Turn::Spread,
                Kind::AntiAffinity | Kind::Inverse => Turn::Last,
            }
        });
        let turns: Vec<Turn> = turns.collect();
        // A pod that keeps others off does so whatever else it has rules about.
        let last = turns.iter().copied().find(|turn| *turn == Turn::Last);
        last.or(turns.into_iter().min()).unwrap_or_default()
    }

    /// The rule by which fewest pods of profile `id` may share a host, and how many.
    pub(crate) fn most_on_host(&self, id: ProfileIx) -> Option<(GroupIx, u32)> {
        let (_, links) = self.entry(id);
        let limiting =
            links.rules.iter().filter(|link| link.host && link.own && !link.guard).filter_map(|link| {
                match &self.at(link.group).0.kind {
                    Kind::Spread { max_skew, .. } => Some((link.group, *max_skew)),
                    Kind::AntiAffinity => Some((link.group, 1)),
                    Kind::Affinity | Kind::Inverse => None,
                }
            });
        limiting.min_by_key(|(_, most)| *most)
    }

    /// Returns whether rules about hosts let a pod of profile `id` join the pods in `tally` on a new host. Affinity
    /// aside: pods that must be together are put there together.
    pub(crate) fn may_join(&self, id: ProfileIx, tally: &Tally) -> bool {
        let (_, links) = self.entry(id);
        links.rules.iter().filter(|link| link.host).all(|link| {
            let there = tally.0.get(&link.group).copied().unwrap_or(0);
            match &self.at(link.group).0.kind {
                Kind::Spread { max_skew, .. } => there + u32::from(link.own) <= *max_skew,
                Kind::AntiAffinity | Kind::Inverse => there == 0,
                Kind::Affinity => true,
            }
        })
    }

    /// Counts a pod of profile `id` in `tally`.
    pub(crate) fn count_on_host(&self, id: ProfileIx, tally: &mut Tally) {
        for group in counting(&self.profiles, id) {
            if self.at(group).0.topology_key == label::HOSTNAME {
                *tally.0.entry(group).or_default() += 1;
            }
        }
    }

    /// Counts a pod of profile `id` in `tally` no more.
    pub(crate) fn discount_on_host(&self, id: ProfileIx, tally: &mut Tally) {
        for group in counting(&self.profiles, id) {
            if let Some(count) = tally.0.get_mut(&group) {
                *count = count.saturating_sub(1);
            }
        }
    }
}
