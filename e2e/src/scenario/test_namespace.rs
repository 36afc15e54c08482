//! Isolation of one behaviour from the others in the same cluster: a namespace, and a label that only its pools put on nodes and
//! only its pods select.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::{Condition, EC2NodeClass, NodeClaim, NodePool};
use karpenter_model::names::{self, condition};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::manifests::{self, merged};
use crate::scenario::facts;
use crate::wait;
use crate::world::World;

/// Label of the namespace, nodes and pods of a behaviour; its value is the name of the behaviour.
pub(super) const TEST_LABEL: &str = "example.com/test";

/// Namespace of one behaviour, with pools and pods that are bound to each other by [`TEST_LABEL`].
pub(super) struct TestNamespace<'a> {
    pub(super) world: &'a World,
    pub(super) name: &'static str,
}

impl<'a> TestNamespace<'a> {
    /// Creates the namespace `name` with the label and nothing in it.
    pub(super) async fn open(world: &'a World, name: &'static str) -> Result<Self> {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {TEST_LABEL: name}}});
        manifests::apply_json(&world.client, namespace).await?;
        Ok(Self { world, name })
    }

    /// No pod of `worker` may be evicted any more, by a budget named `never`.
    pub(super) async fn forbid_evictions(&self) -> Result<()> {
        let budget = json!({
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "never", "namespace": self.name},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "worker"}}},
        });
        manifests::apply_json(&self.world.client, budget).await
    }

    /// Deletes that budget.
    pub(super) async fn allow_evictions(&self) -> Result<()> {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.world.client.clone(), self.name);
        budgets.delete("never", &DeleteParams::default()).await.context("delete the budget").map(drop)
    }

    /// Applies a pool and waits until it is ready: pods are then told about the pool and not about its absence.
    pub(super) async fn ready_pool(&self, name: &str, change: Value) -> Result<()> {
        self.pool(name, change).await?;
        pool_says(self.world, name, (condition::READY, "True", condition::READY)).await
    }

    /// Applies a pool of small amd64 machines on demand, changed by a merge patch. Only empty nodes leave it, so
    /// that a behaviour can look at its nodes in peace.
    pub(super) async fn pool(&self, name: &str, change: Value) -> Result<()> {
        let pool = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "template": {
                    "metadata": {"labels": {TEST_LABEL: self.name}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                        "requirements": [
                            needs("kubernetes.io/arch", &["amd64"]),
                            needs("karpenter.sh/capacity-type", &["on-demand"]),
                            needs("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
                            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]},
                        ],
                    },
                },
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": "1s",
                    "budgets": [{"nodes": "100%"}],
                },
            },
        });
        manifests::apply_json(&self.world.client, merged(pool, change)).await
    }

    /// Applies a Deployment of pods that request half a CPU each; `change` is a merge patch on the pod template.
    pub(super) async fn pods(&self, app: &str, replicas: usize, change: Value) -> Result<()> {
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": app, "namespace": self.name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": app}},
                "template": merged(pod_template(self.name, app), change),
            },
        });
        manifests::apply_json(&self.world.client, deployment).await
    }

    /// Creates pods before there is a pool for them; returns when the scheduler has found no node for any of them. The pool
    /// that is applied next meets all of them at once, however slowly they were made.
    pub(super) async fn pods_without_pool(&self, app: &str, replicas: usize, change: Value) -> Result<()> {
        self.pods(app, replicas, change).await?;
        wait::until(&format!("{replicas} pods of `{app}` to be found unschedulable"), || async {
            let pods = self.pods_of(app).await?;
            let waiting = pods.iter().filter(|pod| facts::is_unschedulable(pod)).count();
            let seen = format!("{waiting} of {}", pods.len());
            Ok(if waiting == replicas && pods.len() == replicas { Ok(()) } else { Err(seen) })
        })
        .await
    }

    /// Waits until exactly `count` pods of `app` exist and run, all of them on nodes of this namespace; returns the Node
    /// of each.
    pub(super) async fn running(&self, app: &str, count: usize) -> Result<Vec<Node>> {
        let what = format!("{count} running pods of `{app}`");
        wait::settles(&what, || self.nodes_of_running(app, count)).await
    }

    /// The Node of each pod of `app`, if there are `count` and all of them run.
    async fn nodes_of_running(&self, app: &str, count: usize) -> Result<Vec<Node>> {
        let pods = self.pods_of(app).await?;
        let running = pods.iter().filter(|pod| facts::phase(pod) == "Running").count();
        ensure!(running == count && pods.len() == count, "{running} of {} pods run", pods.len());
        let nodes: BTreeMap<String, Node> =
            self.nodes().await?.into_iter().map(|node| (node.name_any(), node)).collect();
        pods.iter()
            .map(|pod| {
                let name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                nodes.get(name).cloned().with_context(|| {
                    format!(
                        "`{}` runs on `{name}`, which is no node of namespace `{}`",
                        pod.name_any(),
                        self.name
                    )
                })
            })
            .collect()
    }

    /// The pods of `app`.
    pub(super) async fn pods_of(&self, app: &str) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.world.client.clone(), self.name);
        Ok(api.list(&ListParams::default().labels(&format!("app={app}"))).await.context("list pods")?.items)
    }

    /// Gives a pod an annotation, or takes it away.
    pub(super) async fn annotate(&self, pod: &Pod, key: &str, value: Option<&str>) -> Result<()> {
        let api: Api<Pod> = Api::namespaced(self.world.client.clone(), self.name);
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let name = pod.name_any();
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("annotate pod `{}/{name}`", self.name))?;
        Ok(())
    }

    /// The claims of this namespace.
    pub(super) async fn claims(&self) -> Result<Vec<NodeClaim>> {
        let api: Api<NodeClaim> = Api::all(self.world.client.clone());
        let ours = ListParams::default().labels(&self.selector());
        Ok(api.list(&ours).await.context("list NodeClaims")?.items)
    }

    /// Returns whether `claim` is there and not being deleted.
    pub(super) async fn keeps(&self, claim: &NodeClaim) -> Result<bool> {
        let stays = |now: &NodeClaim| now.uid() == claim.uid() && now.metadata.deletion_timestamp.is_none();
        Ok(self.claims().await?.iter().any(stays))
    }

    /// The claim of a Node of this namespace.
    pub(super) async fn claim_of(&self, node: &Node) -> Result<NodeClaim> {
        let name = node.name_any();
        let owns = |claim: &NodeClaim| {
            claim.status.as_ref().is_some_and(|status| status.node_name.as_deref() == Some(&name))
        };
        wait::until(&format!("the claim of node `{name}`"), || async {
            Ok(self.claims().await?.into_iter().find(owns).ok_or_else(|| "no claim names it".to_owned()))
        })
        .await
    }

    /// Returns the label selector of nodes and claims of this namespace.
    pub(super) fn selector(&self) -> String {
        format!("{TEST_LABEL}={}", self.name)
    }

    /// The Nodes of this namespace.
    pub(super) async fn nodes(&self) -> Result<Vec<Node>> {
        let api: Api<Node> = Api::all(self.world.client.clone());
        let ours = ListParams::default().labels(&self.selector());
        Ok(api.list(&ours).await.context("list nodes")?.items)
    }

    /// Scales a Deployment of this namespace.
    pub(super) async fn scale(&self, app: &str, replicas: usize) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.world.client.clone(), self.name);
        let patch = json!({"spec": {"replicas": replicas}});
        api.patch_scale(app, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("scale `{}/{app}` to {replicas}", self.name))?;
        Ok(())
    }

    /// Scales every Deployment of this namespace to zero.
    pub(super) async fn scale_down(&self) -> Result<()> {
        let api: Api<Deployment> = Api::namespaced(self.world.client.clone(), self.name);
        for deployment in api.list(&ListParams::default()).await.context("list Deployments")? {
            self.scale(&deployment.name_any(), 0).await?;
        }
        Ok(())
    }

    /// Waits until exactly `count` pods of `app` run, the namespace has one Node of each of these instance types
    /// and no other, and none of them is terminating.
    pub(super) async fn settled_on(&self, app: &str, count: usize, types: &[&str]) -> Result<()> {
        let mut expected: Vec<String> = types.iter().map(|name| (*name).to_owned()).collect();
        expected.sort();
        wait::until(&format!("{count} pods of `{app}` on {expected:?}"), || async {
            let pods = self.pods_of(app).await?;
            let running = pods.iter().filter(|pod| facts::phase(pod) == "Running").count();
            let nodes = self.nodes().await?;
            let mut found: Vec<String> =
                nodes.iter().map(|node| facts::label(node, names::label::INSTANCE_TYPE).to_owned()).collect();
            found.sort();
            let leaving = nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_some()).count();
            let settled = running == count && pods.len() == count && found == expected && leaving == 0;
            let seen = format!("{running} of {} pods run, nodes {found:?}, {leaving} leaving", pods.len());
            Ok(if settled { Ok(()) } else { Err(seen) })
        })
        .await
    }

    /// Waits until exactly `count` pods of `app` run on nodes that have at most `cpus` CPUs together, and no node is
    /// terminating or joining.
    pub(super) async fn settled_within(&self, app: &str, count: usize, cpus: u32) -> Result<()> {
        wait::until(&format!("{count} pods of `{app}` on {cpus} CPUs"), || async {
            let pods = self.pods_of(app).await?;
            let running = pods.iter().filter(|pod| facts::phase(pod) == "Running").count();
            let (nodes, claims) = (self.nodes().await?, self.claims().await?.len());
            let cpu = |node| facts::label(node, "karpenter.k8s.aws/instance-cpu").parse().unwrap_or(u32::MAX);
            let there = nodes.iter().map(cpu).fold(0, u32::saturating_add);
            let resting =
                claims == nodes.len() && nodes.iter().all(|node| node.metadata.deletion_timestamp.is_none());
            let settled = running == count && pods.len() == count && there <= cpus && resting;
            let seen = format!(
                "{running} of {} pods run on {there} CPUs, {} nodes, {claims} claims",
                pods.len(),
                nodes.len()
            );
            Ok(if settled { Ok(()) } else { Err(seen) })
        })
        .await
    }

    /// Waits until a pod of `app` has an event of the controller with this reason and a message that contains
    /// `text`.
    pub(super) async fn pod_told(&self, app: &str, reason: &str, text: &str) -> Result<()> {
        told(self.world, self.name, &format!("{app}-"), reason, text).await
    }
}

