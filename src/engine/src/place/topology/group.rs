//! One rule about other pods with its counts, and which domains it allows next (spec scheduling 18.4).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_model::names::label;
use karpenter_model::{
    Expression, LabelKey, LabelRegistry, LabelSelector, LabelValue, Labels, Namespace, Node, Operator,
    Requirement, Requirements, Snapshot, Taint,
};

use super::bounds::Bounds;
use super::filter::Filter;
use crate::index::{InFlightIx, Ix, IxVec, SnapshotNodeIx};
use crate::place::scope::Scope;
use crate::volumes::SharedClaim;

/// Most domains a message lists.
const SHOWN_DOMAINS: usize = 25;

/// Kind of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Domains differ by at most `max_skew`.
    Spread {
        /// Largest difference.
        max_skew: u32,
        /// Number of domains below which the minimum counts as zero.
        min_domains: Option<u32>,
        /// Nodes that count.
        filter: Filter,
    },
    /// A matching pod must be in the domain.
    Affinity,
    /// No matching pod may be in the domain.
    AntiAffinity,
    /// The other side of anti-affinity: counts the owners, keeps out pods that match.
    Inverse,
}

/// Identity of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) kind: Kind,
    pub(crate) topology_key: LabelKey,
    pub(crate) whom: Whom,
}

/// The pods a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Whom {
    /// Pods that all of these select. Sorted, each one once.
    Selected(Vec<PodSelector>),
    /// Pods that have the rule themselves, because they use this claim, whose volume will be where the first of them is.
    Sharing(SharedClaim),
}

/// Pods by namespace and labels; without label selector none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodSelector {
    pub(crate) scope: Scope,
    pub(crate) labels: Option<LabelSelector>,
}

/// Facts that a rule needs about the pod to place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<'p> {
    /// The pod matches the rule itself.
    pub(crate) own: bool,
    /// Set when the pod needs no other pod to be with: it matches its own affinity, and there is no matching pod it
    /// could be with.
    pub(crate) first: bool,
    /// The rule is a spread constraint of others: it keeps out only where it would be broken for one that has a place.
    pub(crate) guard: bool,
    /// Requirements on its place.
    pub(crate) bounds: &'p Bounds,
}

/// A value of the topology key; new nodes have no host name yet and go by their in-flight node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Domain {
    Value(LabelValue),
    /// The host name in-flight node number so-and-so will have.
    InFlight(InFlightIx),
}

/// Pods per known domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    /// Tallies by label value.
    values: BTreeMap<LabelValue, Tally>,
    /// By in-flight node, ascending: those with at least one pod. A list, because a rule about hosts is asked about
    /// many in-flight nodes in turn.
    in_flight: Vec<(InFlightIx, u32)>,
    /// Pods that have got a place in this pass and have the rule themselves, by domain. The scheduler may bind them last, so
    /// what comes to their domain later counts.
    bound: BTreeMap<Domain, u32>,
    /// Domains with at least one pod.
    occupied: usize,
    /// True if it is read with less caution; see [`concession`](super::concession).
    conceded: bool,
    /// Pods added so far; as long as it stays the same, so do the answers.
    version: u64,
}

/// Ways to narrow the values of a key so that a rule holds.
#[derive(Debug)]
pub(crate) enum Alternatives<'g> {
    /// To one of these values: those with the fewest pods first, equals by name.
    Each(Vec<(u32, &'g LabelValue)>),
    /// To the values that this requirement leaves.
    Among(Requirement),
}

impl Alternatives<'_> {
    /// Returns whether some value is better than another.
    pub(crate) fn differ(&self) -> bool {
        matches!(self, Self::Each(values) if values.windows(2).any(|pair| pair[0].0 != pair[1].0))
    }
}

/// Counts of one value.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Matching pods.
    pods: u32,
    /// Nodes that exist in it and count.
    nodes: u32,
    /// New nodes that count could be in it.
    reachable: bool,
    /// A node in it that counts is leaving: for the scheduler the domain is there until that node is gone.
    left: bool,
}

impl Tally {
    /// Returns whether a node is in the domain, or one with a matching pod will be.
    fn has_node(&self) -> bool {
        self.nodes > 0 || self.pods > 0
    }
}

