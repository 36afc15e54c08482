//! Role of the daemons of a node in the rules about other pods.
//!
//! A new node is not empty: daemons come with it, and to the scheduler their pods are pods like any other. So where a rule
//! of a pod is about daemons, or a rule of a daemon set about the pod, the pod may join a new node in certain *companies*
//! only: on instance types with whose daemons it may run, narrowed so that daemons it needs come and daemons it must not
//! meet stay away. On nodes that are there or coming, daemons that have no pod yet count like those that have.
//!
//! A daemon set whose own pods need others near them may have none on a node, so it counts where its pods are. How its pods
//! spread does not matter: there is one for each node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::{Expression, LabelRegistry, Node, Operator, Pod, Requirement, Requirements, Snapshot};

use super::count::undecided;
use super::group::{Domain, GroupKey, Kind};
use super::lookup::Lookup;
use super::pod_rules::term_key;
use super::reach::Reach;
use super::{HostRules, Link, Links, ProfileKey, Topology, lacks};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::conjunction::conjunction;
use crate::daemons::{Coming, DaemonGroup, Daemons, comes_by_itself};
use crate::index::{DaemonIx, GroupIx, Ix, IxVec, ProfileIx, SnapshotNodeIx, VariantIx};
use crate::node_labels::value_of;
use crate::place::pool::PoolSpace;
use crate::place::scope::Scope;
use crate::rules::{RuleSetId, Rules};

/// Most ways to narrow nodes for the sake of daemons that are tried for one pod and pool.
const MOST_WAYS: usize = 8;

/// One way for a pod to share a new node with its daemons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Company {
    /// Instance types on which it is possible.
    pub(crate) variants: Bits<VariantIx>,
    /// Requirements on the node for it.
    pub(crate) asked: RuleSetId,
    /// Affinity that the daemons meet.
    met: Vec<GroupIx>,
    /// Number of the daemons that rules about hosts count, by group.
    there: Vec<(GroupIx, u32)>,
}

/// Daemons as the rules of a pass see them. Most rules are not about daemons, and all of this is empty then.
#[derive(Debug, Default)]
pub(super) struct Companies {
    /// Daemons that count for each group.
    of_groups: IxVec<GroupIx, Vec<DaemonIx>>,
    /// Names of the daemon sets.
    names: IxVec<DaemonIx, String>,
    /// By profile and pool, by what claims of the pool start with: every way to be with daemons, best first.
    known: BTreeMap<(ProfileIx, RuleSetId), Vec<Company>>,
}

impl Company {
    /// Returns whether its daemons meet the rule of `group`.
    pub(super) fn meets(&self, group: GroupIx) -> bool {
        self.met.contains(&group)
    }

    /// Returns the number of its daemons that the rule of `group` counts on their host.
    pub(super) fn there(&self, group: GroupIx) -> u32 {
        self.there.iter().find(|(known, _)| *known == group).map_or(0, |(_, daemons)| *daemons)
    }

    /// Returns whether it is possible on every node of `space`, whatever that is narrowed to.
    fn is_everywhere(&self, space: &PoolSpace<'_>, rules: &Rules<'_>) -> bool {
        space.base.is_within(&self.variants) && rules.rules_of(self.asked).is_empty()
    }
}

impl Companies {
    /// Returns whether some daemon counts for the rule of `group`.
    pub(super) fn count(&self, group: GroupIx) -> bool {
        self.of_groups.get(group).is_some_and(|daemons| !daemons.is_empty())
    }
}

impl Topology {
    /// Makes groups of what daemon sets keep off their nodes.
    pub(crate) fn add_daemons(&mut self, daemons: &Daemons<'_>, snapshot: &Snapshot) {
        for (_, planned) in daemons.iter() {
            for key in keeping_off(&planned.daemon.pod, snapshot) {
                self.group(key);
            }
        }
    }

