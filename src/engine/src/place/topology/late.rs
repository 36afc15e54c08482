//! Domains that a spread constraint has to count because of new nodes of other pods.
//!
//! A domain in which no new node could be for the sake of its own pods does not count ([`super::reach`]). A new node that
//! other pods get there makes it count for the scheduler all the same, and pods that have a place by then may have too many
//! neighbours. Placement begins again in that case, with those domains counted from the start.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{LabelKey, LabelValue, Requirement, Requirements, Taint};

use super::group::{Domain, GroupKey, Kind};
use super::{Change, ChangeKind, Topology, census};
use crate::index::{GroupIx, InFlightIx, Ix, ProfileIx};

/// A spread constraint that a node in one of the domains without any would break.
pub(crate) struct Fragile<'t> {
    key: &'t GroupKey,
    empty: BTreeSet<&'t LabelValue>,
}

impl Topology {
    /// A new node has these `requirements` and `taints`: its domains count from now on.
    pub(crate) fn will_be(&mut self, requirements: &Requirements, taints: &[Taint]) {
        let Self { groups, partial, late, journal, .. } = self;
        for index in partial.iter().copied() {
            let (key, group) =
                groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            let Some(value) = census::only(requirements, &key.topology_key) else { continue };
            if group.has_node(value) || !key.counts_in_flight(requirements, taints) {
                continue;
            }
            if let Some(journal) = journal {
                let domain = Domain::Value(value.clone());
                journal.push(Change { group: index, domain, kind: ChangeKind::Known });
            }
            group.know(value.clone(), 1);
            late.push((index, value.clone()));
        }
    }

    /// The spread constraints that a node in a domain without one would break for pods that have a place, with these domains.
    pub(crate) fn fragile(&self) -> Vec<Fragile<'_>> {
        let breaks = self.groups.iter().filter(|(key, group)| group.breaks_with_another(key));
        let fragile = breaks.filter_map(|(key, group)| {
            let domains = self.domains.get(&key.topology_key)?.iter();
            let empty: BTreeSet<_> = domains.filter(|value| !group.has_node(value)).collect();
            (!empty.is_empty()).then_some(Fragile { key, empty })
        });
        fragile.collect()
    }

    /// Returns the rest of the domains in which a new node with these `requirements` and `taints` may come up, by key,
    /// without those that would break a constraint of `fragile`; keys of which none is left aside.
    pub(crate) fn harmless(
        &self,
        fragile: &[Fragile<'_>],
        requirements: &Requirements,
        taints: &[Taint],
    ) -> Vec<Requirement> {
        let mut left: BTreeMap<&LabelKey, BTreeSet<&LabelValue>> = BTreeMap::new();
        for Fragile { key, empty } in fragile.iter().filter(|fragile| fragile.key.may_count(taints)) {
            let topology_key = &key.topology_key;
            let open = requirements.value_of(topology_key);
            if empty.iter().any(|value| open.allows(value.as_str())) {
                let domains = self.domains.get(topology_key).into_iter().flatten();
                let open = || domains.filter(|value| open.allows(value.as_str())).collect();
                left.entry(topology_key).or_insert_with(open).retain(|value| !empty.contains(value));
            }
        }
        let left = left.into_iter().filter(|(_, values)| !values.is_empty());
        left.map(|(key, values)| Requirement::one_of(key.clone(), values.into_iter().cloned())).collect()
    }

    /// Returns whether a spread constraint of the profile `id` would be broken on in-flight node `number` whatever domain it
    /// takes the node to: the node's domain is open, so pods there that the constraint counts are in none yet, and would
    /// come with it.
    pub(crate) fn crowds(&self, id: ProfileIx, number: InFlightIx) -> bool {
        let Some(undecided) = self.undecided.get(&number) else { return false };
        let (profile, links) = self.entry(id);
        let mut insisting = links.rules.iter().filter(|link| profile.hard_spread.contains(&link.group));
        insisting.any(|link| {
            let Kind::Spread { max_skew, .. } = self.at(link.group).0.kind else { return false };
            let there = undecided.iter().filter(|group| **group == link.group).count();
            there > 0 && there + usize::from(link.own) > usize::try_from(max_skew).unwrap_or(usize::MAX)
        })
    }

    /// The spread constraints that new nodes of other pods have broken for pods that had a place, and those nodes' domains.
    pub(crate) fn broken(&self) -> Vec<(GroupIx, LabelValue)> {
        let groups: BTreeSet<GroupIx> = self.late.iter().map(|(group, _)| *group).collect();
        let is_broken = |index: &GroupIx| {
            let (key, group) = self.at(*index);
            group.is_broken(key)
        };
        let broken: BTreeSet<GroupIx> = groups.into_iter().filter(is_broken).collect();
        self.late.iter().filter(|(group, _)| broken.contains(group)).cloned().collect()
    }

    /// Returns whether `id` has a spread constraint that is broken.
    pub(crate) fn is_broken_for(&self, id: ProfileIx) -> bool {
        let broken: BTreeSet<GroupIx> = self.broken().into_iter().map(|(group, _)| group).collect();
        self.entry(id).0.hard_spread.iter().any(|group| broken.contains(group))
    }

    /// Counts these domains from the start.
    pub(crate) fn presume(&mut self, domains: &[(GroupIx, LabelValue)]) {
        for (index, value) in domains {
            if let Some((_, group)) = self.groups.get_index_mut(index.get()) {
                group.know(value.clone(), 1);
            }
        }
    }
}