impl GroupKey {
    /// Returns whether the rule selects a pod.
    pub(crate) fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        match &self.whom {
            Whom::Selected(selectors) => selectors.iter().all(|selector| selector.selects(namespace, labels)),
            Whom::Sharing(_) => false,
        }
    }

    /// Returns whether the rule is about the pods that have it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.whom, Whom::Sharing(_))
    }

    fn is_host(&self) -> bool {
        self.topology_key == label::HOSTNAME
    }

    /// Returns whether pods on `node` count.
    pub(crate) fn counts_node(&self, node: &Node, registry: &LabelRegistry) -> bool {
        match &self.kind {
            Kind::Spread { filter, .. } => filter.accepts_node(node, registry),
            Kind::Affinity | Kind::AntiAffinity | Kind::Inverse => true,
        }
    }

    /// Returns for each node whether it counts; `None` when all do.
    pub(crate) fn counting_nodes(&self, snapshot: &Snapshot) -> Option<IxVec<SnapshotNodeIx, bool>> {
        match &self.kind {
            Kind::Spread { filter, .. } if !filter.is_everywhere() => {
                let counts = |node: &Arc<Node>| filter.accepts_node(node, &snapshot.registry);
                Some(snapshot.nodes.iter().map(counts).collect())
            }
            _ => None,
        }
    }

    /// Returns whether it is a spread constraint that counts nodes whatever the pod selects: of domains without a node it
    /// counts those that the pod may use.
    pub(crate) fn looks_past_affinity(&self) -> bool {
        matches!(&self.kind, Kind::Spread { filter, .. } if !filter.asks_for_labels())
    }

    /// Returns whether pods on a new node with these taints may count, whatever its other properties are.
    pub(crate) fn may_count(&self, taints: &[Taint]) -> bool {
        !matches!(&self.kind, Kind::Spread { filter, .. } if !filter.tolerates(taints))
    }

    /// Returns whether pods on a new node with these requirements and taints count.
    pub(crate) fn counts_in_flight(&self, requirements: &Requirements, taints: &[Taint]) -> bool {
        match &self.kind {
            Kind::Spread { filter, .. } => filter.tolerates(taints) && filter.accepts(requirements),
            Kind::Affinity | Kind::AntiAffinity | Kind::Inverse => true,
        }
    }
}

impl PodSelector {
    fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        self.scope.contains(namespace)
            && self.labels.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

impl Group {
    /// Makes the domain `value` known, in which new nodes could be.
    pub(crate) fn reach(&mut self, value: LabelValue) {
        self.values.entry(value).or_default().reachable = true;
        self.version += 1;
    }

    /// Makes the domain `value` known, and adds `nodes` to the number of its nodes.
    pub(crate) fn know(&mut self, value: LabelValue, nodes: u32) {
        self.values.entry(value).or_default().nodes += nodes;
        self.version += 1;
    }

    /// A node in the domain `value` is leaving.
    pub(crate) fn leave(&mut self, value: &LabelValue) {
        if let Some(tally) = self.values.get_mut(value) {
            tally.left = true;
        }
    }

    /// Returns whether nodes leave a domain that no other node is in and a new one could be in.
    pub(crate) fn has_left(&self) -> bool {
        self.values.values().any(|tally| tally.left && tally.reachable && !tally.has_node())
    }

    /// Returns whether a domain is known that no node is in.
    pub(crate) fn has_empty(&self) -> bool {
        self.values.values().any(|tally| !tally.has_node())
    }

    /// Returns whether it is read with less caution.
    pub(crate) fn conceded(&self) -> bool {
        self.conceded
    }

    /// Sets whether it is read with less caution from now on.
    pub(crate) fn concede(&mut self, conceded: bool) {
        self.conceded = conceded;
        self.version += 1;
    }

    /// Records that one node fewer is in the domain `value`.
    pub(crate) fn unknow(&mut self, value: &LabelValue) {
        self.change(value, |tally| tally.nodes = tally.nodes.saturating_sub(1));
        self.version += 1;
    }

    /// Adds one pod to `domain`.
    pub(crate) fn add(&mut self, domain: Domain) {
        let pods = match domain {
            Domain::Value(value) => &mut self.values.entry(value).or_default().pods,
            Domain::InFlight(number) => {
                let place = self.place(number).unwrap_or_else(|place| {
                    self.in_flight.insert(place, (number, 0));
                    place
                });
                &mut self.in_flight[place].1
            }
        };
        *pods += 1;
        self.occupied += usize::from(*pods == 1);
        self.version += 1;
    }