    /// The ways for a pod of profile `id` to share a new node of `space` with its daemons, best first; `None` where no rule
    /// is about daemons.
    pub(crate) fn companies(&self, id: ProfileIx, space: &PoolSpace<'_>) -> Option<&[Company]> {
        self.companies.known.get(&(id, space.rules)).map(Vec::as_slice)
    }

    /// Returns whether instance types, or what a node of `space` is narrowed to, decide whether its daemons suit
    /// profile `id`.
    pub(crate) fn minds_daemons(&self, id: ProfileIx, space: &PoolSpace<'_>, rules: &Rules<'_>) -> bool {
        let best = self.companies(id, space).map(|companies| companies.first());
        best.is_some_and(|best| !best.is_some_and(|best| best.is_everywhere(space, rules)))
    }

    /// The daemons that keep a pod of profile `id` off every new node of `space` that is one of `variants`, for people.
    pub(crate) fn kept_off_by(
        &self,
        id: ProfileIx,
        space: &PoolSpace<'_>,
        variants: &Bits<VariantIx>,
    ) -> Option<String> {
        let companies = self.companies(id, space)?;
        if companies.iter().any(|company| company.variants.meets(variants)) {
            return None;
        }
        let mut groups = space.daemons.iter().filter(|group| group.variants.meets(variants));
        let first = groups.next()?;
        let (_, links) = self.entry(id);
        links.rules.iter().find_map(|link| {
            let (key, _) = self.at(link.group);
            let counted = self.companies.of_groups.get(link.group)?;
            let here = counted.iter().find(|daemon| first.daemons.contains(daemon))?;
            let name = &self.companies.names[*here];
            let whose = match key.kind {
                Kind::Affinity => return None,
                Kind::Inverse => format!("daemon set `{name}` has {key} with it and"),
                Kind::Spread { .. } | Kind::AntiAffinity => format!("{key} with daemon set `{name}`, which"),
            };
            Some(format!("{whose} runs on every node that could be launched"))
        })
    }

    /// The daemon sets that count for the rule of `group`, for people.
    pub(super) fn daemons_named(&self, group: GroupIx) -> String {
        let daemons = self.companies.of_groups.get(group).into_iter().flatten();
        let names: Vec<String> =
            daemons.map(|daemon| format!("`{}`", self.companies.names[*daemon])).collect();
        if names.is_empty() { String::new() } else { format!(" and daemons of {}", names.join(", ")) }
    }

