//! Leadership: only the process that holds the Lease sends writes. What it sent before it lost the Lease may arrive later;
//! events and the Lease itself are anyone's.

use karpenter_kube_sim::apiserver::object;
use karpenter_kube_sim::apiserver::store::{ListQuery, Store};

use super::Found;
use crate::target::Target;

/// Process that holds the Lease, if one does.
#[derive(Default)]
pub(super) struct Leader(Option<String>);

impl Leader {
    /// A process has written the Lease, which is `held` since.
    pub(super) fn written(&mut self, who: &str, held: bool) {
        self.0 = held.then(|| who.to_owned());
    }

    /// A process sends a write.
    pub(super) fn sends(&self, who: &str, target: &Target) -> Found {
        let free = matches!(target.plural.as_str(), "leases" | "events");
        match &self.0 {
            Some(leader) if leader != who && !free => {
                vec![("one leader", format!("{who} writes {} while {leader} leads", target.plural))]
            }
            _ => Found::new(),
        }
    }
}

/// Returns whether the Lease of the election is held.
pub(super) fn is_held(store: &Store) -> bool {
    let leases = store.registry().get("coordination.k8s.io", "v1", "leases");
    let query = ListQuery { namespace: "kube-system".to_owned(), ..ListQuery::default() };
    let page = leases.and_then(|leases| store.list(&leases, &query).ok());
    let all = page.map(|page| page.items).unwrap_or_default();
    all.iter().any(|lease| !object::text(lease, "/spec/holderIdentity").is_empty())
}