    /// Takes one pod out of `domain`.
    pub(crate) fn remove(&mut self, domain: &Domain) {
        self.occupied -= usize::from(self.count(domain) == 1);
        match domain {
            Domain::Value(value) => self.change(value, |tally| tally.pods = tally.pods.saturating_sub(1)),
            Domain::InFlight(number) => {
                if let Ok(place) = self.place(*number) {
                    self.in_flight[place].1 -= 1;
                    if self.in_flight[place].1 == 0 {
                        self.in_flight.remove(place);
                    }
                }
            }
        }
        self.version += 1;
    }

    /// Changes what is known about `value` and forgets it when it has no node and is not reachable any more.
    fn change(&mut self, value: &LabelValue, change: impl Fn(&mut Tally)) {
        if let Some(tally) = self.values.get_mut(value) {
            change(tally);
            if !tally.has_node() && !tally.reachable {
                self.values.remove(value);
            }
        }
    }

    /// Returns the position of in-flight node `number` among those with pods, or the position to insert it.
    fn place(&self, number: InFlightIx) -> Result<usize, usize> {
        // New in-flight nodes come last.
        match self.in_flight.last() {
            Some((last, _)) if number == *last => Ok(self.in_flight.len() - 1),
            Some((last, _)) if number < *last => {
                self.in_flight.binary_search_by_key(&number, |(node, _)| *node)
            }
            _ => Err(self.in_flight.len()),
        }
    }

    /// A pod with the rule has got a place in `domain`.
    pub(crate) fn bind(&mut self, domain: Domain) {
        *self.bound.entry(domain).or_default() += 1;
    }

    /// Undoes [`Self::bind`].
    pub(crate) fn unbind(&mut self, domain: &Domain) {
        if let Some(pods) = self.bound.get_mut(domain) {
            *pods -= 1;
            if *pods == 0 {
                self.bound.remove(domain);
            }
        }
    }

    /// Grows whenever the answers may change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The domains to add a pod to that will be in one of the domains `allowed`, or in any: the domain when there
    /// is only one, all of them when the rule is about keeping apart, none otherwise.
    pub(crate) fn possible(&self, key: &GroupKey, allowed: Option<&Requirement>) -> Vec<LabelValue> {
        let apart = matches!(key.kind, Kind::AntiAffinity | Kind::Inverse);
        match allowed.and_then(Requirement::concrete) {
            Some(values) if !apart && values.len() != 1 => Vec::new(),
            Some(values) => values.iter().cloned().collect(),
            None => {
                let possible: Vec<LabelValue> =
                    self.within(allowed).map(|(value, _)| value.clone()).collect();
                if apart || possible.len() == 1 { possible } else { Vec::new() }
            }
        }
    }

    /// Domains that are not empty, with their pods.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> Vec<(Domain, u32)> {
        let values = self.within(None).map(|(value, pods)| (Domain::Value(value.clone()), pods));
        let in_flight = self.in_flight.iter().map(|(number, pods)| (Domain::InFlight(*number), *pods));
        values.chain(in_flight).filter(|(_, pods)| *pods > 0).collect()
    }

    /// Pods in `domain`.
    pub(crate) fn count(&self, domain: &Domain) -> u32 {
        match domain {
            Domain::Value(value) => self.values.get(value).map_or(0, |tally| tally.pods),
            Domain::InFlight(number) => self.place(*number).map_or(0, |place| self.in_flight[place].1),
        }
    }