    /// Counts the daemons that are `coming` to nodes, and works out how pods may share new nodes with theirs.
    pub(super) fn meet_daemons(
        &mut self,
        (daemons, coming): (&Daemons<'_>, &IxVec<SnapshotNodeIx, Coming>),
        lookup: &Lookup,
        snapshot: &Snapshot,
        reach: &mut Reach<'_, '_>,
    ) {
        let of_groups = self.daemons_of_groups(daemons, lookup, snapshot);
        if of_groups.iter().all(Vec::is_empty) {
            return;
        }
        self.count_coming(&of_groups, (daemons, coming), snapshot);
        let mut known = BTreeMap::new();
        let builder =
            Builder { daemons, of_groups: &of_groups, topology: self, registry: &snapshot.registry };
        let concerned = self
            .profiles
            .iter()
            .enumerate()
            .filter(|(_, (_, links))| links.rules.iter().any(|link| !of_groups[link.group].is_empty()));
        let mut hosts = Vec::new();
        for (number, (profile, links)) in concerned {
            let number = ProfileIx::new(number);
            for space in reach.pools.spaces.iter() {
                let catalogue = &reach.catalogues[space.catalogue];
                let companies = builder.companies((profile, links), (space, catalogue), reach.rules);
                known.insert((number, space.rules), companies);
            }
            let met_everywhere = |link: &&Link| {
                let met = |space: &PoolSpace<'_>| {
                    let best = known.get(&(number, space.rules)).and_then(|known| known.first());
                    best.is_some_and(|best| best.meets(link.group) && best.is_everywhere(space, reach.rules))
                };
                reach.pools.spaces.iter().all(met)
            };
            let about_hosts = links.rules.iter().filter(|link| link.host);
            let said = about_hosts.filter(|link| !met_everywhere(link));
            hosts.push((number, said.map(|link| HostRules::of(&self.at(link.group).0.kind)).max()));
        }
        for (number, hosts) in hosts {
            self.profiles[number.get()].hosts = hosts.unwrap_or_default();
        }
        let name = |daemons: &Daemons<'_>| {
            daemons.iter().map(|(_, planned)| planned.daemon.pod.key.to_string()).collect()
        };
        self.companies = Arc::new(Companies { names: name(daemons), of_groups, known });
    }

    /// Returns for each group the daemons whose pods it selects, or whose rule about others it is.
    fn daemons_of_groups(
        &self,
        daemons: &Daemons<'_>,
        lookup: &Lookup,
        snapshot: &Snapshot,
    ) -> IxVec<GroupIx, Vec<DaemonIx>> {
        let mut of_groups: IxVec<GroupIx, Vec<DaemonIx>> = IxVec::filled(Vec::new(), self.groups.len());
        for (index, planned) in daemons.iter() {
            let pod = &planned.daemon.pod;
            // It may never come where the pods that it needs are missing, so it counts only where its own
            // pods are.
            if !pod.pod_affinity.required.is_empty() {
                continue;
            }
            for group in lookup.candidates(&pod.labels) {
                let (key, _) = self.at(group);
                if key.kind != Kind::Inverse && key.selects(&pod.key.namespace, &pod.labels) {
                    of_groups[group].push(index);
                }
            }
            for group in keeping_off(pod, snapshot).filter_map(|key| self.groups.get_index_of(&key)) {
                let of_group = &mut of_groups[GroupIx::new(group)];
                // Two terms of one daemon set may be the same rule.
                if of_group.last() != Some(&index) {
                    of_group.push(index);
                }
            }
        }
        of_groups
    }

    /// Counts the daemons that are coming to nodes.
    fn count_coming(
        &mut self,
        of_groups: &IxVec<GroupIx, Vec<DaemonIx>>,
        (daemons, coming): (&Daemons<'_>, &IxVec<SnapshotNodeIx, Coming>),
        snapshot: &Snapshot,
    ) {
        for (node, coming) in snapshot.nodes.iter().zip(coming.iter()) {
            for (index, certain) in &coming.daemons {
                let counting = of_groups.enumerate().filter(|(_, daemons)| daemons.contains(index));
                let counting: Vec<GroupIx> = counting.map(|(group, _)| group).collect();
                if counting.is_empty() || is_kept_off(&daemons.at(*index).daemon.pod, node, snapshot) {
                    continue;
                }
                for group in counting {
                    let (key, group) =
                        self.groups.get_index_mut(group.get()).expect("invariant: groups are never removed");
                    // A daemon that may come is company to keep away from, and none to count on.
                    if key.kind == Kind::Affinity && !certain || !key.counts_node(node, &snapshot.registry) {
                        continue;
                    }
                    match value_of(node, &key.topology_key, &snapshot.registry) {
                        Some(domain) => group.add(Domain::Value(domain)),
                        None => undecided(group, key, node, &snapshot.registry),
                    }
                }
            }
        }
    }
}

/// The groups of what `daemon` keeps off its nodes.
fn keeping_off(daemon: &Pod, snapshot: &Snapshot) -> impl Iterator<Item = GroupKey> {
    let needs_others = !daemon.pod_affinity.required.is_empty();
    let terms = daemon.pod_anti_affinity.required.iter();
    let terms = terms.filter(move |term| !needs_others && term.selector.is_some());
    terms.map(|term| term_key(term, Kind::Inverse, &daemon.key.namespace, snapshot))
}

