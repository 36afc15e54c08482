//! The cluster as far as it is shown: facts by name, and what the pods of each node ask for, kept up to date pod by pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::NodeClaim;
use karpenter_kube_harness::watch::{Key, Undecoded};
use karpenter_model::{ClaimName, NodeName, PodKey, Quantity};

use crate::facts::{Amounts, ClaimFacts, NodeFacts, PodFacts, Shown, Texts, WaitingPod};

/// Nodes, claims and pods.
#[derive(Debug)]
pub struct World {
    shown: Shown,
    texts: Texts,
    nodes: BTreeMap<NodeName, NodeFacts>,
    claims: BTreeMap<ClaimName, ClaimFacts>,
    bound: BTreeMap<PodKey, (NodeName, Amounts)>,
    waiting: BTreeMap<PodKey, WaitingPod>,
    loads: BTreeMap<NodeName, Load>,
}

/// Requests of the pods of a node.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) pods: usize,
    pub(crate) requests: Amounts,
}

impl World {
    /// An empty cluster of which `shown` is kept.
    pub fn new(shown: Shown) -> Self {
        Self {
            shown,
            texts: Texts::default(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            bound: BTreeMap::new(),
            waiting: BTreeMap::new(),
            loads: BTreeMap::new(),
        }
    }

    /// A Node appeared or changed.
    pub fn put_node(&mut self, object: &Node) {
        let (name, facts) = NodeFacts::of(object, &self.shown, &mut self.texts);
        self.nodes.insert(name, facts);
    }

    /// A claim appeared or changed.
    pub fn put_claim(&mut self, object: &NodeClaim) {
        let (name, facts) = ClaimFacts::of(object, &self.shown, &mut self.texts);
        self.claims.insert(name, facts);
    }

    /// Records a claim that this release cannot decode: what can be read of it.
    pub(crate) fn put_undecoded_claim(&mut self, object: &Undecoded) {
        let (name, facts) = ClaimFacts::of_undecoded(object, &self.shown, &mut self.texts);
        self.claims.insert(name, facts);
    }

    /// A pod appeared or changed.
    pub fn put_pod(&mut self, object: &Pod) {
        let (key, facts) = PodFacts::of(object, &self.shown, &mut self.texts);
        self.remove_pod(&key);
        match facts {
            PodFacts::Bound { node, requests } => {
                let none = || Load { pods: 0, requests: requests.iter().map(|_| Quantity::ZERO).collect() };
                let load = self.loads.entry(node.clone()).or_insert_with(none);
                load.pods += 1;
                for (sum, amount) in load.requests.iter_mut().zip(&requests) {
                    *sum = sum.saturating_add(*amount);
                }
                self.bound.insert(key, (node, requests));
            }
            PodFacts::Waiting(pod) => {
                self.waiting.insert(key, pod);
            }
            PodFacts::Ended => {}
        }
    }

    /// The Node is gone.
    pub(crate) fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// The claim is gone.
    pub(crate) fn remove_claim(&mut self, name: &str) {
        self.claims.remove(name);
    }

    /// The pod is gone.
    pub(crate) fn remove_pod(&mut self, key: &PodKey) {
        self.waiting.remove(key);
        let Some((node, requests)) = self.bound.remove(key) else { return };
        let Some(load) = self.loads.get_mut(&node) else { return };
        load.pods -= 1;
        if load.pods == 0 {
            self.loads.remove(&node);
            return;
        }
        for (sum, amount) in load.requests.iter_mut().zip(&requests) {
            *sum = sum.saturating_sub(*amount);
        }
    }

    /// The pods bound to a Node, by name, and what they ask for.
    pub(crate) fn pods_on<'w>(&'w self, node: &'w str) -> impl Iterator<Item = (&'w PodKey, &'w Amounts)> {
        let bound = self.bound.iter().filter(move |(_, (on, _))| on.as_str() == node);
        bound.map(|(key, (_, requests))| (key, requests))
    }

