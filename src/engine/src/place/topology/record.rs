//! Changes by a pod that has got a place: the counts of the groups that select it, and the domains in which its own
//! spread constraints must hold from then on.

use karpenter_model::names::label;
use karpenter_model::{LabelRegistry, Node, Requirements};

use super::census;
use super::group::{Domain, Group, Kind};
use super::{Change, ChangeKind, Links, ProfileKey, Topology, lacks};
use crate::index::{GroupIx, InFlightIx, Ix, ProfileIx};
use crate::interning::InternedMap;
use crate::node_labels::value_of;
use crate::place::pool::PoolSpace;

impl Topology {
    /// Counts the profile on an existing node.
    pub(crate) fn record_node(&mut self, id: ProfileIx, node: &Node, registry: &LabelRegistry) {
        let Self { groups, profiles, journal, .. } = self;
        let mut bind = |group: &mut Group, index: GroupIx, domain: Domain| {
            if let Some(journal) = journal {
                journal.push(Change { group: index, domain: domain.clone(), kind: ChangeKind::Bound });
            }
            group.bind(domain);
        };
        for index in insisting(profiles, id) {
            let (key, group) =
                groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            if let Some(domain) = value_of(node, &key.topology_key, registry) {
                bind(group, index, Domain::Value(domain));
            }
        }
        for index in counting(profiles, id) {
            let (key, group) =
                groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            if let (Some(domain), true) =
                (value_of(node, &key.topology_key, registry), key.counts_node(node, registry))
            {
                let domain = Domain::Value(domain);
                if let Some(journal) = journal {
                    journal.push(Change { group: index, domain: domain.clone(), kind: ChangeKind::Added });
                }
                group.add(domain);
            }
        }
    }

    /// Counts the profile on in-flight node `number` of `space`, whose requirements are now `requirements`.
    pub(crate) fn record_in_flight(
        &mut self,
        id: ProfileIx,
        number: InFlightIx,
        requirements: &Requirements,
        space: &PoolSpace<'_>,
        registry: &LabelRegistry,
    ) {
        let decided = self.census.narrowed(number, &space.pool.name, requirements);
        if !decided.is_empty() && !self.partial.is_empty() {
            self.will_be(requirements, &space.pool.template.taints);
        }
        let Self { groups, profiles, journal, undecided, .. } = self;
        let mut change = |group: &mut Group, index: GroupIx, domain: Domain, kind: ChangeKind| {
            if let Some(journal) = journal {
                journal.push(Change { group: index, domain: domain.clone(), kind });
            }
            if let ChangeKind::Bound = kind { group.bind(domain) } else { group.add(domain) }
        };
        for index in insisting(profiles, id) {
            let (key, group) =
                groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            let own = census::only(requirements, &key.topology_key).cloned().map(Domain::Value);
            let host = (key.topology_key == label::HOSTNAME).then_some(Domain::InFlight(number));
            if let Some(domain) = host.or(own) {
                change(group, index, domain, ChangeKind::Bound);
            }
        }
        // Pods that came before it was certain in which domain the node would be, and that it would count there.
        if let Some(waiting) = undecided.get_mut(&number) {
            waiting.retain(|index| {
                let (key, group) =
                    groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
                let Some(value) = census::only(requirements, &key.topology_key) else { return true };
                let counts = key.counts_in_flight(requirements, &space.pool.template.taints);
                if counts {
                    change(group, *index, Domain::Value(value.clone()), ChangeKind::Added);
                }
                !counts
            });
        }
        for index in counting(profiles, id) {
            let (key, group) =
                groups.get_index_mut(index.get()).expect("invariant: groups are never removed");
            let taints = &space.pool.template.taints;
            if !key.may_count(taints) {
                continue;
            }
            // Whichever labels it will have: a pod that makes the host count by joining it finds those that are there.
            let is_host = key.topology_key == label::HOSTNAME;
            let allowed = requirements.get(key.topology_key.as_str());
            if let Kind::Spread { .. } | Kind::Affinity = key.kind
                && !is_host
                && (group.possible(key, allowed).is_empty() || !key.counts_in_flight(requirements, taints))
            {
                undecided.entry(number).or_default().push(index);
                continue;
            }
            let mut add = |group: &mut Group, domain| change(group, index, domain, ChangeKind::Added);
            if is_host {
                add(group, Domain::InFlight(number));
                continue;
            }
            // It will be in no domain, so the pod counts in none.
            if lacks(space, requirements, &key.topology_key, registry) {
                continue;
            }
            for value in group.possible(key, allowed) {
                add(group, Domain::Value(value));
            }
        }
    }
}

/// The groups that count profile `id`: those that select it, and those of its own anti-affinity.
pub(super) fn counting(
    profiles: &InternedMap<ProfileKey, Links>,
    id: ProfileIx,
) -> impl Iterator<Item = GroupIx> + '_ {
    let (profile, links) = profiles.get_index(id.get()).expect("invariant: profiles are never removed");
    links.counted.iter().chain(&profile.owned_inverse).copied()
}

/// The spread constraints of profile `id` that the scheduler insists on.
fn insisting(profiles: &InternedMap<ProfileKey, Links>, id: ProfileIx) -> impl Iterator<Item = GroupIx> + '_ {
    let (profile, _) = profiles.get_index(id.get()).expect("invariant: profiles are never removed");
    profile.hard_spread.iter().copied()
}
