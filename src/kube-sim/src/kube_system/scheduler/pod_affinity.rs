//! Required pod affinity and anti-affinity, over any topology key.
//!
//! What a pod's neighbours allow is worked out once per pod as sets of domains, so that asking a node is a lookup.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    affinity_term::{selects, terms},
    candidate::Candidate,
};
use crate::apiserver::object::text;

/// Where a pod is attracted to and repelled from.
pub(super) struct Neighbours {
    attractions: Vec<Attraction>,
    /// Topology key and domain.
    forbidden: BTreeSet<(String, String)>,
}

struct Attraction {
    key: String,
    /// Domains with company; `None` for anywhere, which is where the first pod of a group may go.
    domains: Option<BTreeSet<String>>,
}

impl Neighbours {
    /// Works out what the pods on `all` nodes mean for `pod`.
    pub(super) fn of(pod: &Value, all: &[Candidate]) -> Self {
        let attractions =
            terms(pod, "podAffinity").iter().map(|term| Attraction::of(term, pod, all)).collect();
        let mut forbidden = BTreeSet::new();
        let mut forbid = |term: &Value, node: &Candidate| {
            let key = text(term, "/topologyKey");
            forbidden.extend(node.label(key).map(|domain| (key.to_owned(), domain.to_owned())));
        };
        for term in terms(pod, "podAntiAffinity") {
            all.iter().filter(|node| has_company(term, pod, node)).for_each(|node| forbid(term, node));
        }
        for node in all {
            for neighbour in &node.avoiding {
                let terms = terms(neighbour, "podAntiAffinity").iter();
                terms.filter(|term| selects(term, neighbour, pod)).for_each(|term| forbid(term, node));
            }
        }
        Self { attractions, forbidden }
    }

    /// Whether every required affinity term finds company in the candidate's domain.
    pub(super) fn attract_to(&self, candidate: &Candidate) -> bool {
        self.attractions.iter().all(|attraction| {
            let domain = candidate.label(&attraction.key);
            domain.is_some_and(|d| attraction.domains.as_ref().is_none_or(|domains| domains.contains(d)))
        })
    }

    /// Whether a pod in the candidate's domain keeps the pod away, by its own terms or by theirs.
    pub(super) fn repel_from(&self, candidate: &Candidate) -> bool {
        self.forbidden.iter().any(|(key, domain)| candidate.label(key) == Some(domain))
    }
}

impl Attraction {
    fn of(term: &Value, pod: &Value, all: &[Candidate]) -> Self {
        let key = text(term, "/topologyKey").to_owned();
        let with_company = || all.iter().filter(|node| has_company(term, pod, node));
        let is_first = selects(term, pod, pod) && with_company().next().is_none();
        let domains = || with_company().filter_map(|node| node.label(&key)).map(str::to_owned).collect();
        let domains = (!is_first).then(domains);
        Self { key, domains }
    }
}

fn has_company(term: &Value, pod: &Value, node: &Candidate) -> bool {
    node.pods.iter().any(|other| selects(term, pod, other))
}
