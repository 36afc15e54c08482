//! `karpenter_pods_state`: one series per pod that says where it is and how it is (spec disruption 6).
//!
//! Written as the watch brings pods, so that nothing is computed for pods that do not change. What the series says
//! about the pod's node is looked up again every ten seconds, and written where it changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use karpenter_model::names::label;
use karpenter_model::{NodeName, PodKey};
use karpenter_telemetry::metrics::Gauge;
use kube::ResourceExt;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::view::{PodSeen, View};

/// How often what is said about nodes is brought up to date.
const PERIOD: Duration = Duration::from_secs(10);

const LABELS: usize = 13;
type Labels = [String; LABELS];

/// The pods and their series.
#[derive(Clone)]
pub(crate) struct States {
    gauge: Gauge<LABELS>,
    /// Whether series are published: only by the replica that leads, or every pod would count twice.
    publishing: Arc<AtomicBool>,
    known: Arc<Mutex<BTreeMap<PodKey, (Facts, Labels)>>>,
}

/// What a pod says about itself.
#[derive(Clone)]
struct Facts {
    owner: String,
    node: String,
    phase: String,
    ready: bool,
}

impl States {
    /// Nothing published yet.
    pub(crate) fn new(context: &Context) -> Self {
        Self { gauge: context.metrics.pods.state.clone(), publishing: Arc::default(), known: Arc::default() }
    }

    /// Records a pod that appeared or changed.
    pub(crate) fn seen(&self, view: &View, pod: &Pod) {
        let key = PodKey::new(&pod.namespace().unwrap_or_default(), &pod.name_any());
        let facts = Facts::of(pod);
        let labels = labels(view, &key, &facts);
        let mut published = self.lock();
        let before = published.insert(key, (facts, labels.clone()));
        self.replace(before.map(|(_, labels)| labels), &labels);
    }

    /// Forgets a pod that is gone.
    pub(crate) fn note(&self, seen: &PodSeen) {
        if let PodSeen::Deleted(pod) = seen {
            let gone = self.lock().remove(&pod.key);
            if let Some((_, labels)) = gone {
                self.gauge.remove(labels.each_ref().map(String::as_str));
            }
        }
    }

    /// Publishes what is known, and follows the nodes of the pods until `shutdown`.
    pub(crate) async fn run(self, context: Context, shutdown: CancellationToken) {
        self.publishing.store(true, Ordering::Relaxed);
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => self.refresh(&context.view),
            }
        }
    }

    fn refresh(&self, view: &View) {
        let keys: Vec<PodKey> = self.lock().keys().cloned().collect();
        for key in keys {
            let known = view.pod(&key).is_some();
            let mut published = self.lock();
            let Some((facts, before)) = published.get_mut(&key) else { continue };
            if known {
                let after = labels(view, &key, facts);
                let before = std::mem::replace(before, after.clone());
                self.replace(Some(before), &after);
            } else if let Some((_, labels)) = published.remove(&key) {
                // Gone while the watch was broken.
                self.gauge.remove(labels.each_ref().map(String::as_str));
            }
        }
    }

    fn replace(&self, before: Option<Labels>, after: &Labels) {
        if !self.publishing.load(Ordering::Relaxed) {
            return;
        }
        if let Some(before) = before.filter(|before| before != after) {
            self.gauge.remove(before.each_ref().map(String::as_str));
        }
        self.gauge.set(after.each_ref().map(String::as_str), 1.0);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PodKey, (Facts, Labels)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let ready = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
            conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
        });
        Self {
            owner: owner(pod),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
            ready,
        }
    }
}

/// The address of the first owner below the API server; empty without owner.
fn owner(pod: &Pod) -> String {
    let Some(owner) = pod.owner_references().first() else { return String::new() };
    let namespace = pod.namespace().unwrap_or_default();
    let (version, kind) = (&owner.api_version, owner.kind.to_lowercase());
    format!("/apis/{version}/namespaces/{namespace}/{kind}s/{}", owner.name)
}

