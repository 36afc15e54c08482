//! Machines are for pods: there are never more machines on their way than pods that have needed a place since the first of
//! them was asked for. The pods of a buffer of capacity always need one.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_kube_sim::apiserver::object::{self, Key, text};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use karpenter_model::names::label;
use karpenter_model::{Quantity, resources};
use serde_json::Value;

use super::candidates::is_ready;
use super::{Found, OUTDATED, Scene, is_disrupted, pool_of};

/// Memory about pods and claims; times in seconds.
#[derive(Default)]
pub(super) struct Surplus {
    /// Pods, and when they had no node to stay on last.
    needed: BTreeMap<Key, u64>,
    /// Pods that had none at the last look.
    homeless: BTreeSet<Key>,
    /// Claims whose Node was not ready yet, and since when.
    coming: BTreeMap<Key, u64>,
    /// Nodes of claims that are being deleted.
    leaving: BTreeMap<Key, String>,
    /// Nodes and pods that have changed since the last look.
    touched: (BTreeSet<String>, BTreeSet<Key>),
}

impl Surplus {
    /// A pod changes.
    pub(super) fn pod(&mut self, change: &Change, now: u64) {
        let key = Key::of(&change.object);
        self.touched.1.insert(key.clone());
        if text(&change.object, "/spec/nodeName").is_empty() {
            self.needed.insert(key, now);
        }
    }

    /// A Node changes: the pods of one that is being disrupted need another.
    pub(super) fn node(&mut self, scene: &Scene, change: &Change, now: u64) {
        self.touched.0.insert(object::name(&change.object).to_owned());
        if is_disrupted(&change.object) || !is_ready(&change.object) {
            self.needed.extend(scene.pods_on(object::name(&change.object)).map(|pod| (Key::of(pod), now)));
        }
    }

    /// A claim changes.
    pub(super) fn claim(&mut self, scene: &Scene, change: &Change, now: u64, found: &mut Found) {
        let key = Key::of(&change.object);
        let node = scene.node_of_claim(&change.object).map(|(key, _)| key.name.clone()).unwrap_or_default();
        self.touched.0.insert(node.clone());
        if change.kind == ChangeKind::Deleted || object::is_deleting(&change.object) {
            self.coming.remove(&key);
            // Their replacements may be seen in the same look.
            self.needed.extend(scene.pods_on(&node).map(|pod| (Key::of(pod), now)));
            match change.kind {
                ChangeKind::Deleted => drop(self.leaving.remove(&key)),
                _ => drop(self.leaving.insert(key, node)),
            }
            return;
        }
        let pool = scene.pools.get(&Key::new("", pool_of(&change.object)));
        if change.kind != ChangeKind::Added
            || pool.is_none_or(|pool| pool.pointer("/spec/replicas").is_some())
        {
            return;
        }
        self.forget_arrived(scene);
        self.coming.insert(key, now);
        // Pods are looked at where something has changed: one that had no node at the last look has none now.
        self.homeless_need(now);
        let first = self.coming.values().min().copied().unwrap_or(now);
        let pods = self.needed.values().filter(|at| **at + OUTDATED >= first).count();
        let pods = scene.buffers.values().map(|buffer| buffered(buffer)).fold(pods, usize::saturating_add);
        if self.coming.len() > pods {
            let names: Vec<&str> = self.coming.keys().map(|key| key.name.as_str()).collect();
            found.push(("machines for pods", format!("{pods} pods need a place, for them come {names:?}")));
        }
    }

    /// Pods that have no node need one now.
    fn homeless_need(&mut self, now: u64) {
        self.needed.extend(self.homeless.iter().map(|key| (key.clone(), now)));
    }

    /// Machines whose Node is ready are not on their way any more, and those that are gone are not either. Nor are those
    /// whose Node has joined otherwise than the claim promises: the pods they were for may need another one.
    fn forget_arrived(&mut self, scene: &Scene) {
        if self.coming.is_empty() {
            return;
        }
        let is_here = |claim: &Value| {
            let id = text(claim, "/status/providerID");
            let mut nodes = scene.nodes.of_instance(id).map(|(_, node)| node);
            !id.is_empty() && nodes.any(|node| is_ready(node) || is_other(node, claim))
        };
        self.coming.retain(|key, _| scene.claims.get(key).is_some_and(|claim| !is_here(claim)));
    }

    /// Looks at what has changed.
    pub(super) fn look(&mut self, scene: &Scene, now: u64) {
        let (nodes, mut pods) = std::mem::take(&mut self.touched);
        for node in &nodes {
            pods.extend(scene.pods_on(node).map(Key::of));
        }
        let leaving: BTreeSet<&str> = self.leaving.values().map(String::as_str).collect();
        let stays = |name: &str| {
            let node = scene.nodes.get(&Key::new("", name));
            node.is_some_and(|node| is_ready(node) && !is_disrupted(node) && !leaving.contains(name))
        };
        for key in pods {
            let homeless = scene.pods.get(&key).is_some_and(|pod| !stays(text(pod, "/spec/nodeName")));
            if homeless {
                self.homeless.insert(key);
            } else {
                self.homeless.remove(&key);
            }
        }
        self.homeless_need(now);
        self.forget_arrived(scene);
        // Pods that count for no claim created now or later are forgotten.
        let first = self.coming.values().min().copied().unwrap_or(now);
        self.needed.retain(|_, at| *at + OUTDATED >= first);
    }
}

