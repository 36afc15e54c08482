//! A world on a control plane: objects are created, pods are let go all at once, and what they come to is read back.
//!
//! Each world has namespaces of its own, because admission remembers limit ranges by namespace for half a minute. Nodes are
//! cordoned until their daemons are there: on a real node these are first, too. The driver of volumes is played here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use karpenter_e2e::wait;
use karpenter_judge::objects::{Key, is_daemon, key, node_of, of_kind, waiting};
use karpenter_judge::scheduler::{Binds, Verdict};
use karpenter_model::names::{annotation, label};
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::sleep;

/// Kinds that are created, each after those it needs.
const KINDS: [&str; 10] = [
    "Namespace",
    "StorageClass",
    "PriorityClass",
    "RuntimeClass",
    "LimitRange",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CSINode",
    "Node",
    "DaemonSet",
];

/// Time without news after which the scheduler has tried every pod: it waits a second before it tries one again.
const QUIET: Duration = Duration::from_millis(500);

/// Longest wait: nothing takes as long.
const PATIENCE: Duration = Duration::from_mins(1);

/// A control plane that is asked about one world after the other.
pub(super) struct ControlPlane {
    client: Client,
    handle: Handle,
    world: usize,
    /// Created objects, by key in the world.
    there: BTreeMap<Key, Value>,
    refused: BTreeMap<String, String>,
}

impl Binds for ControlPlane {
    fn bind(&mut self, objects: &[Value]) -> Result<Verdict> {
        let handle = self.handle.clone();
        handle.block_on(self.bound(objects))
    }

    fn is_quick(&self) -> bool {
        false
    }
}

impl ControlPlane {
    pub(super) fn new(client: Client, handle: Handle) -> Self {
        Self { client, handle, world: 0, there: BTreeMap::new(), refused: BTreeMap::new() }
    }

    async fn bound(&mut self, objects: &[Value]) -> Result<Verdict> {
        let is_new = |node: &Value| !self.there.contains_key(&key(node));
        if of_kind(objects, "Node").any(is_new) {
            self.withdraw(&waiting(objects).collect::<Vec<_>>()).await?;
        }
        let fresh = self.create(objects).await?;
        if of_kind(objects, "Node").next().is_none() {
            return Ok(Verdict::default());
        }
        if fresh.is_empty() && !self.there.is_empty() && self.world_was_asked(objects) {
            return Ok(Verdict { refused: self.refused.clone(), ..Verdict::default() });
        }
        self.admit_nodes(objects, &fresh).await?;
        self.bind_all(objects).await?;
        self.verdict(objects).await
    }

    /// Removes the pods that wait, which are made again with the nodes they are named for: the scheduler would try them on new
    /// nodes before that, and have volumes made there.
    async fn withdraw(&mut self, waiting: &[&Value]) -> Result<()> {
        for pod in waiting {
            if self.there.remove(&key(pod)).is_some() {
                self.remove(pod).await?;
            }
        }
        Ok(())
    }

    /// Lets pods go until no more of them are bound. The scheduler takes the name of a node away from a pod that it refuses,
    /// and the controller writes it again, so each round begins with every name. When it binds no pod, another one without
    /// names has the last word.
    async fn bind_all(&mut self, objects: &[Value]) -> Result<()> {
        let mut waiting: Vec<&Value> = waiting(objects).collect();
        let mut named = true;
        while !waiting.is_empty() {
            self.beat(objects).await?;
            self.release(&waiting, named).await?;
            self.settle().await?;
            let pods = self.pods().await?;
            let bound: BTreeSet<Key> = pods
                .iter()
                .filter(|pod| node_of(pod).is_some())
                .map(|pod| key(&self.moved(pod, false)))
                .collect();
            let before = waiting.len();
            waiting.retain(|pod| !bound.contains(&key(pod)));
            let progress = waiting.len() < before;
            if !progress && !named {
                break;
            }
            named = progress;
        }
        Ok(())
    }