fn labels(view: &View, key: &PodKey, facts: &Facts) -> Labels {
    let Facts { owner, node, phase, ready } = facts;
    let known = view.node(&NodeName::from(node.as_str())).filter(|_| !node.is_empty());
    let of_node = |label: &str| {
        let found = known.as_ref().and_then(|known| known.object.labels().get(label));
        found.cloned().unwrap_or_default()
    };
    let pool = of_node(label::NODE_POOL);
    let managed = (!pool.is_empty()).to_string();
    [
        key.name.to_string(),
        key.namespace.to_string(),
        owner.clone(),
        node.clone(),
        (!node.is_empty()).to_string(),
        pool,
        of_node(label::ZONE),
        of_node(label::ARCH),
        of_node(label::CAPACITY_TYPE),
        of_node(label::INSTANCE_TYPE),
        phase.clone(),
        ready.to_string(),
        managed,
    ]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::World;

    fn pod(node: Option<&str>, phase: &str) -> Pod {
        let conditions =
            json!([{"type": "Ready", "status": if phase == "Running" { "True" } else { "False" }}]);
        read(json!({
            "metadata": {"name": "web-1", "namespace": "shop", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true},
            ]},
            "spec": {"containers": [], "nodeName": node},
            "status": {"phase": phase, "conditions": conditions},
        }))
    }

    fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).unwrap()
    }

    fn lines(context: &Context) -> Vec<String> {
        let text = context.metrics.render();
        text.lines().filter(|line| line.starts_with("karpenter_pods_state{")).map(ToOwned::to_owned).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_has_one_series_that_follows_it_to_its_node_and_goes_with_it() {
        let context = World::new().context;
        let states = States::new(&context);
        states.seen(&context.view, &pod(None, "Pending"));
        assert!(lines(&context).is_empty(), "a replica that waits to lead publishes nothing");
        states.publishing.store(true, Ordering::Relaxed);
        states.seen(&context.view, &pod(None, "Pending"));
        let waiting = "karpenter_pods_state{arch=\"\",capacity_type=\"\",instance_type=\"\",managed=\"false\",\
                       name=\"web-1\",namespace=\"shop\",node=\"\",nodepool=\"\",\
                       owner=\"/apis/apps/v1/namespaces/shop/replicasets/web\",phase=\"Pending\",ready=\"false\",\
                       scheduled=\"false\",zone=\"\"} 1";
        assert_eq!(lines(&context), [waiting]);
        states.seen(&context.view, &pod(Some("n"), "Running"));
        assert_eq!(lines(&context).len(), 1);
        let node: Node = read(json!({"metadata": {"name": "n", "resourceVersion": "1", "labels": {
            "karpenter.sh/nodepool": "default", "topology.kubernetes.io/zone": "a", "kubernetes.io/arch": "arm64",
            "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": "m7g.large",
        }}}));
        context.view.put_node(node);
        let known: karpenter_model::Pod =
            karpenter_model::Pod::pending(PodKey::new("shop", "web-1"), "u", jiff::Timestamp::UNIX_EPOCH);
        context.view.with_cluster(|cluster| {
            cluster.put(
                &known.key,
                karpenter_cluster::Version(1).into(),
                std::sync::Arc::new(known.clone()),
                (),
            )
        });
        states.refresh(&context.view);
        let running = "karpenter_pods_state{arch=\"arm64\",capacity_type=\"spot\",instance_type=\"m7g.large\",\
                       managed=\"true\",name=\"web-1\",namespace=\"shop\",node=\"n\",nodepool=\"default\",\
                       owner=\"/apis/apps/v1/namespaces/shop/replicasets/web\",phase=\"Running\",ready=\"true\",\
                       scheduled=\"true\",zone=\"a\"} 1";
        assert_eq!(lines(&context), [running]);
        states.note(&PodSeen::Deleted(Arc::new(known)));
        assert!(lines(&context).is_empty());
    }
}