/// Waits for an event of the controller with this reason and a message that contains `text`, about an object in
/// `namespace` (`default` for objects without one) whose name begins with `name`.
pub(super) async fn told(world: &World, namespace: &str, name: &str, reason: &str, text: &str) -> Result<()> {
    let api: Api<Event> = Api::namespaced(world.client.clone(), namespace);
    let fields = ListParams::default().fields(&format!("reason={reason}"));
    wait::until(&format!("event {reason} about `{name}` with `{text}`"), || async {
        let events = api.list(&fields).await.context("list events")?.items;
        let ours = events.into_iter().filter(|event| {
            let object = event.involved_object.name.as_deref().unwrap_or_default();
            let from = event.source.as_ref().and_then(|source| source.component.as_deref());
            object.starts_with(name) && from == Some("karpenter")
        });
        let messages: Vec<String> = ours.filter_map(|event| event.message).collect();
        let found = messages.iter().any(|message| message.contains(text));
        Ok(if found { Ok(()) } else { Err(format!("{messages:?}")) })
    })
    .await
}

/// Waits as [`told`] for an event that is published once: a controller that was killed may have taken it along unwritten.
pub(super) async fn told_once(
    world: &World,
    namespace: &str,
    name: &str,
    reason: &str,
    text: &str,
) -> Result<()> {
    if world.controller_starts() > 1 {
        return Ok(());
    }
    told(world, namespace, name, reason, text).await
}

