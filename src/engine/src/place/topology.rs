//! Rules about other pods: topology spread, pod affinity and anti-affinity (spec scheduling 18).
//!
//! Pods with the same rule share a *group*, which counts matching pods per domain. A pod's *profile* lists the
//! groups it must satisfy and those that count it. Rules are answered with the domains that are allowed now, in
//! order of preference; the caller tries them until one leaves an instance type, so a choice is never a dead end as
//! long as another exists. Among domains with as many pods the cheaper one comes first, then the one with fewer nodes
//! of the pool, then the first by name.
//!
//! Unlike in the reference, anti-affinity between new pods commits to one domain at once, so that one pass places as many
//! pods as there are domains. So does the first of several pods that must share a domain, which decides the domain of the
//! others. Filters and `minDomains` are part of a group's identity.

mod bounds;
mod census;
mod company;
mod concession;
mod count;
mod filter;
mod group;
mod hosts;
mod late;
mod lead;
mod lookup;
mod pod_rules;
mod reach;
mod record;
mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::{
    LabelKey, LabelRegistry, LabelValue, Labels, Namespace, Node, Pod, PoolName, Price, Requirement,
    Requirements, Snapshot, WhenUnsatisfiable,
};

use crate::daemons::{Coming, Daemons};
use crate::index::{GroupIx, IdentityIx, InFlightIx, Ix, IxVec, ProfileIx, SnapshotNodeIx};
use crate::interning::{Interned, InternedMap};
use crate::node_labels::value_of;
use crate::place::pool::PoolSpace;
use crate::place::relax::Relaxed;
use crate::rules::{RuleSetId, Rules};
use crate::volumes::SharedClaim;
pub(crate) use bounds::Bounds;
use census::Census;
use company::Companies;
pub(crate) use company::Company;
pub(crate) use group::Domain;
use group::{Alternatives, Group, GroupKey, Incoming, Kind};
pub(crate) use hosts::{Tally, Turn};
use lookup::Lookup;
pub(crate) use pod_rules::PodRules;
use pod_rules::term_key;
pub(crate) use reach::{Reach, Request};

/// Most combinations of domains that are tried for one pod on one in-flight node.
const MAX_CHOICES: usize = 64;
/// Number of steps in a price: a difference of less than one step does not decide between domains, because prices of
/// spot change all the time, and what spreads nodes is worth something too.
const PRICE_STEPS: i64 = 20;

/// Offer of a domain to a pod that looks for an in-flight node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prospect {
    /// The least price of a node for it there.
    pub(crate) price: Price,
    /// Nodes of the pool that are there already, or will be.
    pub(crate) nodes: u32,
}

/// Lookup of the offer of a domain; `None` where no instance type is available in it.
pub(crate) type Prospects<'p> = dyn FnMut(&LabelKey, &LabelValue) -> Option<Prospect> + 'p;

/// Domains that a rule leaves, in order of preference.
#[derive(Debug)]
pub(crate) enum Choices<'t> {
    /// Values of the key, any one of which may be taken.
    Values(&'t LabelKey, Vec<&'t LabelValue>),
    /// Requirements, any one of which may be taken; none when no domain is fine for now.
    Any(Vec<Requirements>),
}

impl Choices<'_> {
    /// Returns the requirements of each choice on a node, best first.
    pub(crate) fn sets(self, rules: &mut Rules<'_>) -> Vec<RuleSetId> {
        match self {
            Self::Values(key, values) => values.into_iter().map(|value| rules.exactly(key, value)).collect(),
            Self::Any(choices) => choices.iter().map(|choice| rules.set(choice)).collect(),
        }
    }
}

/// Role of a pod in the groups at one relaxation step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ProfileKey {
    owned: Vec<GroupIx>,
    /// Owned groups of its required affinity.
    required_affinity: Vec<GroupIx>,
    /// Owned groups of spread constraints the scheduler insists on.
    hard_spread: Vec<GroupIx>,
    owned_inverse: Vec<GroupIx>,
    /// Number of the pod's identity.
    identity: IdentityIx,
    bounds: Bounds,
}

/// Properties by which rules of others select a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Identity {
    namespace: Namespace,
    labels: Labels,
}

