//! Writes that the API server saw, one by one, held against the rules of spec disruption 10.4.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_kube_sim::apiserver::{
    TableName, object,
    store::{ChangeKind, Store},
};
use serde_json::Value;

use crate::world::World;

/// Nodes and claims as they were after one write.
#[derive(Default)]
struct Moment {
    nodes: BTreeMap<String, Arc<Value>>,
    claims: BTreeMap<String, Arc<Value>>,
}

/// The rules of one test.
pub(super) struct Rules {
    /// Claims created after this revision are replacements.
    pub(super) since: u64,
    /// Most machines that may be in disruption at once.
    pub(super) budget: usize,
    /// All replacements belong to one command at a time.
    pub(super) one_at_a_time: bool,
}

/// The present revision of the API server.
pub(super) fn revision(world: &World) -> u64 {
    world.server.read(Store::revision)
}

/// Replays every write to Nodes and claims; returns the most machines that were in disruption at once.
pub(super) fn check(world: &World, rules: &Rules) -> usize {
    let changes = |group: &str, plural: &str| {
        let table = TableName::new(group, plural);
        world.server.read(|store| store.changes_since(&table, 0)).unwrap()
    };
    let nodes = changes("", "nodes").into_iter().map(|change| (false, change));
    let claims = changes("karpenter.sh", "nodeclaims").into_iter().map(|change| (true, change));
    let mut all: Vec<_> = nodes.chain(claims).collect();
    all.sort_by_key(|(_, change)| change.revision);
    let (mut moment, mut most) = (Moment::default(), 0);
    for (is_claim, change) in all {
        let name = object::name(&change.object).to_owned();
        if is_claim && change.revision > rules.since {
            match change.kind {
                ChangeKind::Added => moment.check_created(&name),
                ChangeKind::Modified => moment.check_changed(&name, &change.object, rules),
                ChangeKind::Deleted => {}
            }
        }
        let objects = if is_claim { &mut moment.claims } else { &mut moment.nodes };
        match change.kind {
            ChangeKind::Deleted => drop(objects.remove(&name)),
            ChangeKind::Added | ChangeKind::Modified => drop(objects.insert(name, change.object)),
        }
        most = most.max(moment.disrupted());
        assert!(most <= rules.budget, "{most} machines in disruption at revision {}", change.revision);
    }
    most
}

/// Number of times that a Node was tainted after revision `since`.
pub(super) fn taints(world: &World, since: u64) -> usize {
    let changes = world.server.read(|store| store.changes_since(&TableName::new("", "nodes"), 0)).unwrap();
    let mut tainted: BTreeMap<String, bool> = BTreeMap::new();
    let became = changes.into_iter().filter(|change| {
        let now = is_tainted(&change.object);
        let before = tainted.insert(object::name(&change.object).to_owned(), now);
        change.revision > since && now && before != Some(true)
    });
    became.count()
}

impl Moment {
    /// A replacement is created only once a candidate keeps new pods away and says why.
    fn check_created(&self, name: &str) {
        let marked = self.claims.values().filter(|claim| is_marked(claim));
        let tainted = marked.filter(|claim| {
            let node = self.nodes.get(object::text(claim, "/status/nodeName"));
            node.is_some_and(|node| is_tainted(node))
        });
        assert!(tainted.count() > 0, "replacement {name} was created before any candidate was tainted");
    }

    /// A candidate is deleted only once every replacement is initialized.
    fn check_changed(&self, name: &str, after: &Value, rules: &Rules) {
        let deleted = object::is_deleting(after) && !object::is_deleting(&self.claims[name]);
        if !deleted || !is_marked(after) {
            return;
        }
        let others =
            || self.claims.iter().filter(|(other, claim)| *other != name && !object::is_deleting(claim));
        assert!(
            others().any(|(_, claim)| is_initialized(claim)),
            "{name} was deleted with nothing in its place"
        );
        let waiting = others().find(|(_, claim)| !is_initialized(claim)).map(|(other, _)| other);
        assert!(
            !rules.one_at_a_time || waiting.is_none(),
            "{name} was deleted before {waiting:?} was initialized"
        );
    }

    /// Machines that count against budgets: chosen or being deleted, until their instance is being terminated.
    fn disrupted(&self) -> usize {
        let counted = self.claims.values().filter(|claim| is_initialized(claim));
        let here = counted.filter(|claim| object::condition(claim, "InstanceTerminating") != Some("True"));
        here.filter(|claim| is_marked(claim) || object::is_deleting(claim)).count()
    }
}

fn is_marked(claim: &Value) -> bool {
    object::condition(claim, "DisruptionReason") == Some("True")
}

fn is_initialized(claim: &Value) -> bool {
    object::condition(claim, "Initialized") == Some("True")
}

fn is_tainted(node: &Value) -> bool {
    object::list(node, "/spec/taints").iter().any(|taint| taint["key"] == "karpenter.sh/disrupted")
}