/// Waits until condition `kind` of a pool has this status and reason.
pub(super) async fn pool_says(world: &World, name: &str, expected: (&str, &str, &str)) -> Result<()> {
    let api: Api<NodePool> = Api::all(world.client.clone());
    condition(&format!("pool `{name}`"), expected, || async {
        Ok(api.get(name).await.context("read the pool")?.status.unwrap_or_default().conditions)
    })
    .await
}

/// Waits until condition `kind` of a class has this status and reason.
pub(super) async fn class_says(world: &World, name: &str, expected: (&str, &str, &str)) -> Result<()> {
    let api: Api<EC2NodeClass> = Api::all(world.client.clone());
    condition(&format!("class `{name}`"), expected, || async {
        Ok(api.get(name).await.context("read the class")?.status.unwrap_or_default().conditions)
    })
    .await
}

async fn condition<F>(
    what: &str,
    (kind, status, reason): (&str, &str, &str),
    conditions: impl Fn() -> F,
) -> Result<()>
where
    F: Future<Output = Result<Vec<Condition>>>,
{
    wait::until(&format!("{kind}={status} ({reason}) of {what}"), || async {
        let found = conditions().await?.into_iter().find(|condition| condition.kind == kind);
        Ok(match found {
            Some(found) if found.status.as_str() == status && found.reason == reason => Ok(()),
            Some(found) => Err(format!("{} ({}): {}", found.status.as_str(), found.reason, found.message)),
            None => Err("no such condition".to_owned()),
        })
    })
    .await
}

