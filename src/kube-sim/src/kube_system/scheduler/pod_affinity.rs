//! Required pod affinity and anti-affinity, over any topology key.
//!
//! A neighbour is company only when every affinity term of the pod selects it; it then is for each of them. Anti-affinity
//! terms count one by one. What a pod's neighbours allow is worked out once per pod as sets of domains, so that asking a
//! node is a lookup.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    affinity_term::{selects, terms},
    candidate::Candidate,
    surroundings::Surroundings,
};
use crate::apiserver::object::text;

/// Domains that a pod is attracted to and repelled from.
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
    pub(super) fn of(pod: &Value, all: &[Candidate], surroundings: &Surroundings) -> Self {
        let selects = |term: &Value, owner: &Value, other: &Value| selects(term, owner, other, surroundings);
        let attractions = attractions(terms(pod, "podAffinity"), pod, all, selects);
        let mut forbidden = BTreeSet::new();
        let mut forbid = |term: &Value, node: &Candidate| {
            let key = text(term, "/topologyKey");
            forbidden.extend(node.label(key).map(|domain| (key.to_owned(), domain.to_owned())));
        };
        for term in terms(pod, "podAntiAffinity") {
            let selected =
                |node: &&Candidate| node.pods.iter().any(|other| selects(term, pod, &other.object));
            all.iter().filter(selected).for_each(|node| forbid(term, node));
        }
        for node in all {
            for neighbour in &node.avoiding {
                let terms = terms(&neighbour.object, "podAntiAffinity").iter();
                terms
                    .filter(|term| selects(term, &neighbour.object, pod))
                    .for_each(|term| forbid(term, node));
            }
        }
        Self { attractions, forbidden }
    }

    /// Returns whether every required affinity term finds company in the candidate's domain.
    pub(super) fn attract_to(&self, candidate: &Candidate) -> bool {
        self.attractions.iter().all(|attraction| {
            let domain = candidate.label(&attraction.key);
            domain.is_some_and(|d| attraction.domains.as_ref().is_none_or(|domains| domains.contains(d)))
        })
    }

    /// Returns whether a pod in the candidate's domain keeps the pod away, by its own terms or by theirs.
    pub(super) fn repel_from(&self, candidate: &Candidate) -> bool {
        self.forbidden.iter().any(|(key, domain)| candidate.label(key) == Some(domain))
    }
}

/// Returns the demands of the affinity `terms` of `pod` on its node.
fn attractions(
    terms: &[Value],
    pod: &Value,
    all: &[Candidate],
    selects: impl Fn(&Value, &Value, &Value) -> bool,
) -> Vec<Attraction> {
    let by_all = |other: &Value| terms.iter().all(|term| selects(term, pod, other));
    let with_company: Vec<&Candidate> =
        all.iter().filter(|node| node.pods.iter().any(|other| by_all(&other.object))).collect();
    let domains = |key: &str| -> BTreeSet<String> {
        with_company.iter().filter_map(|node| node.label(key)).map(str::to_owned).collect()
    };
    let keys = terms.iter().map(|term| text(term, "/topologyKey").to_owned());
    let known: Vec<(String, BTreeSet<String>)> = keys.map(|key| (key.clone(), domains(&key))).collect();
    // Company in a domain of any term counts: there is one first pod for all terms together.
    let is_first = by_all(pod) && known.iter().all(|(_, domains)| domains.is_empty());
    known
        .into_iter()
        .map(|(key, domains)| Attraction { key, domains: (!is_first).then_some(domains) })
        .collect()
}