    /// A complete list of Nodes: all others are gone.
    pub(crate) fn keep_nodes(&mut self, listed: &BTreeSet<Key>) {
        self.nodes.retain(|name, _| listed.contains(&(String::new(), name.as_str().to_owned())));
        self.texts.clean();
    }

    /// Takes a complete list of claims: all others are gone.
    pub(crate) fn keep_claims(&mut self, listed: &BTreeSet<Key>) {
        self.claims.retain(|name, _| listed.contains(&(String::new(), name.as_str().to_owned())));
        self.texts.clean();
    }

    /// Takes a complete list of pods: all others are gone.
    pub(crate) fn keep_pods(&mut self, listed: &BTreeSet<Key>) {
        let gone = |key: &&PodKey| {
            !listed.contains(&(key.namespace.as_str().to_owned(), key.name.as_str().to_owned()))
        };
        let gone: Vec<PodKey> = self.bound.keys().chain(self.waiting.keys()).filter(gone).cloned().collect();
        for key in &gone {
            self.remove_pod(key);
        }
        self.texts.clean();
    }

    /// Returns the resources that are kept.
    pub(crate) const fn shown(&self) -> &Shown {
        &self.shown
    }

    pub(crate) const fn nodes(&self) -> &BTreeMap<NodeName, NodeFacts> {
        &self.nodes
    }

    pub(crate) const fn claims(&self) -> &BTreeMap<ClaimName, ClaimFacts> {
        &self.claims
    }

    /// Claims that cannot be decoded, by name, with what is wrong.
    pub(crate) fn undecoded_claims(&self) -> impl Iterator<Item = (&str, &str)> {
        self.claims.iter().filter_map(|(name, facts)| Some((name.as_str(), facts.problem.as_deref()?)))
    }

    /// Pods without a node, in the order of their names.
    pub(crate) const fn waiting(&self) -> &BTreeMap<PodKey, WaitingPod> {
        &self.waiting
    }

    /// Returns the requests of the pods of `node`; `None` when it has no pods.
    pub(crate) fn load(&self, node: &NodeName) -> Option<&Load> {
        self.loads.get(node)
    }