/// Returns whether `daemon` cannot come to `node` for a pod that is there: one of the two keeps off the other.
fn is_kept_off(daemon: &Pod, node: &Node, snapshot: &Snapshot) -> bool {
    let keeps_off = |owner: &Pod, other: &Pod| {
        owner.pod_anti_affinity.required.iter().any(|term| {
            Scope::of(term, &owner.key.namespace, snapshot).contains(&other.key.namespace)
                && term.selector.as_ref().is_some_and(|selector| selector.matches(&other.labels))
        })
    };
    let there = node.pods.iter().filter(|pod| pod.is_active());
    let mut there = there.filter(|pod| keeps_off(daemon, pod) || keeps_off(pod, daemon));
    there.next().is_some()
}

/// Works out the companies of profiles.
struct Builder<'b, 'a> {
    daemons: &'b Daemons<'a>,
    of_groups: &'b IxVec<GroupIx, Vec<DaemonIx>>,
    topology: &'b Topology,
    registry: &'b LabelRegistry,
}

impl Builder<'_, '_> {
    fn companies<'c>(
        &self,
        (profile, links): (&ProfileKey, &Links),
        (space, catalogue): (&PoolSpace<'c>, &Catalogue<'c>),
        rules: &mut Rules<'c>,
    ) -> Vec<Company> {
        let mut companies: Vec<Company> = Vec::new();
        for group in &space.daemons {
            let found = self.found(profile, links, space, group);
            let apart = found
                .avoided
                .iter()
                .fold(vec![Requirements::new()], |ways, daemon| product(&ways, &self.ways_out(*daemon)));
            let met: Vec<GroupIx> = found.meeting.iter().map(|(group, _)| *group).collect();
            let together = found.meeting.iter().fold(apart.clone(), |ways, (_, daemons)| {
                let staying = daemons.iter().filter(|daemon| !found.avoided.contains(daemon));
                let wanted = staying.flat_map(|daemon| self.wanted(*daemon, group, space, catalogue));
                product(&ways, &wanted.collect::<Vec<_>>())
            });
            let together = together.into_iter().filter(|_| !met.is_empty()).map(|asked| (asked, met.clone()));
            for (asked, met) in together.chain(apart.into_iter().map(|asked| (asked, Vec::new()))) {
                let asked = rules.set(&asked);
                // No node of the pool is like that.
                if rules.meet(space.rules, asked).is_none() {
                    continue;
                }
                let (variants, there) = (group.variants.clone(), found.there.clone());
                let company = Company { variants, asked, met, there };
                let alike = companies.iter_mut().find(|known| {
                    (known.asked, &known.met, &known.there) == (company.asked, &company.met, &company.there)
                });
                match alike {
                    Some(known) => known.variants.unite(&company.variants),
                    None => companies.push(company),
                }
            }
        }
        companies.sort_by_key(|company| Reverse(company.met.len()));
        companies
    }

    /// Returns the role of the daemons of `group` in the rules of a profile.
    fn found(
        &self,
        profile: &ProfileKey,
        links: &Links,
        space: &PoolSpace<'_>,
        group: &DaemonGroup,
    ) -> Found {
        let mut found = Found::default();
        for link in links.rules.iter().filter(|link| !link.guard) {
            let here = self.of_groups[link.group].iter().copied();
            let here: Vec<DaemonIx> = here.filter(|daemon| group.daemons.contains(daemon)).collect();
            let (key, _) = self.topology.at(link.group);
            if here.is_empty()
                || !link.host && lacks(space, &profile.bounds.strict, &key.topology_key, self.registry)
            {
                continue;
            }
            let daemons = u32::try_from(here.len()).unwrap_or(u32::MAX);
            match &key.kind {
                Kind::Affinity => found.meeting.push((link.group, here)),
                Kind::AntiAffinity | Kind::Inverse => found.avoid(&here),
                Kind::Spread { max_skew, .. } if link.host => {
                    if daemons + u32::from(link.own) > *max_skew {
                        found.avoid(&here);
                    } else {
                        found.there.push((link.group, daemons));
                    }
                }
                // Every node has its daemons, so they tip no balance between other domains.
                Kind::Spread { .. } => {}
            }
        }
        found
    }

    /// Returns the requirements of which a node must meet one to get `daemon`, beyond those of `group`.
    fn wanted(
        &self,
        daemon: DaemonIx,
        group: &DaemonGroup,
        space: &PoolSpace<'_>,
        catalogue: &Catalogue<'_>,
    ) -> Vec<Requirements> {
        let is_open = |asked: &&Requirement| {
            let key = asked.key();
            let own = space.template.get(key.as_str());
            !comes_by_itself(key.as_str())
                && group.variants.iter().any(|variant| {
                    let of_type = catalogue.variant(variant).instance_type.requirements.get(key.as_str());
                    let known = match (own, of_type) {
                        (Some(own), Some(of_type)) => own.intersection(of_type),
                        (Some(known), None) | (None, Some(known)) => known.clone(),
                        (None, None) => return !asked.accepts_absence(),
                    };
                    known.intersection(asked).with_min_values(known.min_values()) != known
                })
        };
        let alternatives = &self.daemons.at(daemon).alternatives;
        alternatives.iter().map(|asked| asked.iter().filter(is_open).cloned().collect()).collect()
    }

    /// Returns the requirements of which a node must meet one to stay without `daemon`; none where nothing keeps it away.
    fn ways_out(&self, daemon: DaemonIx) -> Vec<Requirements> {
        let otherwise = |asked: &Requirements| -> Vec<Requirements> {
            let open = asked.iter().filter(|asked| !comes_by_itself(asked.key().as_str()));
            let opposites = open.filter_map(|asked| opposite(asked, self.registry));
            opposites.map(|one| [one].into_iter().collect()).collect()
        };
        let alternatives = &self.daemons.at(daemon).alternatives;
        alternatives.iter().fold(vec![Requirements::new()], |ways, asked| product(&ways, &otherwise(asked)))
    }
}