/// Returns whether a Node has less room than its claim promises, has joined and lacks a label of it, or has a label or a taint
/// that only another controller can have set: daemons may come for the one, and the other may keep the pods off.
fn is_other(node: &Value, claim: &Value) -> bool {
    let amount = |object: &Value, resource: &str| {
        let amount = object.pointer("/status/allocatable")?.get(resource)?.as_str()?;
        amount.parse::<Quantity>().ok()
    };
    let short =
        |resource| amount(node, resource).zip(amount(claim, resource)).is_some_and(|(has, was)| has < was);
    let labels = &node["metadata"]["labels"];
    let promised = claim.pointer("/metadata/labels").and_then(Value::as_object);
    let unlabelled = || promised.into_iter().flatten().any(|(key, value)| labels[key] != *value);
    let of_cluster =
        |key: &str| ["kubernetes.io/", "k8s.aws/", "karpenter.sh/"].iter().any(|of| key.contains(of));
    let foreign = || {
        let has = labels.as_object().into_iter().flatten();
        has.filter(|(key, _)| !of_cluster(key)).any(|(key, _)| claim["metadata"]["labels"][key].is_null())
    };
    let announced = |key: &str| {
        let mut taints =
            ["/spec/taints", "/spec/startupTaints"].into_iter().flat_map(|of| object::list(claim, of));
        taints.any(|taint| text(taint, "/key") == key)
    };
    let tainted = || {
        let mut keys = object::list(node, "/spec/taints").iter().map(|taint| text(taint, "/key"));
        keys.any(|key| !of_cluster(key) && !announced(key))
    };
    [resources::CPU, resources::MEMORY, resources::EPHEMERAL_STORAGE, resources::PODS].into_iter().any(short)
        || foreign()
        || tainted()
        || (labels[label::REGISTERED] == "true" && unlabelled())
}

/// Returns the number of pods that a buffer keeps room for; any number if that depends on other objects.
fn buffered(buffer: &Value) -> usize {
    let replicas = buffer.pointer("/spec/replicas").and_then(Value::as_u64);
    replicas.and_then(|replicas| usize::try_from(replicas).ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use karpenter_aws_sim::Account;
    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::ApiServer;
    use karpenter_model::names::label;
    use karpenter_testkit::objects::{node_claim, node_pool, one_of, pod};
    use serde_json::{Value, json};

    use crate::check::Truth;
    use crate::trace::Trace;
    use crate::world::{START, account};

    fn claim(name: &str) -> Value {
        node_claim(name, &[], &json!({"metadata": {"labels": {label::NODE_POOL: "general"}}}))
    }

    /// A pool, and a check that watches it.
    fn watched() -> (ApiServer, Truth) {
        let clock = Arc::new(VirtualClock::starting_at(START.parse().unwrap()));
        let server = ApiServer::new(clock.clone());
        let pool = node_pool("general", &[one_of(label::ARCH, &["amd64"])], &json!({}));
        for object in karpenter_api::crd_values().iter().chain([&pool]) {
            server.load(object).unwrap();
        }
        let account = Account::with_clock(account(), clock);
        (server.clone(), Truth::new(server, account, Trace::new(false), BTreeMap::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_has_come_between_two_looks_is_not_on_its_way() {
        let (server, truth) = watched();
        let id = "aws:///us-west-2a/i-0123456789abcdef0";
        let mut first = claim("first");
        first["status"] = json!({"providerID": id, "nodeName": "n"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": id},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        server.load(&pod("web", "1", &json!({}))).unwrap();
        server.restore(&first).unwrap();
        truth.look();
        server.restore(&node).unwrap();
        // Another pod may have taken the place of this one.
        server.load(&claim("second")).unwrap();
        truth.look();
        assert_eq!(truth.violations(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_has_joined_with_a_taint_of_another_controller_is_not_waited_for() {
        for (key, comes_for_the_pod) in [("node.kubernetes.io/not-ready", true), ("example.com/odd", false)] {
            let (server, truth) = watched();
            let id = "aws:///us-west-2a/i-0123456789abcdef0";
            let mut first = claim("first");
            first["status"] = json!({"providerID": id, "nodeName": "n"});
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
                "spec": {"providerID": id, "taints": [{"key": key, "effect": "NoSchedule"}]},
            });
            server.load(&pod("web", "1", &json!({}))).unwrap();
            server.restore(&first).unwrap();
            server.restore(&node).unwrap();
            truth.look();
            server.load(&claim("second")).unwrap();
            truth.look();
            assert_eq!(truth.violations().is_empty(), !comes_for_the_pod, "{key}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_waits_while_nothing_changes_needs_its_place_all_the_time() {
        let (server, truth) = watched();
        server.load(&pod("web", "1", &json!({}))).unwrap();
        truth.look();
        // As long as nothing changes pods are not looked at.
        tokio::time::advance(Duration::from_secs(400)).await;
        truth.look();
        server.load(&claim("first")).unwrap();
        truth.look();
        assert_eq!(truth.violations(), []);
        server.load(&claim("second")).unwrap();
        truth.look();
        let rules: Vec<&str> = truth.violations().iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, ["machines for pods"], "one pod needs one machine");
    }
}