    /// All pods that have not ended.
    pub(crate) fn pods(&self) -> usize {
        self.bound.len() + self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use karpenter_kube_harness::watch::Readable;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, more: &Value) -> Pod {
        let mut object = json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]},
        });
        for (path, value) in more.as_object().unwrap() {
            object["spec"][path] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn load(world: &World, node: &str) -> Option<(usize, String, String)> {
        let load = world.load(&node.into())?;
        Some((load.pods, load.requests[0].to_string(), load.requests[1].to_string()))
    }

    #[test]
    fn pods_of_other_namespaces_do_not_count_where_one_is_asked_for() {
        for (namespace, pods) in [(None, 1), (Some("shop"), 1), (Some("front"), 0)] {
            let shown = Shown::new(&[]).with_namespace(namespace.map(str::to_owned));
            let mut world = World::new(shown);
            world.put_pod(&pod("a", &json!({"nodeName": "n"})));
            assert_eq!(world.pods(), pods, "{namespace:?}");
        }
    }

    #[test]
    fn the_load_of_a_node_follows_its_pods() {
        let mut world = World::new(Shown::new(&[]));
        for name in ["a", "b"] {
            world.put_pod(&pod(name, &json!({"nodeName": "n"})));
        }
        assert_eq!(load(&world, "n"), Some((2, "1".into(), "2Gi".into())));
        // A change replaces what was known, a second deletion changes nothing.
        world.put_pod(&pod("a", &json!({"nodeName": "n"})));
        assert_eq!(load(&world, "n"), Some((2, "1".into(), "2Gi".into())));
        for _ in 0..2 {
            world.remove_pod(&PodKey::new("shop", "a"));
        }
        assert_eq!(load(&world, "n"), Some((1, "500m".into(), "1Gi".into())));
        world.keep_pods(&BTreeSet::new());
        assert_eq!((load(&world, "n"), world.pods()), (None, 0));
    }

    #[test]
    fn a_pod_that_has_ended_takes_nothing() {
        let mut world = World::new(Shown::new(&[]));
        world.put_pod(&pod("a", &json!({"nodeName": "n"})));
        let mut ended = pod("a", &json!({"nodeName": "n"}));
        ended.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
        world.put_pod(&ended);
        assert_eq!((load(&world, "n"), world.pods()), (None, 0));
    }

    #[test]
    fn says_what_a_pod_waits_for() {
        let refused = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu."}]});
        let table = [
            (json!({}), json!({}), "the scheduler, which has not tried it"),
            (json!({}), refused.clone(), "0/3 nodes are available: 3 Insufficient cpu."),
            (json!({"schedulingGates": [{"name": "quota"}]}), json!({}), "scheduling gates: quota"),
            (json!({}), json!({"nominatedNodeName": "n"}), "its place on node `n`"),
        ];
        for (spec, status, expected) in table {
            let mut object = pod("a", &spec);
            object.status = serde_json::from_value(status).unwrap();
            let mut world = World::new(Shown::new(&[]));
            world.put_pod(&object);
            let waiting: Vec<&str> = world.waiting().values().map(|pod| &*pod.waits_for).collect();
            assert_eq!(waiting, [expected]);
        }
    }

    #[test]
    fn a_pod_that_got_a_node_waits_no_more() {
        let mut world = World::new(Shown::new(&["nvidia.com/gpu".to_owned()]));
        world.put_pod(&pod("a", &json!({})));
        assert_eq!(world.waiting().len(), 1);
        world.put_pod(&pod("a", &json!({"nodeName": "n"})));
        assert!(world.waiting().is_empty());
        assert_eq!(world.pods(), 1);
        assert_eq!(world.load(&"n".into()).unwrap().requests.len(), 3, "one amount for each resource shown");
    }

    #[test]
    fn what_a_list_lacks_is_gone() {
        let mut world = World::new(Shown::new(&[]));
        for name in ["a", "b"] {
            world.put_node(&serde_json::from_value(json!({"metadata": {"name": name}})).unwrap());
        }
        world.keep_nodes(&[(String::new(), "b".to_owned())].into());
        let left: Vec<&str> = world.nodes().keys().map(NodeName::as_str).collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn of_a_claim_that_cannot_be_decoded_is_known_what_can_be_read() {
        let condition = |kind: &str, status: &str| {
            json!({"type": kind, "status": status, "reason": kind, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "web-1", "labels": {"karpenter.sh/nodepool": "web"}},
            "spec": {"requirements": [{"key": "a", "operator": "Resembles"}], "resources": {"requests": {"cpu": "2"}}},
            "status": {
                "providerID": "aws:///a/i-1", "nodeName": "ip-1", "allocatable": {"cpu": "4"},
                "conditions": [condition("Launched", "True"), condition("Registered", "Perhaps")],
            },
        });
        let Readable::<NodeClaim>::Undecoded(object) = serde_json::from_value(claim).unwrap() else {
            panic!("`Resembles` is no operator");
        };
        let mut world = World::new(Shown::new(&[]));
        world.put_undecoded_claim(&object);
        let claim = &world.claims()[&ClaimName::from("web-1")];
        assert_eq!(
            (claim.node.as_deref(), claim.provider_id.as_deref()),
            (Some("ip-1"), Some("aws:///a/i-1"))
        );
        assert_eq!(
            (claim.requests[0].to_string(), claim.allocatable[0].to_string()),
            ("2".into(), "4".into())
        );
        assert!(claim.is("Launched") && claim.condition("Registered").is_none());
        let undecoded: Vec<(&str, &str)> = world.undecoded_claims().collect();
        assert!(
            undecoded.len() == 1 && undecoded[0].1.starts_with("spec.requirements[0].operator: "),
            "{undecoded:?}"
        );
    }
}