/// Verdict of rules about other pods on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The pod may go there.
    Yes,
    /// The pod may not go there as things are: affinity may be met later, once a matching pod is there.
    NotNow,
    /// The pod may not go there in this pass: hosts only get fuller.
    Never,
}

/// Rule of a pod about sharing a host with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum HostRules {
    /// No rule about hosts.
    #[default]
    None,
    /// The pod keeps apart from some others.
    Apart,
    /// The pod must be with some others.
    Together,
}

impl HostRules {
    /// Returns the host rule that corresponds to a rule of `kind` about hosts.
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Affinity => Self::Together,
            Kind::Spread { .. } | Kind::AntiAffinity | Kind::Inverse => Self::Apart,
        }
    }
}

/// The groups that concern a profile, known once all groups are.
#[derive(Debug, Clone, Default)]
struct Links {
    /// Rules that must hold: its own, then those of others that keep it out.
    rules: Vec<Link>,
    /// Groups that count this pod.
    counted: Vec<GroupIx>,
    /// Groups by which others must be in the domain of this pod, whatever rules it has itself.
    sought: Vec<GroupIx>,
    /// Rules about sharing a host.
    hosts: HostRules,
    /// True if some rule is about other domains than hosts, or other pods must be in the domain of this one.
    domains: bool,
}

/// A rule that concerns a profile.
#[derive(Debug, Clone, Copy)]
struct Link {
    group: GroupIx,
    /// The pod matches the rule itself.
    own: bool,
    /// The rule is about hosts.
    host: bool,
    /// True if it is a spread constraint of others, which the pod must not break where it has put them.
    guard: bool,
}

/// All groups and profiles of a pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topology {
    groups: InternedMap<GroupKey, Group>,
    profiles: InternedMap<ProfileKey, Links>,
    identities: Interned<Identity>,
    /// Node counts that break ties between domains.
    census: Census,
    /// Groups of required affinity, with where the pods may go that have it.
    seekers: BTreeMap<GroupIx, BTreeSet<Bounds>>,
    /// Anti-affinity of bound pods is counted here; otherwise it is part of the requirements of pods.
    bound_owners: bool,
    /// Daemons as far as rules are about them.
    companies: Arc<Companies>,
    /// Groups that will count a pod on an in-flight node once it is certain in which domain that node is.
    undecided: BTreeMap<InFlightIx, Vec<GroupIx>>,
    /// Domains that new nodes could be in, for whichever pods, by key.
    domains: BTreeMap<LabelKey, BTreeSet<LabelValue>>,
    /// Spread constraints that do not count every domain a new node may be in.
    partial: BTreeSet<GroupIx>,
    /// Domains that such a constraint counts because new nodes of other pods are there.
    late: Vec<(GroupIx, LabelValue)>,
    /// Rules of required affinity that select pods which do not have it.
    mixed: BTreeSet<GroupIx>,
    /// Rules that are read with less caution, in a simulation since it began.
    conceded: BTreeSet<GroupIx>,
    /// Undo log; `None` unless this is a simulation.
    journal: Option<Vec<Change>>,
}

/// One change of a group's counts.
#[derive(Debug, Clone)]
struct Change {
    group: GroupIx,
    domain: Domain,
    kind: ChangeKind,
}

#[derive(Debug, Clone, Copy)]
enum ChangeKind {
    /// A pod came.
    Added,
    /// A pod went.
    Removed,
    /// A node of the domain went.
    Unknown,
    /// A pod whose spread constraint the group is has got a place.
    Bound,
    /// A node will be in the domain.
    Known,
}

