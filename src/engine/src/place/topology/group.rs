//! One rule about other pods with its counts, and which domains it allows next (spec core-scheduling 18.4).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use karpenter_model::{
    Expression, LabelKey, LabelRegistry, LabelSelector, LabelValue, Labels, Namespace, Node, Operator,
    Requirement, Requirements, Snapshot, Taint, label,
};

use super::exactly;
use super::filter::Filter;
use super::scope::Scope;

/// Most domains a message lists.
const SHOWN_DOMAINS: usize = 25;

/// What kind of rule it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Domains differ by at most `max_skew`.
    Spread {
        /// Largest difference.
        max_skew: u32,
        /// With fewer domains than this the minimum counts as zero.
        min_domains: Option<u32>,
        /// Machines that count.
        filter: Filter,
    },
    /// A matching pod must be in the domain.
    Affinity,
    /// No matching pod may be in the domain.
    AntiAffinity,
    /// The other side of anti-affinity: counts the owners, keeps out who matches.
    Inverse,
}

/// Identity of a group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct GroupKey {
    pub(crate) kind: Kind,
    pub(crate) topology_key: LabelKey,
    pub(crate) scope: Scope,
    pub(crate) selector: Option<LabelSelector>,
}

/// A value of the topology key; new machines have no host name yet and go by their bin.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Domain {
    /// A label value.
    Value(LabelValue),
    /// The host name bin number so-and-so will have.
    Bin(usize),
}

/// Pods per known domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Group {
    counts: BTreeMap<Domain, Tally>,
    /// Domains with at least one pod.
    occupied: usize,
    /// Pods added so far; as long as it stays the same, so do the answers.
    version: u64,
}

/// What is known about a domain.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Matching pods.
    pods: u32,
    /// Machines that are in it, and one more when new ones may be; it is known as long as there is any.
    backers: u32,
}

impl GroupKey {
    /// Whether a pod matches the rule.
    pub(crate) fn selects(&self, namespace: &Namespace, labels: &Labels) -> bool {
        self.scope.contains(namespace)
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }

    fn is_host(&self) -> bool {
        self.topology_key == label::HOSTNAME
    }

    /// Whether pods on `node` count.
    pub(crate) fn counts_node(&self, node: &Node, registry: &LabelRegistry) -> bool {
        match &self.kind {
            Kind::Spread { filter, .. } => filter.accepts_node(node, registry),
            Kind::Affinity | Kind::AntiAffinity | Kind::Inverse => true,
        }
    }

    /// Which nodes count; nothing when all do.
    pub(crate) fn counting_nodes(&self, snapshot: &Snapshot) -> Option<Vec<bool>> {
        match &self.kind {
            Kind::Spread { filter, .. } if !filter.is_everywhere() => {
                let counts = |node: &Arc<Node>| filter.accepts_node(node, &snapshot.registry);
                Some(snapshot.nodes.iter().map(counts).collect())
            }
            _ => None,
        }
    }

    /// Whether pods on a new machine with these requirements and taints count.
    pub(crate) fn counts_bin(&self, bin: &Requirements, taints: &[Taint], registry: &LabelRegistry) -> bool {
        match &self.kind {
            Kind::Spread { filter, .. } => filter.tolerates(taints) && filter.accepts(bin, registry),
            Kind::Affinity | Kind::AntiAffinity | Kind::Inverse => true,
        }
    }
}

impl Group {
    /// Makes `domain` known, for that many more reasons.
    pub(crate) fn know(&mut self, domain: Domain, backers: u32) {
        self.counts.entry(domain).or_default().backers += backers;
        self.version += 1;
    }

    /// Takes back one reason why `domain` is known.
    pub(crate) fn unknow(&mut self, domain: &Domain) {
        self.change(domain, |tally| tally.backers = tally.backers.saturating_sub(1));
    }

    /// Adds one pod to `domain`.
    pub(crate) fn add(&mut self, domain: Domain) {
        let tally = self.counts.entry(domain).or_default();
        tally.pods += 1;
        self.occupied += usize::from(tally.pods == 1);
        self.version += 1;
    }