    /// Returns whether nothing is asked that was not asked before.
    fn world_was_asked(&self, objects: &[Value]) -> bool {
        of_kind(objects, "Pod").all(|pod| self.there.contains_key(&key(pod)))
    }

    /// Creates what is not there yet, but for pods; returns the new nodes.
    async fn create(&mut self, objects: &[Value]) -> Result<Vec<String>> {
        let mut nodes = Vec::new();
        for kind in KINDS {
            for object in of_kind(objects, kind)
                .filter(|object| !self.there.contains_key(&key(object)))
                .collect::<Vec<_>>()
            {
                let mut written = self.moved(object, true);
                if kind == "Node" {
                    nodes.push(name(object).to_owned());
                    written["spec"]["unschedulable"] = json!(true);
                    if let Some(taints) = written["spec"]["taints"].as_array_mut() {
                        // The controller of the life cycle of nodes adds it.
                        taints.retain(|taint| taint["key"] != "node.kubernetes.io/unschedulable");
                    }
                }
                self.put(&written).await?;
                self.there.insert(key(object), object.clone());
            }
        }
        self.beat(objects).await?;
        Ok(nodes)
    }

    /// Says that nodes are ready: without it they are lost after 50 s.
    async fn beat(&self, objects: &[Value]) -> Result<()> {
        for object in of_kind(objects, "Node") {
            let mut status = object["status"].clone();
            for condition in status["conditions"].as_array_mut().into_iter().flatten() {
                condition["lastHeartbeatTime"] = json!(Timestamp::now());
            }
            let nodes = self.api("v1", "Node", None);
            let patch = json!({"status": status});
            nodes.patch_status(name(object), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    async fn put(&self, object: &Value) -> Result<()> {
        let read: DynamicObject = serde_json::from_value(object.clone())?;
        let namespace = object["metadata"]["namespace"].as_str();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let api = self.api(version, kind, namespace);
        // Classes are those of every world.
        if kind.ends_with("Class") && api.get_opt(name(object)).await?.is_some() {
            return Ok(());
        }
        wait::until_within(PATIENCE, "an object to be admitted", || async {
            match api.create(&PostParams::default(), &read).await {
                Ok(_) => Ok(Ok(())),
                // The service account of a new namespace, and a class that admission has not heard of.
                Err(kube::Error::Api(answer)) if answer.is_forbidden() => Ok(Err(answer.message)),
                Err(error) => Err(error.into()),
            }
        })
        .await
        .with_context(|| format!("create {object}"))
    }

    /// Lets new nodes take pods once they are ready and have their daemons.
    async fn admit_nodes(&self, objects: &[Value], fresh: &[String]) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let nodes = self.api("v1", "Node", None);
        self.wait_for_taints(fresh, "node.kubernetes.io/not-ready", false).await?;
        self.wait_for_taints(fresh, "node.kubernetes.io/unschedulable", true).await?;
        if of_kind(objects, "DaemonSet").next().is_some() {
            self.settle_daemons().await?;
        }
        let mut open: Vec<String> = Vec::new();
        for name in fresh {
            let written =
                of_kind(objects, "Node").find(|node| self::name(node) == name).context("find the node")?;
            if written["spec"]["unschedulable"] != true {
                let patch = json!({"spec": {"unschedulable": null}});
                nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                open.push(name.clone());
            }
        }
        self.wait_for_taints(&open, "node.kubernetes.io/unschedulable", false).await
    }

    async fn wait_for_taints(&self, names: &[String], taint: &str, there: bool) -> Result<()> {
        let has = |node: &Value| {
            let taints = node.pointer("/spec/taints").and_then(Value::as_array);
            taints.into_iter().flatten().any(|one| one["key"] == taint)
        };
        wait::until_within(PATIENCE, &format!("the taint `{taint}` of nodes to change"), || async {
            let nodes = self.list("v1", "Node", None).await?;
            let mut meant = nodes.iter().filter(|node| names.iter().any(|one| one == name(node)));
            Ok(meant.find(|node| has(node) != there).map_or(Ok(()), |node| Err(name(node).to_owned())))
        })
        .await
    }

    /// Waits until the pods of daemons are bound or refused, and no more of them come.
    async fn settle_daemons(&self) -> Result<()> {
        let (mut seen, mut since, start) = (BTreeSet::new(), Instant::now(), Instant::now());
        loop {
            let pods = self.pods().await?;
            let daemons: BTreeSet<(String, Option<String>)> = pods
                .iter()
                .filter(|pod| is_daemon(pod))
                .map(|pod| (name(pod).to_owned(), node_of(pod).map(str::to_owned)))
                .collect();
            let waits = pods.iter().any(|pod| is_daemon(pod) && node_of(pod).is_none() && why(pod).is_none());
            if daemons != seen {
                (seen, since) = (daemons, Instant::now());
            }
            if !waits && since.elapsed() > Duration::from_millis(600) || start.elapsed() > PATIENCE {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes the pods that wait again, and lets all of them go at once, with the nodes that are named for them: none is held
    /// back for an earlier refusal.
    async fn release(&mut self, waiting: &[&Value], named: bool) -> Result<()> {
        self.withdraw(waiting).await?;
        for pod in waiting {
            let mut written = self.moved(pod, true);
            forget(&mut written, "", &["status"]);
            written["spec"]["schedulingGates"] = json!([{"name": "judge.karpenter.sh/all-at-once"}]);
            self.put(&written).await?;
            if let Some(node) =
                pod.pointer("/status/nominatedNodeName").filter(|node| named && !node.is_null())
            {
                let patch = json!({"status": {"nominatedNodeName": node}});
                let pods = self.api("v1", "Pod", written["metadata"]["namespace"].as_str());
                pods.patch_status(name(pod), &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
            self.there.insert(key(pod), (*pod).clone());
        }
        self.wait_for_claims().await?;
        for pod in waiting {
            let namespace = self.moved(pod, true)["metadata"]["namespace"].clone();
            let pods = self.api("v1", "Pod", namespace.as_str());
            let patch = json!({"spec": {"schedulingGates": null}});
            pods.patch(name(pod), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    async fn remove(&self, pod: &Value) -> Result<()> {
        let namespace = self.moved(pod, true)["metadata"]["namespace"].clone();
        let pods = self.api("v1", "Pod", namespace.as_str());
        pods.delete(name(pod), &DeleteParams::default().grace_period(0)).await?;
        wait::until_within(PATIENCE, &format!("pod `{}` to go", name(pod)), || async {
            Ok(pods.get_opt(name(pod)).await?.map_or(Ok(()), |_| Err("it is there".to_owned())))
        })
        .await
    }

    /// Waits until claims are bound to the volumes they name, and pods have the claims of their ephemeral volumes, which go
    /// with the pod and are made again for the next one.
    async fn wait_for_claims(&self) -> Result<()> {
        wait::until_within(PATIENCE, "claims to be bound", || async {
            let claims = self.of_world("v1", "PersistentVolumeClaim").await?;
            let is_unbound =
                |claim: &Value| !claim["spec"]["volumeName"].is_null() && claim["status"]["phase"] != "Bound";
            let lacks = |pod: &Value| {
                let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
                let mut ephemeral = volumes.filter(|volume| volume.get("ephemeral").is_some());
                let is_its = |claim: &Value| {
                    claim.pointer("/metadata/ownerReferences/0/uid") == pod.pointer("/metadata/uid")
                };
                ephemeral.next().is_some() && !claims.iter().any(is_its)
            };
            let are_bound = !claims.iter().any(is_unbound) && !self.pods().await?.iter().any(lacks);
            Ok(if are_bound { Ok(()) } else { Err(format!("{claims:?}")) })
        })
        .await
    }

    /// Waits until every pod is bound or refused.
    async fn settle(&self) -> Result<()> {
        let (mut seen, mut since, start) = (BTreeMap::new(), Instant::now(), Instant::now());
        loop {
            self.provision().await?;
            let pods = self.pods().await?;
            let now: BTreeMap<String, Option<String>> =
                pods.iter().map(|pod| (name(pod).to_owned(), node_of(pod).map(str::to_owned))).collect();
            let undecided = pods.iter().any(|pod| node_of(pod).is_none() && why(pod).is_none());
            let done = now.values().all(Option::is_some);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            if done || (!undecided && since.elapsed() > QUIET) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("pods are neither bound nor refused: {seen:?}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes the volumes of claims for which the scheduler has chosen a node, in its zone.
    async fn provision(&self) -> Result<()> {
        for claim in self.of_world("v1", "PersistentVolumeClaim").await? {
            let node = claim["metadata"]["annotations"][annotation::SELECTED_NODE].as_str();
            let Some(node) = node.filter(|_| claim["spec"]["volumeName"].is_null()) else { continue };
            let node = self
                .there
                .get(&("Node".to_owned(), String::new(), node.to_owned()))
                .context("find the node")?;
            let metadata = &claim["metadata"];
            let name = format!("pvc-{}", metadata["uid"].as_str().unwrap_or_default());
            let zone = json!({"key": label::ZONE, "operator": "In", "values": [node["metadata"]["labels"][label::ZONE]]});
            let volume = json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {
                    "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": claim["spec"]["storageClassName"],
                    "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": name},
                    "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": metadata["namespace"],
                        "name": metadata["name"], "uid": metadata["uid"]},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
                },
            });
            let volumes = self.api("v1", "PersistentVolume", None);
            match volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await {
                Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
                created => drop(created?),
            }
        }
        Ok(())
    }

    /// Pods that are bound and were not, with their claims and volumes, and why others wait.
    async fn verdict(&mut self, objects: &[Value]) -> Result<Verdict> {
        let before: BTreeSet<Key> =
            of_kind(objects, "Pod").filter(|pod| node_of(pod).is_some()).map(key).collect();
        let mut verdict = Verdict::default();
        for pod in self.pods().await? {
            let pod = self.moved(&pod, false);
            if node_of(&pod).is_none() {
                let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
                let key = format!("{}/{}", text("namespace"), text("name"));
                verdict.refused.insert(key, why(&pod).unwrap_or_default());
            } else if !before.contains(&key(&pod)) {
                self.there.insert(key(&pod), pod.clone());
                verdict.changed.push(pod);
            }
        }
        for claim in self.of_world("v1", "PersistentVolumeClaim").await? {
            if claim["status"]["phase"] == "Bound" {
                verdict.changed.push(self.moved(&claim, false));
            }
        }
        let used: BTreeSet<String> = verdict
            .changed
            .iter()
            .filter_map(|claim| claim["spec"]["volumeName"].as_str().map(str::to_owned))
            .collect();
        for volume in self.list("v1", "PersistentVolume", None).await? {
            let volume = self.moved(&volume, false);
            if used.contains(name(&volume)) {
                verdict.changed.push(volume);
            }
        }
        for object in &verdict.changed {
            self.there.entry(key(object)).or_insert_with(|| object.clone());
        }
        self.refused.clone_from(&verdict.refused);
        Ok(verdict)
    }

    /// Removes the world, so that nothing of it meets the next one.
    pub(super) fn clear(&mut self) -> Result<()> {
        let handle = self.handle.clone();
        handle.block_on(self.cleared())
    }

    async fn cleared(&mut self) -> Result<()> {
        let everything = ListParams::default();
        for namespace in self.namespaces() {
            let sets = self.api("apps/v1", "DaemonSet", Some(&namespace));
            sets.delete_collection(&DeleteParams::background(), &everything).await?;
        }
        let start = Instant::now();
        let mut empty = 0;
        while empty < 3 {
            for namespace in self.namespaces() {
                let pods = self.api("v1", "Pod", Some(&namespace));
                pods.delete_collection(&DeleteParams::default().grace_period(0), &everything).await?;
            }
            empty = if self.pods().await?.is_empty() { empty + 1 } else { 0 };
            if start.elapsed() > PATIENCE {
                bail!("pods of world {} do not go", self.world);
            }
            sleep(Duration::from_millis(50)).await;
        }
        for (version, kind) in [("v1", "Node"), ("storage.k8s.io/v1", "CSINode")] {
            let all = self.api(version, kind, None);
            all.delete_collection(&DeleteParams::default(), &everything).await?;
        }
        for namespace in self.namespaces() {
            let namespaces = self.api("v1", "Namespace", None);
            namespaces.delete(&namespace, &DeleteParams::background()).await?;
        }
        self.there.clear();
        self.refused.clear();
        self.world += 1;
        Ok(())
    }

    /// The namespaces of this world, as they are called on the control plane.
    fn namespaces(&self) -> Vec<String> {
        self.there
            .keys()
            .filter(|key| key.0 == "Namespace")
            .map(|key| format!("{}{}", key.2, self.suffix()))
            .collect()
    }

    fn suffix(&self) -> String {
        format!("-world-{}", self.world)
    }

    async fn pods(&self) -> Result<Vec<Value>> {
        self.of_world("v1", "Pod").await
    }

    async fn of_world(&self, version: &str, kind: &str) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for namespace in self.namespaces() {
            found.extend(self.list(version, kind, Some(&namespace)).await?);
        }
        Ok(found)
    }

    async fn list(&self, version: &str, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>> {
        let listed = self.api(version, kind, namespace).list(&ListParams::default()).await?;
        let objects = listed.items.into_iter().map(|object| {
            let mut object = serde_json::to_value(object)?;
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.shift_remove("managedFields");
            }
            Ok(object)
        });
        objects.collect()
    }

    fn api(&self, version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// An object with the names it has on the control plane, or the other way round.
    fn moved(&self, object: &Value, there: bool) -> Value {
        let mut moved = object.clone();
        let suffix = self.suffix();
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind == "Namespace" || kind == "PersistentVolume" {
            rename(&mut moved["metadata"]["name"], &suffix, there);
        }
        rename_all(&mut moved, &suffix, there);
        if there {
            // The API server gives identities, and the controller of volumes binds.
            forget(&mut moved, "/metadata", &["uid", "creationTimestamp", "resourceVersion"]);
            let binding = [annotation::BIND_COMPLETED, "pv.kubernetes.io/bound-by-controller"];
            forget(&mut moved, "/metadata/annotations", &binding);
            forget(&mut moved, "/metadata/labels", &["kubernetes.io/metadata.name"]);
            forget(&mut moved, "/spec/claimRef", &["uid"]);
            if kind == "Node" {
                moved["status"] = json!({});
            }
        }
        moved
    }
}

fn forget(object: &mut Value, holder: &str, fields: &[&str]) {
    if let Some(holder) = object.pointer_mut(holder).and_then(Value::as_object_mut) {
        for field in fields {
            holder.shift_remove(*field);
        }
    }
}

fn rename(name: &mut Value, suffix: &str, there: bool) {
    if let Some(text) = name.as_str() {
        let text = if there { format!("{text}{suffix}") } else { text.trim_end_matches(suffix).to_owned() };
        *name = json!(text);
    }
}

/// Names of namespaces and volumes, wherever they stand.
fn rename_all(value: &mut Value, suffix: &str, there: bool) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match (field.as_str(), &mut *value) {
                    ("namespace" | "volumeName", Value::String(_)) => rename(value, suffix, there),
                    ("namespaces", Value::Array(names)) => {
                        for name in names {
                            rename(name, suffix, there);
                        }
                    }
                    _ => rename_all(value, suffix, there),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename_all(value, suffix, there)),
        _ => {}
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Returns the reason why the scheduler refuses a pod, if it does.
fn why(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let scheduled =
        conditions.iter().find(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable")?;
    Some(scheduled["message"].as_str().unwrap_or_default().to_owned())
}