impl Topology {
    /// Returns whether any pod of `pods` has a rule about others.
    pub(crate) fn concerns<'p>(mut pods: impl Iterator<Item = &'p Pod>) -> bool {
        pods.any(|pod| {
            let affinities = [&pod.pod_affinity, &pod.pod_anti_affinity];
            !pod.spread.is_empty()
                || affinities.iter().any(|a| !a.required.is_empty() || !a.preferred.is_empty())
        })
    }

    /// The rules of `pod`, which shares the claims `one_zone`, about others and of others about it, for the profiles of its levels.
    pub(crate) fn pod_rules<'p>(
        &mut self,
        (pod, one_zone): (&'p Pod, &[SharedClaim]),
        snapshot: &'p Snapshot,
    ) -> PodRules<'p> {
        let identity = Identity { namespace: pod.key.namespace.clone(), labels: pod.labels.clone() };
        let (identity, _) = self.identities.insert_full(identity);
        PodRules::new((pod, one_zone), IdentityIx::new(identity), snapshot, self)
    }

    /// The profile of a pod at the level `relaxed`, which may go anywhere within `bounds`.
    pub(crate) fn profile<'p>(
        &mut self,
        pod_rules: &mut PodRules<'p>,
        relaxed: &Relaxed<'p>,
        bounds: Bounds,
    ) -> ProfileIx {
        let mut owned = Vec::new();
        let mut hard_spread = Vec::new();
        for spread in &relaxed.spread {
            let group = pod_rules.spread(spread, self);
            owned.extend(group);
            hard_spread
                .extend(group.filter(|_| spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule));
        }
        owned.extend(pod_rules.required_affinity.iter().chain(&pod_rules.one_zone));
        let preferred = relaxed.preferred_affinity.iter();
        owned.extend(preferred.map(|rule| pod_rules.term(rule, &Kind::Affinity, self)));
        owned
            .extend(relaxed.anti_affinity.iter().map(|rule| pod_rules.term(rule, &Kind::AntiAffinity, self)));
        let (owned_inverse, identity) = (pod_rules.inverse.clone(), pod_rules.identity);
        let required_affinity = pod_rules.required_affinity.clone();
        let key = ProfileKey { owned, required_affinity, hard_spread, owned_inverse, identity, bounds };
        let entry = self.profiles.entry(key);
        let id = ProfileIx::new(entry.index());
        entry.or_default();
        id
    }

    fn group(&mut self, key: GroupKey) -> GroupIx {
        let entry = self.groups.entry(key);
        let index = GroupIx::new(entry.index());
        entry.or_default();
        index
    }

    /// Returns the counts of every group, as texts.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> BTreeSet<String> {
        let texts = self.groups.iter().map(|(key, group)| format!("{key:?} {:?}", group.counted()));
        texts.collect()
    }

    /// Returns whether no pod has a rule about others.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Makes the anti-affinity of pods that stay where they are groups like any other, so that it goes when they
    /// go.
    pub(crate) fn count_bound_owners(&mut self, snapshot: &Snapshot) {
        self.bound_owners = true;
        for (_, _, key) in bound_owners(snapshot) {
            self.group(key);
        }
    }

    /// Links profiles to groups and counts what is there and what daemons are `coming`, once every profile is known.
    pub(crate) fn complete(
        &mut self,
        snapshot: &Snapshot,
        (daemons, coming): (&Daemons<'_>, &IxVec<SnapshotNodeIx, Coming>),
        reach: &mut Reach<'_, '_>,
        batch: &[&Pod],
    ) {
        self.learn_bounds();
        let lookup = Lookup::new(self.groups.keys());
        let groups = &self.groups;
        let key_of =
            |group: GroupIx| groups.get_index(group.get()).expect("invariant: groups are never removed").0;
        let selecting = |identity: &Identity| {
            let candidates = lookup.candidates(&identity.labels).into_iter();
            let selects = |group: &GroupIx| key_of(*group).selects(&identity.namespace, &identity.labels);
            candidates.filter(selects).collect()
        };
        let selecting: IxVec<IdentityIx, Vec<GroupIx>> = self.identities.iter().map(selecting).collect();
        let insisted = self.insisted();
        for (profile, links) in &mut self.profiles {
            let selecting = &selecting[profile.identity];
            let link = |group: &GroupIx| {
                let key = key_of(*group);
                let own = key.is_shared() || selecting.binary_search(group).is_ok();
                Link { group: *group, own, host: key.topology_key == label::HOSTNAME, guard: false }
            };
            let inverse = |group: &&GroupIx| key_of(**group).kind == Kind::Inverse;
            let keeping_out = selecting.iter().filter(inverse);
            let guarding =
                selecting.iter().filter(|group| insisted.contains(group) && !profile.owned.contains(group));
            let guarding = guarding.map(|group| Link { guard: true, ..link(group) });
            links.rules = profile.owned.iter().chain(keeping_out).map(link).chain(guarding).collect();
            let own = links.rules.iter().filter(|link| key_of(link.group).is_shared()).map(|link| link.group);
            links.counted = selecting.iter().filter(|group| !inverse(group)).copied().chain(own).collect();
            let seekers = &self.seekers;
            let sought = |group: &&GroupIx| {
                seekers.contains_key(*group)
                    && !profile.owned.contains(*group)
                    && key_of(**group).topology_key != label::HOSTNAME
            };
            links.sought = selecting.iter().filter(sought).copied().collect();
            links.domains = links.rules.iter().any(|link| !link.host) || !links.sought.is_empty();
            let about_hosts = links.rules.iter().filter(|link| link.host);
            let said = about_hosts.map(|link| HostRules::of(&key_of(link.group).kind));
            // The strictest rule counts, which is the one declared last.
            links.hosts = said.max().unwrap_or_default();
        }
        self.mixed = concession::mixed(&self.groups, &self.profiles, &self.seekers);
        let requests = reach.requests(self.profiles.len());
        let mut of_groups: IxVec<GroupIx, Vec<&Request>> = IxVec::filled(Vec::new(), self.groups.len());
        for (profile, requests) in self.profiles.keys().zip(requests.iter()) {
            profile.owned.iter().for_each(|group| of_groups[*group].extend(requests));
        }
        let mut partial: BTreeSet<GroupIx> = BTreeSet::new();
        for profile in self.profiles.keys() {
            let counts_less = |group: &&GroupIx| {
                let key = key_of(**group);
                key.looks_past_affinity() && profile.bounds.strict.contains(key.topology_key.as_str())
            };
            partial.extend(profile.hard_spread.iter().filter(counts_less));
        }
        let narrow = count::fill(&mut self.groups, &lookup, snapshot, (reach, &of_groups), batch);
        self.partial = partial.into_iter().chain(narrow).collect();
        self.domains = reach.all();
        self.meet_daemons((daemons, coming), &lookup, snapshot, reach);
        self.census = Census::new(self.keys(), snapshot);
        if self.bound_owners {
            for (node, _, key) in bound_owners(snapshot) {
                let domain = value_of(node, &key.topology_key, &snapshot.registry);
                if let (Some(domain), Some(group)) = (domain, self.groups.get_mut(&key)) {
                    group.add(Domain::Value(domain));
                }
            }
        }
    }

    /// The spread constraints that the scheduler insists on for some pod.
    fn insisted(&self) -> BTreeSet<GroupIx> {
        self.profiles.keys().flat_map(|profile| &profile.hard_spread).copied().collect()
    }

    /// Returns whether the outcome for this profile can change while others are placed, other than for the worse.
    pub(crate) fn is_bound_to_others(&self, id: ProfileIx) -> bool {
        !self.entry(id).1.rules.is_empty()
    }

    /// Returns whether others look for the domain of this profile.
    fn is_sought(&self, id: ProfileIx) -> bool {
        !self.entry(id).1.sought.is_empty()
    }

    /// The profile of a pod, if where others are decides where it goes, or the other way round: a pod without rules of
    /// its own still commits to a domain when others look for it.
    pub(crate) fn bound(&self, profile: Option<ProfileIx>) -> Option<ProfileIx> {
        profile.filter(|id| self.is_bound_to_others(*id) || self.is_sought(*id))
    }

    /// Returns the rules of the profile about sharing a host, and of others about sharing one with it.
    pub(crate) fn host_rules(&self, id: ProfileIx) -> HostRules {
        self.entry(id).1.hosts
    }

    /// The group of the pods that must share a host with each other, this one among them, if there is such a group.
    pub(crate) fn co_located(&self, id: ProfileIx) -> Option<GroupIx> {
        let (_, links) = self.entry(id);
        let of_hosts = links.rules.iter().filter(|link| link.host && link.own);
        let mut groups = of_hosts.filter(|link| self.at(link.group).0.kind == Kind::Affinity);
        groups.next().map(|link| link.group)
    }

    /// Grows whenever the rules of the profile may have another answer. Nodes and in-flight nodes only get
    /// narrower, so what failed at one version fails again at the same one.
    pub(crate) fn version(&self, id: ProfileIx) -> u64 {
        self.entry(id).1.rules.iter().map(|link| self.at(link.group).1.version()).sum()
    }

    fn entry(&self, id: ProfileIx) -> (&ProfileKey, &Links) {
        self.profiles.get_index(id.get()).expect("invariant: profiles are never removed")
    }

    fn at(&self, index: GroupIx) -> (&GroupKey, &Group) {
        self.groups.get_index(index.get()).expect("invariant: groups are never removed")
    }

    /// Returns the data that the rule of `link` needs about a pod of `profile`.
    fn incoming<'p>(&self, profile: &'p ProfileKey, link: &Link) -> Incoming<'p> {
        let required = &profile.required_affinity;
        let first = || {
            let (key, group) = self.at(link.group);
            if key.kind != Kind::Affinity {
                false
            } else if key.is_shared() {
                group.occupied() == 0
            } else if required.contains(&link.group) {
                // As the scheduler has it, a pod is the first of all its required terms or of none, and only where no
                // matching pod is in any domain of any of them, wherever the pod may go (differences.md, Scheduling).
                required.iter().all(|index| {
                    let group = self.at(*index).1;
                    group.occupied() == 0 && (group.conceded() || !self.mixed.contains(index))
                })
            } else {
                // A preference is no reason to give up others: company where the pod must not go is none.
                group.is_empty_for(key, &profile.bounds)
            }
        };
        let guard = link.guard;
        Incoming { own: link.own, first: link.own && first(), guard, bounds: &profile.bounds }
    }

    /// Label keys that rules use, the host name aside.
    pub(crate) fn keys(&self) -> Vec<LabelKey> {
        let keys: BTreeSet<&LabelKey> = self.groups.keys().map(|key| &key.topology_key).collect();
        keys.into_iter().filter(|key| **key != label::HOSTNAME).cloned().collect()
    }

    /// Returns whether rules about the host allow the profile on an existing node, or on an in-flight node with the
    /// daemons of `company`. Where it was `promised` a place, it will come in any case, so that what it would break for
    /// others is no reason to send it elsewhere.
    pub(crate) fn admits_host(
        &self,
        id: ProfileIx,
        host: &Domain,
        company: Option<&Company>,
        promised: bool,
    ) -> Admission {
        let (profile, links) = self.entry(id);
        let mut admission = Admission::Yes;
        for link in links.rules.iter().filter(|link| link.host && !(promised && link.guard)) {
            let (key, group) = self.at(link.group);
            if company.is_some_and(|company| company.meets(link.group)) {
                continue;
            }
            let daemons = company.map_or(0, |company| company.there(link.group));
            let incoming = self.incoming(profile, link);
            if !group.admits(key, host, daemons, incoming)
                || incoming.first && !self.may_lead(link.group, host)
            {
                // Pods are only added during a pass: spread and anti-affinity get worse, affinity may be met later.
                if key.kind != Kind::Affinity {
                    return Admission::Never;
                }
                admission = Admission::NotNow;
            }
        }
        admission
    }

    /// The counts of the hosts the profile may join, if some rule makes it join others: the fewest any rule names. Rules
    /// that are `beside` the point aside.
    fn to_join(&self, id: ProfileIx, beside: impl Fn(GroupIx) -> bool) -> Option<&Group> {
        let (profile, links) = self.entry(id);
        let joining = links.rules.iter().filter_map(|link| {
            let (key, group) = self.at(link.group);
            let joins = link.host && key.kind == Kind::Affinity && !beside(link.group);
            (joins && !self.incoming(profile, link).first).then_some(group)
        });
        joining.min_by_key(|group| group.occupied())
    }

    /// The only nodes that exist the profile may join, by host name, if some rule makes it join others.
    pub(crate) fn hosts_to_join(&self, id: ProfileIx) -> Option<Vec<&LabelValue>> {
        self.to_join(id, |_| false).map(|group| group.inhabited().collect())
    }

    /// Returns the only in-flight nodes the profile may join, if some rule makes it join others. Where
    /// daemons may be what it joins, any node may do.
    pub(crate) fn in_flight_to_join(&self, id: ProfileIx) -> Option<Vec<InFlightIx>> {
        self.to_join(id, |group| self.companies.count(group))
            .map(|group| group.inhabited_in_flight().collect())
    }

    /// Returns whether all other rules allow the profile on an existing node, where it may have been `promised` a place;
    /// the answer is the same for nodes with the same values of [`Self::keys`] that are launched, or are not.
    pub(crate) fn admits_domains(
        &self,
        id: ProfileIx,
        node: &Node,
        registry: &LabelRegistry,
        promised: bool,
    ) -> bool {
        let (profile, links) = self.entry(id);
        let leads = |group: &GroupIx| {
            let domain = value_of(node, &self.at(*group).0.topology_key, registry);
            domain.is_none_or(|domain| self.may_lead(*group, &Domain::Value(domain)))
        };
        let admitted = links.rules.iter().filter(|link| !link.host).all(|link| {
            let (key, group) = self.at(link.group);
            // A promised pod comes in any case, and on a node that does not count it breaks no spread.
            if link.guard && (promised || !key.counts_node(node, registry)) {
                return true;
            }
            match (value_of(node, &key.topology_key, registry), &key.kind) {
                (Some(domain), _) => {
                    let (domain, incoming) = (Domain::Value(domain), self.incoming(profile, link));
                    group.admits(key, &domain, 0, incoming)
                        && (!incoming.first || self.may_lead(link.group, &domain))
                }
                // A node without the label is in no domain: it meets no rule of the pod to be in one, and is apart
                // from all pods.
                (None, Kind::Spread { .. }) => link.guard,
                (None, Kind::Affinity) => false,
                (None, Kind::Inverse) => true,
                (None, Kind::AntiAffinity) => {
                    group.knows_no_domain() || !is_undecided(node, &key.topology_key, registry)
                }
            }
        });
        admitted && links.sought.iter().all(leads)
    }

    /// Returns whether rules of the profile concern anything but hosts.
    pub(crate) fn asks_for_domains(&self, id: ProfileIx) -> bool {
        self.entry(id).1.domains
    }

    /// Returns whether rules of the profile itself are about anything but hosts. Unlike [`Self::asks_for_domains`], it
    /// ignores whether pods that must be with it are to find it.
    pub(crate) fn has_rules_about_domains(&self, id: ProfileIx) -> bool {
        self.entry(id).1.rules.iter().any(|link| !link.host)
    }

    /// Nodes of `pool` that are in a domain already, or will be.
    pub(crate) fn nodes(&self, pool: &PoolName, key: &LabelKey, value: &LabelValue) -> u32 {
        self.census.nodes(pool, key, value)
    }

    /// Returns the choices that put the profile into an allowed domain, best first, for an in-flight node of
    /// `space` with these `requirements` (those of the pod included). Hosts are answered by [`Self::admits_host`].
    /// A single rule gives every domain; of several, domains without `prospects` are left out before the
    /// combinations are cut to a bounded number. What the daemons of `company` meet is met in every domain.
    pub(crate) fn choices<'t>(
        &'t self,
        (id, company): (ProfileIx, Option<&Company>),
        requirements: &Requirements,
        space: &PoolSpace<'_>,
        registry: &LabelRegistry,
        prospects: &mut Prospects<'_>,
    ) -> Choices<'t> {
        let (profile, links) = self.entry(id);
        let about_domains = links.rules.iter().filter(|link| !link.host);
        let unmet = about_domains.filter(|link| !company.is_some_and(|company| company.meets(link.group)));
        let rules = unmet.filter_map(|link| {
            let (key, group) = self.at(link.group);
            // As a plan has it, where anti-affinity of bound pods is a `NotIn` requirement of the pods it keeps out: a
            // simulation must narrow nodes in the same way.
            let alternatives = if key.kind == Kind::Inverse && self.bound_owners {
                group.exclusion(key, registry).map(Alternatives::Among)
            } else if link.guard {
                // A node in no domain breaks no spread.
                let counts = key.may_count(&space.pool.template.taints)
                    && !lacks(space, requirements, &key.topology_key, registry);
                counts.then(|| group.guarded(key, registry)).flatten().map(Alternatives::Among)
            } else if matches!(key.kind, Kind::AntiAffinity | Kind::Inverse)
                && lacks(space, requirements, &key.topology_key, registry)
            {
                // A node in no domain is apart from all pods.
                None
            } else {
                let allowed = requirements.get(key.topology_key.as_str());
                let mut alternatives = group.alternatives(key, allowed, self.incoming(profile, link));
                if let Some(Alternatives::Each(values)) = &mut alternatives
                    && key.kind == Kind::Affinity
                {
                    // Only the first of a group has a choice: it goes where the others may follow.
                    for (kept_out, value) in values.iter_mut() {
                        *kept_out = self.kept_out(link.group, value);
                    }
                    values.sort_unstable();
                }
                alternatives
            };
            Some((key, alternatives?))
        });
        let mut rules: Vec<_> = rules.collect();
        // Followers that cannot be everywhere take precedence over the best spread.
        rules.sort_by_key(|(key, alternatives)| key.kind != Kind::Affinity || !alternatives.differ());
        let unsettled = self.unsettled(links, requirements, space, registry, &rules);
        let mut rules = rules.into_iter();
        let first = match (rules.next(), rules.next()) {
            // The common case, without building a requirement per domain.
            (Some((GroupKey { topology_key, .. }, Alternatives::Each(values))), None)
                if unsettled.is_empty() =>
            {
                return Choices::Values(topology_key, ordered(topology_key, values, prospects));
            }
            (first, second) => first.into_iter().chain(second),
        };
        let mut choices = vec![Requirements::new()];
        for (GroupKey { topology_key: key, .. }, alternatives) in first.chain(rules) {
            let alternatives = match alternatives {
                Alternatives::Each(mut values) => {
                    if values.len() > MAX_CHOICES {
                        values.retain(|(_, value)| prospects(key, value).is_some());
                    }
                    let values = ordered(key, values, prospects).into_iter();
                    values.map(|value| exactly(key, value)).collect()
                }
                Alternatives::Among(requirement) => vec![requirement],
            };
            choices = combine(&choices, &alternatives);
        }
        for (key, values) in unsettled {
            let values = ordered(key, values, prospects).into_iter().map(|value| exactly(key, value));
            let mut settled = combine(&choices, &values.collect::<Vec<_>>());
            // Committing to a domain helps the pods that follow, but must not leave this one without a place.
            settled.append(&mut choices);
            choices = settled;
        }
        Choices::Any(choices)
    }

    /// The keys under which other pods must follow this one into its domain, where no matching pod is in any domain
    /// yet; with the domains that `requirements` allow, those first that rule out the fewest followers. Keys are left
    /// out where the in-flight node is in one domain already, or `rules` choose one anyway.
    fn unsettled<'t>(
        &'t self,
        links: &Links,
        requirements: &Requirements,
        space: &PoolSpace<'_>,
        registry: &LabelRegistry,
        rules: &[(&GroupKey, Alternatives<'_>)],
    ) -> Vec<(&'t LabelKey, Vec<(u32, &'t LabelValue)>)> {
        // By key and domain: how many different followers cannot be there.
        let mut unsettled: BTreeMap<&LabelKey, BTreeMap<&LabelValue, u32>> = BTreeMap::new();
        let guards = links.rules.iter().filter(|link| link.guard && !link.host);
        let guards = guards.map(|link| (link.group, true));
        for (index, guard) in links.sought.iter().map(|group| (*group, false)).chain(guards) {
            let (GroupKey { topology_key: key, .. }, group) = self.at(index);
            let settles = |(of, how): &(&GroupKey, Alternatives<'_>)| {
                of.topology_key == *key && matches!(how, Alternatives::Each(_))
            };
            if (group.occupied() > 0 && !guard)
                || census::only(requirements, key).is_some()
                || rules.iter().any(settles)
                || lacks(space, requirements, key, registry)
                || guard && !self.at(index).0.may_count(&space.pool.template.taints)
            {
                continue;
            }
            let domains = unsettled.entry(key).or_default();
            for value in group.known(requirements.get(key.as_str())) {
                *domains.entry(value).or_default() += if guard {
                    group.count(&Domain::Value(value.clone()))
                } else {
                    self.kept_out(index, value)
                };
            }
        }
        let sorted = unsettled.into_iter().map(|(key, domains)| {
            let mut domains: Vec<_> =
                domains.into_iter().map(|(value, kept_out)| (kept_out, value)).collect();
            domains.sort_unstable();
            (key, domains)
        });
        sorted.collect()
    }

    /// Returns why the rules of a profile cannot be met, for people.
    pub(crate) fn explain(&self, id: ProfileIx) -> String {
        let (profile, _) = self.entry(id);
        let rules = profile.owned.iter().map(|index| {
            let (key, group) = self.at(*index);
            format!("{key} with {}{}", group.summary(), self.daemons_named(*index))
        });
        let guards = self.entry(id).1.rules.iter().filter(|link| link.guard).map(|link| {
            let (key, group) = self.at(link.group);
            format!("{key} of other pods with {}", group.summary())
        });
        let rules: Vec<String> = rules.chain(guards).collect();
        if rules.is_empty() { "anti-affinity of other pods".to_owned() } else { rules.join("; ") }
    }
}