    /// Known values that `allowed` allows, or all, with their pods.
    fn within<'g>(&'g self, allowed: Option<&Requirement>) -> impl Iterator<Item = (&'g LabelValue, u32)> {
        let within = move |value: &LabelValue| allowed.is_none_or(|allowed| allowed.allows(value.as_str()));
        let values = self.values.iter().filter(move |(value, _)| within(value));
        values.map(|(value, tally)| (value, tally.pods))
    }

    /// Known values that `allowed` allows, or all, by name.
    pub(crate) fn known<'g>(&'g self, allowed: Option<&Requirement>) -> impl Iterator<Item = &'g LabelValue> {
        self.within(allowed).map(|(value, _)| value)
    }

    /// Returns whether the pod may use `domain`, which has this number of `daemons` that are not counted.
    pub(crate) fn admits(&self, key: &GroupKey, domain: &Domain, daemons: u32, pod: Incoming<'_>) -> bool {
        match &key.kind {
            Kind::Spread { max_skew, .. } => {
                let known = match domain {
                    Domain::Value(value) => key.is_host() || self.values.contains_key(value),
                    Domain::InFlight(_) => true,
                };
                if pod.guard && !self.bound.contains_key(domain) {
                    return true;
                }
                let most = i64::from(self.minimum_for(key, pod)) + i64::from(*max_skew);
                known && i64::from(self.count(domain)) + i64::from(daemons) + i64::from(pod.own) <= most
            }
            Kind::Affinity => self.count(domain) > 0 || pod.first,
            Kind::AntiAffinity | Kind::Inverse => self.count(domain) == 0,
        }
    }

    /// The least of what counts for `pod`; for the pods of others, of all that may count for those.
    fn minimum_for(&self, key: &GroupKey, pod: Incoming<'_>) -> u32 {
        if pod.guard {
            return self.minimum(key, &Requirements::default());
        }
        self.minimum(key, &pod.bounds.strict)
    }

    /// Pods in the emptiest domain of a spread constraint that counts for a pod with the node requirements `strict`. A new
    /// host is always possible, so hosts start at zero.
    fn minimum(&self, key: &GroupKey, strict: &Requirements) -> u32 {
        let Kind::Spread { min_domains, filter, .. } = &key.kind else { return 0 };
        if key.is_host() {
            return 0;
        }
        let own = strict.get(key.topology_key.as_str());
        // The scheduler counts the nodes that any required term of the pod allows, or all of them where the constraint
        // ignores node affinity; the reference only those of the term it tries (differences.md, Scheduling). Domains of
        // a constraint with a label filter meet it already. Of the others one that the pod must not use counts once a
        // node is there: no node would be launched in it for the sake of the pod.
        let counts = |value: &LabelValue, tally: &Tally| {
            tally.has_node()
                || !self.conceded
                    && (filter.asks_for_labels() || own.is_none_or(|allowed| allowed.allows(value.as_str())))
        };
        let eligible = || self.values.iter().filter(|(value, tally)| counts(value, tally));
        let few =
            min_domains.is_some_and(|wanted| u32::try_from(eligible().count()).unwrap_or(u32::MAX) < wanted);
        if few { 0 } else { eligible().map(|(_, tally)| tally.pods).min().unwrap_or(0) }
    }

    /// Number of domains with at least one pod.
    pub(crate) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Returns the label values with at least one pod.
    pub(crate) fn inhabited(&self) -> impl Iterator<Item = &LabelValue> {
        self.values.iter().filter(|(_, tally)| tally.pods > 0).map(|(value, _)| value)
    }

    /// Returns the in-flight nodes with at least one pod.
    pub(crate) fn inhabited_in_flight(&self) -> impl Iterator<Item = InFlightIx> {
        self.in_flight.iter().map(|(number, _)| *number)
    }

    /// Returns whether no domain is known.
    pub(crate) fn knows_no_domain(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns whether no matching pod is in any place that `bounds` allow.
    pub(crate) fn is_empty_for(&self, key: &GroupKey, bounds: &Bounds) -> bool {
        // In-flight nodes have no host name yet, so none with a matching pod can be ruled out.
        let within = |value: &&LabelValue| bounds.allow(&key.topology_key, value);
        self.in_flight.is_empty() && self.inhabited().find(within).is_none()
    }

    /// Ways to narrow `allowed` so that the rule holds, best first; `None` when it holds anyway. Hosts are
    /// another question.
    pub(crate) fn alternatives<'g>(
        &'g self,
        key: &GroupKey,
        allowed: Option<&Requirement>,
        pod: Incoming<'_>,
    ) -> Option<Alternatives<'g>> {
        let each = |values: &mut dyn Iterator<Item = &'g LabelValue>| {
            Some(Alternatives::Each(values.map(|value| (0, value)).collect()))
        };
        let any = |values: &mut dyn Iterator<Item = &'g LabelValue>| {
            let values: Vec<&LabelValue> = values.collect();
            Some(match values.as_slice() {
                [] | [_] => Alternatives::Each(values.into_iter().map(|value| (0, value)).collect()),
                several => Alternatives::Among(Requirement::one_of(
                    key.topology_key.clone(),
                    several.iter().copied().cloned(),
                )),
            })
        };
        let free = || self.within(allowed).filter(|(_, pods)| *pods == 0).map(|(value, _)| value);
        match &key.kind {
            Kind::Spread { max_skew, .. } => {
                let most = i64::from(self.minimum_for(key, pod)) + i64::from(*max_skew) - i64::from(pod.own);
                let within = self.within(allowed).filter(|(_, pods)| i64::from(*pods) <= most);
                let mut fine: Vec<(u32, &LabelValue)> = within.map(|(value, pods)| (pods, value)).collect();
                fine.sort_unstable();
                Some(Alternatives::Each(fine))
            }
            Kind::Affinity => {
                let joined = || self.within(allowed).filter(|(_, pods)| *pods > 0).map(|(value, _)| value);
                // The first of a group that matches itself may start anywhere.
                if pod.first && joined().next().is_none() {
                    return each(&mut self.within(allowed).map(|(value, _)| value));
                }
                any(&mut joined())
            }
            // No node has the label, so no pod is in a domain of it.
            Kind::AntiAffinity if self.knows_no_domain() => None,
            Kind::AntiAffinity => each(&mut free()),
            // No owner anywhere: the rule keeps out of nothing, and narrowing would only cost choice.
            Kind::Inverse if self.occupied == 0 => None,
            Kind::Inverse => any(&mut free()),
        }
    }

    /// Returns whether a node counts in the domain `value`, or will.
    pub(crate) fn has_node(&self, value: &LabelValue) -> bool {
        self.values.get(value).is_some_and(Tally::has_node)
    }

    /// Returns whether a pod with the spread constraint would find more pods in its domain than it allows, were it bound
    /// last: in the end the scheduler counts the domains that have nodes then.
    pub(crate) fn is_broken(&self, key: &GroupKey) -> bool {
        let Kind::Spread { max_skew, min_domains, .. } = &key.kind else { return false };
        let there = || self.values.values().filter(|tally| tally.has_node());
        let few =
            min_domains.is_some_and(|wanted| u32::try_from(there().count()).unwrap_or(u32::MAX) < wanted);
        let least = if few { 0 } else { there().map(|tally| tally.pods).min().unwrap_or(0) };
        self.bound.keys().any(|domain| self.count(domain) > least.saturating_add(*max_skew))
    }

    /// Returns whether a pod with the spread constraint would find more pods in its domain than it allows, were there
    /// another domain with a node and no pod.
    pub(crate) fn breaks_with_another(&self, key: &GroupKey) -> bool {
        let Kind::Spread { max_skew, .. } = &key.kind else { return false };
        !key.is_host() && self.bound.keys().any(|domain| self.count(domain) > *max_skew)
    }

    /// Stays out of every domain that has a pod; `None` when there is none.
    pub(crate) fn exclusion(&self, key: &GroupKey, registry: &LabelRegistry) -> Option<Requirement> {
        none_of(key, self.inhabited().cloned().collect(), registry)
    }

    /// Stays out of every domain where one more pod would break the spread constraint of a pod that has a place there;
    /// `None` when there is none.
    pub(crate) fn guarded(&self, key: &GroupKey, registry: &LabelRegistry) -> Option<Requirement> {
        let Kind::Spread { max_skew, .. } = &key.kind else { return None };
        let most = i64::from(self.minimum(key, &Requirements::default())) + i64::from(*max_skew) - 1;
        let full = self.bound.keys().filter(|domain| i64::from(self.count(domain)) > most);
        let full = full.filter_map(|domain| match domain {
            Domain::Value(value) => Some(value.clone()),
            Domain::InFlight(_) => None,
        });
        none_of(key, full.collect(), registry)
    }

    /// Counts of the known domains, for messages.
    pub(crate) fn summary(&self) -> String {
        let values = self.values.iter().map(|(value, tally)| format!("{value}={}", tally.pods));
        let in_flight = self.in_flight.iter().map(|(number, pods)| format!("new-{}={pods}", number.get()));
        let shown = values.chain(in_flight).take(SHOWN_DOMAINS);
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() {
            "no known domain".to_owned()
        } else {
            format!("pods per domain {}", shown.join(" "))
        }
    }
}

/// Returns the requirement for none of these `values` of the key of a rule.
fn none_of(key: &GroupKey, values: Vec<LabelValue>, registry: &LabelRegistry) -> Option<Requirement> {
    let key = key.topology_key.clone();
    let expression = Expression { key, operator: Operator::NotIn, values, min_values: None };
    (!expression.values.is_empty()).then(|| Requirement::new(registry, &expression))
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Whom::Sharing((_, claim)) = &self.whom {
            return write!(f, "one `{}` for all pods that use the claim `{claim}`", self.topology_key);
        }
        match &self.kind {
            Kind::Spread { max_skew, min_domains, .. } => {
                write!(f, "spread over `{}` by at most {max_skew}", self.topology_key)?;
                min_domains.map_or(Ok(()), |least| write!(f, " and at least {least} domains"))
            }
            Kind::Affinity => write!(f, "affinity over `{}`", self.topology_key),
            Kind::AntiAffinity | Kind::Inverse => write!(f, "anti-affinity over `{}`", self.topology_key),
        }
    }
}