/// Role of the daemons of a node in the rules of a profile.
#[derive(Default)]
struct Found {
    /// Daemons that it must not be with.
    avoided: Vec<DaemonIx>,
    /// Daemons that meet each affinity.
    meeting: Vec<(GroupIx, Vec<DaemonIx>)>,
    /// Number of daemons that rules about hosts count, by group.
    there: Vec<(GroupIx, u32)>,
}

impl Found {
    fn avoid(&mut self, daemons: &[DaemonIx]) {
        for daemon in daemons {
            if !self.avoided.contains(daemon) {
                self.avoided.push(*daemon);
            }
        }
    }
}

/// Every way to meet one of `ways` and one of `more`.
fn product(ways: &[Requirements], more: &[Requirements]) -> Vec<Requirements> {
    let pairs = ways.iter().flat_map(|way| more.iter().map(move |other| (way, other)));
    let both = pairs
        .filter_map(|(way, other)| conjunction(&way.iter().chain(other.iter()).cloned().collect::<Vec<_>>()));
    both.take(MOST_WAYS).collect()
}

/// Returns the requirement of nodes that do not meet `asked`; `None` for bounds.
fn opposite(asked: &Requirement, registry: &LabelRegistry) -> Option<Requirement> {
    let (operator, values) = match asked.operator() {
        Operator::In => (Operator::NotIn, asked.values()),
        Operator::NotIn => (Operator::In, asked.values()),
        Operator::Exists if asked.lower().is_none() && asked.upper().is_none() => {
            (Operator::DoesNotExist, asked.values())
        }
        Operator::DoesNotExist => (Operator::Exists, asked.values()),
        // The values outside of bounds, words and absence among them, cannot be stated as one requirement.
        _ => return None,
    };
    let key = asked.key().clone();
    let values = values.iter().cloned().collect();
    Some(Requirement::new(registry, &Expression { key, operator, values, min_values: None }))
}
