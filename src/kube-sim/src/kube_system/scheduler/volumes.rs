//! Finds the nodes from which the volumes of a pod can be reached.
//!
//! A claim without volume waits for its first consumer, whose node decides where the volume is made; other pods that use the
//! claim wait for that. How many volumes a node attaches, and access modes, are not played.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::node_selector;
use crate::apiserver::object::{self, Key, at, text};
use crate::kube_system::{cluster::Cluster, pod::Pod, volumes::claims_of};

/// Claims and volumes during one pass.
#[derive(Default)]
pub(super) struct Volumes {
    claims: BTreeMap<Key, Arc<Value>>,
    by_name: BTreeMap<String, Arc<Value>>,
    /// Claims whose volume is made for a pod that was placed in this pass.
    being_made: BTreeSet<Key>,
}

impl Volumes {
    /// Reads claims and volumes, if one of these pods uses any.
    pub(super) fn of(cluster: &Cluster<'_>, pods: &[Arc<Pod>]) -> Self {
        if !pods.iter().any(|pod| uses_claims(&pod.object)) {
            return Self::default();
        }
        let (claims, volumes) =
            (cluster.list("", "persistentvolumeclaims"), cluster.list("", "persistentvolumes"));
        Self {
            claims: claims.into_iter().map(|claim| (Key::of(&claim), claim)).collect(),
            by_name: volumes.into_iter().map(|volume| (object::name(&volume).to_owned(), volume)).collect(),
            being_made: BTreeSet::new(),
        }
    }

    /// Returns whether the pod waits for a volume that is being made.
    pub(super) fn keep_waiting(&self, pod: &Value) -> bool {
        claims_of(pod).any(|claim| self.being_made.contains(&claim))
    }

    /// The pod has a node: its claims that have no volume get one.
    pub(super) fn place(&mut self, pod: &Value) {
        let unbound =
            claims_of(pod).filter(|claim| self.claims.get(claim).is_some_and(|one| volume(one).is_empty()));
        self.being_made.extend(unbound);
    }

    /// Returns the nodes that the volumes of the pod allow.
    pub(super) fn reach(&self, pod: &Value) -> Reach<'_> {
        let mut selectors = Vec::new();
        for claim in claims_of(pod) {
            let Some(claim) = self.claims.get(&claim) else { return Reach::Nowhere };
            let volume = self.by_name.get(volume(claim));
            selectors.extend(volume.and_then(|volume| at(volume, "/spec/nodeAffinity/required")));
        }
        Reach::From(selectors)
    }
}

/// Nodes from which volumes can be reached.
pub(super) enum Reach<'v> {
    /// A claim is not there.
    Nowhere,
    /// Nodes that all of these select.
    From(Vec<&'v Value>),
}

impl Reach<'_> {
    /// Returns the reason why they cannot be reached from a node.
    pub(super) fn refusal(&self, node: &Value) -> Option<&'static str> {
        match self {
            Self::Nowhere => Some("persistentvolumeclaim not found"),
            Self::From(selectors) => {
                let reached = selectors.iter().all(|selector| node_selector::selects(selector, node));
                (!reached).then_some("node(s) had volume node affinity conflict")
            }
        }
    }
}

/// Returns whether a pod uses claims.
pub(super) fn uses_claims(pod: &Value) -> bool {
    claims_of(pod).next().is_some()
}

fn volume(claim: &Value) -> &str {
    text(claim, "/spec/volumeName")
}