    /// Takes one pod out of `domain`.
    pub(crate) fn remove(&mut self, domain: &Domain) {
        self.occupied -= usize::from(self.count(domain) == 1);
        self.change(domain, |tally| tally.pods = tally.pods.saturating_sub(1));
    }

    /// Changes what is known about `domain` and forgets it when nothing speaks for it any more.
    fn change(&mut self, domain: &Domain, change: impl Fn(&mut Tally)) {
        if let Some(tally) = self.counts.get_mut(domain) {
            change(tally);
            if tally.pods == 0 && tally.backers == 0 {
                self.counts.remove(domain);
            }
        }
        self.version += 1;
    }

    /// Grows whenever the answers may change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The domains to add a pod to that will be in one of the domains `allowed`: the domain when there is only
    /// one, all of them when the rule is about keeping apart, none otherwise.
    pub(crate) fn possible(&self, key: &GroupKey, allowed: &Requirement) -> Vec<Domain> {
        let apart = matches!(key.kind, Kind::AntiAffinity | Kind::Inverse);
        match allowed.concrete() {
            Some(values) if !apart && values.len() != 1 => Vec::new(),
            Some(values) => values.iter().cloned().map(Domain::Value).collect(),
            None => {
                let possible: Vec<Domain> = self.within(allowed).cloned().collect();
                if apart || possible.len() == 1 { possible } else { Vec::new() }
            }
        }
    }