/// Required anti-affinity of the pods that stay where they are: its node, its owner and its group.
fn bound_owners(snapshot: &Snapshot) -> impl Iterator<Item = (&Node, &Pod, GroupKey)> {
    let stays = |node: &Node, pod: &Pod| {
        !(pod.is_terminal() || node.is_leaving() && snapshot.currently_reschedulable(pod))
    };
    let bound = snapshot.nodes.iter().flat_map(|node| node.pods.iter().map(move |pod| (&**node, &**pod)));
    let bound = bound.filter(move |(node, pod)| stays(node, pod));
    bound.flat_map(move |(node, pod)| {
        let terms = pod.pod_anti_affinity.required.iter().filter(|term| term.selector.is_some());
        terms.map(move |term| (node, pod, term_key(term, Kind::Inverse, &pod.key.namespace, snapshot)))
    })
}

/// Returns whether `node`, which has no label `key`, may still come up with it: the instance decides about well-known
/// labels, and about others the requirements of its claim.
fn is_undecided(node: &Node, key: &LabelKey, registry: &LabelRegistry) -> bool {
    let asks = |own: &Requirement| !own.accepts_absence();
    node.unlaunched().is_some_and(|claim| {
        registry.is_well_known(key.as_str()) || claim.requirements.get(key.as_str()).is_some_and(asks)
    })
}

