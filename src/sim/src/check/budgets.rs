//! Budgets of pools: of the machines of a pool no more are in disruption at once than its budget says.
//!
//! A machine is in disruption from the moment its Node gets the taint of disruption while its claim is not being deleted
//! (a claim that another client deletes, or that has to go, gets the taint afterwards) until its instance is terminated.

use std::collections::BTreeMap;

use karpenter_kube_sim::apiserver::object::{self, Key, list};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use serde_json::Value;

use super::{Found, Scene, is_disrupted, pool_of};

/// Nodes in disruption, with their pools.
#[derive(Default)]
pub(super) struct Budgets(BTreeMap<Key, String>);

impl Budgets {
    /// A Node changes.
    pub(super) fn node(&mut self, scene: &Scene, change: &Change, found: &mut Found) {
        let key = Key::of(&change.object);
        let before = change.previous.as_ref().is_some_and(|node| is_disrupted(node));
        let after = change.kind != ChangeKind::Deleted && is_disrupted(&change.object);
        if !after {
            self.0.remove(&key);
            return;
        }
        let Some(claim) = scene.claim_of_node(&change.object) else { return };
        if before || object::is_deleting(claim) {
            return;
        }
        let pool = pool_of(&change.object).to_owned();
        self.0.insert(key, pool.clone());
        let disrupted: Vec<&Key> = self
            .0
            .iter()
            .filter(|(key, of)| **of == pool && lives(scene, key, &change.object))
            .map(|(key, _)| key)
            .collect();
        let Some(budget) = scene.pools.get(&Key::new("", &pool)).and_then(|pool| budget(pool)) else {
            return;
        };
        if disrupted.len() > budget {
            let names: Vec<&str> = disrupted.iter().map(|key| key.name.as_str()).collect();
            found.push(("budget", format!("pool {pool} allows {budget}, in disruption are {names:?}")));
        }
    }
}

/// The least a pool allows at any time and for any reason; `None` where no budget of it is that plain.
pub(super) fn budget(pool: &Value) -> Option<usize> {
    let plain = |budget: &&Value| ["reasons", "schedule"].iter().all(|field| budget.get(field).is_none());
    let budgets = list(pool, "/spec/disruption/budgets").iter().filter(plain);
    budgets.filter_map(|budget| budget["nodes"].as_str()?.parse().ok()).min()
}

/// Returns whether the instance of a Node has not been ordered to end; `changing` is the Node that has just changed.
fn lives(scene: &Scene, key: &Key, changing: &Value) -> bool {
    if *key == Key::of(changing) {
        return true;
    }
    let Some(node) = scene.nodes.get(key) else { return false };
    let id = object::text(node, "/spec/providerID");
    scene.alive().any(|instance| id.ends_with(instance.id.as_str()))
}