    /// Domains that are not empty, with their pods.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> Vec<(&Domain, u32)> {
        let counts = self.counts.iter().map(|(domain, tally)| (domain, tally.pods));
        counts.filter(|(_, pods)| *pods > 0).collect()
    }

    /// Pods in `domain`.
    pub(crate) fn count(&self, domain: &Domain) -> u32 {
        self.counts.get(domain).map_or(0, |tally| tally.pods)
    }

    /// Known domains that `allowed` allows.
    fn within<'g>(&'g self, allowed: &'g Requirement) -> impl Iterator<Item = &'g Domain> {
        self.counts.keys().filter(|domain| match domain {
            Domain::Value(value) => allowed.allows(value.as_str()),
            Domain::Bin(_) => true,
        })
    }

    /// Whether one more pod may go to `domain`. `own` says that the pod counts itself, `strict` is what the
    /// pod asks of its node.
    pub(crate) fn admits(&self, key: &GroupKey, domain: &Domain, own: bool, strict: &Requirements) -> bool {
        match &key.kind {
            Kind::Spread { max_skew, .. } => {
                let known = key.is_host() || self.counts.contains_key(domain);
                known && self.skew(key, domain, own, strict) <= i64::from(*max_skew)
            }
            Kind::Affinity => self.count(domain) > 0 || (own && self.is_first(key, strict)),
            Kind::AntiAffinity | Kind::Inverse => self.count(domain) == 0,
        }
    }

    /// How far `domain` would be above the minimum with one more pod.
    fn skew(&self, key: &GroupKey, domain: &Domain, own: bool, strict: &Requirements) -> i64 {
        i64::from(self.count(domain)) + i64::from(own) - i64::from(self.minimum(key, strict))
    }

    /// Pods in the emptiest domain the pod may use. A new host is always possible, so hosts start at zero.
    fn minimum(&self, key: &GroupKey, strict: &Requirements) -> u32 {
        if key.is_host() {
            return 0;
        }
        let allowed = strict.value_of(&key.topology_key);
        let eligible = || self.within(&allowed).map(|domain| self.count(domain));
        let few = match &key.kind {
            Kind::Spread { min_domains: Some(wanted), .. } => {
                u32::try_from(eligible().count()).unwrap_or(u32::MAX) < *wanted
            }
            _ => false,
        };
        if few { 0 } else { eligible().min().unwrap_or(0) }
    }

    /// Number of domains with at least one pod.
    pub(crate) fn occupied(&self) -> usize {
        self.occupied
    }

    /// Those domains.
    pub(crate) fn inhabited(&self) -> impl Iterator<Item = &Domain> {
        self.counts.iter().filter(|(_, tally)| tally.pods > 0).map(|(domain, _)| domain)
    }

    /// Whether nobody the pod wants to be with is anywhere it may go, so that it may be the first.
    pub(crate) fn is_first(&self, key: &GroupKey, strict: &Requirements) -> bool {
        if self.occupied == 0 || !strict.contains(key.topology_key.as_str()) {
            return self.occupied == 0;
        }
        let allowed = strict.value_of(&key.topology_key);
        self.within(&allowed).all(|domain| self.count(domain) == 0)
    }

    /// Ways to narrow `allowed` so that the rule holds, best first; `None` when it holds anyway.
    pub(crate) fn alternatives(
        &self,
        key: &GroupKey,
        allowed: &Requirement,
        own: bool,
        strict: &Requirements,
    ) -> Option<Vec<Requirement>> {
        let values = |domains: &mut dyn Iterator<Item = &Domain>| -> Vec<LabelValue> {
            let value = |domain: &Domain| match domain {
                Domain::Value(value) => Some(value.clone()),
                Domain::Bin(_) => None,
            };
            domains.filter_map(value).collect()
        };
        let each =
            |values: Vec<LabelValue>| values.iter().map(|value| exactly(&key.topology_key, value)).collect();
        match &key.kind {
            Kind::Spread { .. } => {
                let mut fine: Vec<&Domain> =
                    self.within(allowed).filter(|domain| self.admits(key, domain, own, strict)).collect();
                fine.sort_by_key(|domain| (self.count(domain), *domain));
                Some(each(values(&mut fine.into_iter())))
            }
            Kind::Affinity => {
                let joined = values(&mut self.within(allowed).filter(|domain| self.count(domain) > 0));
                if joined.is_empty() && own && self.is_first(key, strict) {
                    return Some(each(values(&mut self.within(allowed))));
                }
                let anywhere = Requirement::one_of(key.topology_key.clone(), joined);
                Some(if anywhere.is_empty() { Vec::new() } else { vec![anywhere] })
            }
            Kind::AntiAffinity => {
                Some(each(values(&mut self.within(allowed).filter(|d| self.count(d) == 0))))
            }
            Kind::Inverse => {
                if self.occupied == 0 {
                    return None;
                }
                let free = values(&mut self.within(allowed).filter(|domain| self.count(domain) == 0));
                let anywhere = Requirement::one_of(key.topology_key.clone(), free);
                Some(if anywhere.is_empty() { Vec::new() } else { vec![anywhere] })
            }
        }
    }

    /// Stays out of every domain that has a pod; `None` when there is none.
    pub(crate) fn exclusion(&self, key: &GroupKey, registry: &LabelRegistry) -> Option<Requirement> {
        let occupied = self.counts.iter().filter(|(_, tally)| tally.pods > 0);
        let values: Vec<LabelValue> = occupied
            .filter_map(|(domain, _)| match domain {
                Domain::Value(value) => Some(value.clone()),
                Domain::Bin(_) => None,
            })
            .collect();
        let key = key.topology_key.clone();
        let expression = Expression { key, operator: Operator::NotIn, values, min_values: None };
        (!expression.values.is_empty()).then(|| Requirement::new(registry, &expression))
    }

    /// Counts of the known domains, for messages.
    pub(crate) fn summary(&self) -> String {
        let shown = self.counts.iter().take(SHOWN_DOMAINS).map(|(domain, tally)| match domain {
            Domain::Value(value) => format!("{value}={}", tally.pods),
            Domain::Bin(number) => format!("new-{number}={}", tally.pods),
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() {
            "no known domain".to_owned()
        } else {
            format!("pods per domain {}", shown.join(" "))
        }
    }
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Spread { max_skew, .. } => {
                write!(f, "spread over `{}` by at most {max_skew}", self.topology_key)
            }
            Kind::Affinity => write!(f, "affinity over `{}`", self.topology_key),
            Kind::AntiAffinity | Kind::Inverse => write!(f, "anti-affinity over `{}`", self.topology_key),
        }
    }
}