/// Returns whether an in-flight node of `space` with these `requirements` comes up without a label `key`: the instance
/// does not decide about it, the pool does not name it, and no pod asks for it.
fn lacks(
    space: &PoolSpace<'_>,
    requirements: &Requirements,
    key: &LabelKey,
    registry: &LabelRegistry,
) -> bool {
    !registry.is_well_known(key.as_str())
        && !space.template.contains(key.as_str())
        && requirements.get(key.as_str()).is_none_or(Requirement::accepts_absence)
}

/// `values`, which come with their number of pods in ascending order, with equals ordered by their `prospects`.
fn ordered<'t>(
    key: &LabelKey,
    mut values: Vec<(u32, &'t LabelValue)>,
    prospects: &mut Prospects<'_>,
) -> Vec<&'t LabelValue> {
    for tied in values.chunk_by_mut(|a, b| a.0 == b.0).filter(|tied| tied.len() > 1) {
        let known: Vec<_> = tied.iter().map(|(_, value)| (prospects(key, value), *value)).collect();
        let least = known.iter().filter_map(|(prospect, _)| *prospect).map(|prospect| prospect.price).min();
        let least = least.map_or(0, Price::nanos);
        let rank = |prospect: Option<Prospect>| {
            // A domain without an offer is last.
            prospect.map_or((true, 0, 0), |prospect| {
                let excess = prospect.price.nanos().saturating_sub(least);
                (false, excess.saturating_mul(PRICE_STEPS) / least.max(1), prospect.nodes)
            })
        };
        let mut known: Vec<_> = known.into_iter().map(|(prospect, value)| (rank(prospect), value)).collect();
        known.sort_unstable();
        for (place, (_, value)) in tied.iter_mut().zip(known) {
            place.1 = value;
        }
    }
    values.into_iter().map(|(_, value)| value).collect()
}

/// Every way to meet one more rule, best first, without those that contradict what was chosen before.
fn combine(choices: &[Requirements], alternatives: &[Requirement]) -> Vec<Requirements> {
    let pairs =
        choices.iter().flat_map(|choice| alternatives.iter().map(move |alternative| (choice, alternative)));
    let agreeing = pairs.filter(|(choice, alternative)| {
        choice.get(alternative.key().as_str()).is_none_or(|chosen| chosen.intersects(alternative))
    });
    let merged = agreeing.map(|(choice, alternative)| {
        let mut merged = choice.clone();
        merged.add(alternative.clone());
        merged
    });
    merged.take(MAX_CHOICES).collect()
}

/// A requirement of one value.
fn exactly(key: &LabelKey, value: &LabelValue) -> Requirement {
    Requirement::one_of(key.clone(), [value.clone()])
}