/// Scales every Deployment of every namespace to zero.
pub(super) async fn scale_all_down(world: &World) -> Result<()> {
    let deployments = Api::<Deployment>::all(world.client.clone()).list(&ListParams::default()).await?;
    // Others belong to the cluster, as those of its DNS do.
    for deployment in deployments.into_iter().filter(manifests::is_applied) {
        let namespace = deployment.namespace().unwrap_or_default();
        let api: Api<Deployment> = Api::namespaced(world.client.clone(), &namespace);
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let name = deployment.name_any();
        api.patch_scale(&name, &PatchParams::default(), &none)
            .await
            .with_context(|| format!("scale `{namespace}/{name}` to 0"))?;
    }
    Ok(())
}

/// A patch that lets a pool refer to this class.
pub(super) fn refers_to(class: &str) -> Value {
    json!({"spec": {"template": {"spec": {"nodeClassRef": {"name": class}}}}})
}

/// The class of all other pools under another name, changed by a merge patch on its specification.
pub(super) async fn class_like_default(world: &World, name: &str, change: Value) -> Result<Value> {
    let default: EC2NodeClass =
        Api::all(world.client.clone()).get("default").await.context("read the class")?;
    Ok(json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": manifests::merged(serde_json::to_value(&default.spec)?, change),
    }))
}

/// A change of a pod template: no two of these pods share a node.
pub(super) fn a_node_each(app: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": names::label::HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    ]}}}})
}

/// The images of claims that stay; empty for one that has not been launched yet.
pub(super) fn images(claims: &[NodeClaim]) -> BTreeSet<String> {
    let staying = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none());
    staying.map(|claim| claim.status.clone().unwrap_or_default().image_id.unwrap_or_default()).collect()
}

/// The template of the pods of `app` that go to nodes of this namespace. Each requests half a CPU.
pub(super) fn pod_template(namespace: &str, app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "nodeSelector": {TEST_LABEL: namespace},
            "terminationGracePeriodSeconds": 0,
            "containers": [container(json!({"requests": {"cpu": "500m", "memory": "256Mi"}}))],
        },
    })
}

/// A container that does nothing, with these resources.
pub(super) fn container(resources: Value) -> Value {
    json!({"name": "pause", "image": "public.ecr.aws/eks-distro/kubernetes/pause:3.10", "resources": resources})
}

/// A pool's requirement that a label has one of these values.
pub(super) fn needs(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// A patch that gives a pool these requirements and no others.
pub(super) fn requiring(requirements: Value) -> Value {
    json!({"spec": {"template": {"spec": {"requirements": requirements}}}})
}

/// Returns the number of `nodes` with each value of a label.
pub(super) fn by_label(nodes: &[Node], key: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(facts::label(node, key).to_owned()).or_default() += 1;
    }
    counts
}

/// Returns the number of different nodes.
pub(super) fn distinct(nodes: &[Node]) -> usize {
    nodes.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>().len()
}
