//! Deployments: one replica set per template, rolled over within surge and unavailability. Old replica sets are kept
//! without limit, and progress deadlines do not pass.

use std::sync::Arc;

use karpenter_api::convert::template_hash;
use karpenter_model::names::label::POD_TEMPLATE_HASH as HASH;
use serde_json::{Value, json};

use super::{
    StandIn,
    cluster::Cluster,
    template::{controls, number, reference},
};
use crate::apiserver::{object, store::Part};

pub(super) struct Deployments;

impl StandIn for Deployments {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("apps", "deployments"), ("apps", "replicasets")]
    }

    fn pass(&mut self, cluster: &mut Cluster<'_>) {
        let sets = cluster.list("apps", "replicasets");
        for deployment in cluster.list("apps", "deployments") {
            let own: Vec<_> = sets.iter().filter(|set| controls(&deployment, set)).cloned().collect();
            if !object::is_deleting(&deployment) {
                roll(cluster, &deployment, &own);
            }
            report(cluster, &deployment, &own);
        }
    }
}

fn roll(cluster: &Cluster<'_>, deployment: &Value, sets: &[Arc<Value>]) {
    let hash = template_hash(&deployment["spec"]["template"]);
    let (current, old): (Vec<_>, Vec<_>) =
        sets.iter().partition(|set| object::label(set, HASH) == Some(&hash));
    let Some(current) = current.first() else {
        let replicas = if sets.is_empty() { number(deployment, "/spec/replicas") } else { 0 };
        cluster.create(
            "apps",
            "replicasets",
            object::namespace(deployment),
            new_set(deployment, &hash, replicas),
        );
        return;
    };
    if deployment["spec"]["paused"] == true {
        return;
    }
    let scaled = |set: &Value, replicas: i64| {
        if number(set, "/spec/replicas") != replicas {
            cluster.patch("apps", "replicasets", set, Part::Main, json!({"spec": {"replicas": replicas}}));
        }
    };
    if deployment["spec"]["strategy"]["type"] == "Recreate" {
        for set in &old {
            scaled(set, 0);
        }
        if old.iter().all(|set| number(set, "/status/replicas") == 0) {
            scaled(current, number(deployment, "/spec/replicas"));
        }
        return;
    }
    let bounds = Bounds::of(deployment);
    scaled(current, bounds.size_of_current(current, &old));
    for (set, replicas) in bounds.sizes_of_old(current, &old) {
        scaled(set, replicas);
    }
}

/// Bounds of a rolling update.
struct Bounds {
    wanted: i64,
    surge: i64,
    unavailable: i64,
}

impl Bounds {
    fn of(deployment: &Value) -> Self {
        let wanted = number(deployment, "/spec/replicas");
        let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
        let surge = share(&rolling["maxSurge"], wanted, true);
        let unavailable = share(&rolling["maxUnavailable"], wanted, false);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Self { wanted, surge, unavailable }
    }

    fn size_of_current(&self, current: &Value, old: &[&Arc<Value>]) -> i64 {
        let size = number(current, "/spec/replicas");
        let others: i64 = old.iter().map(|set| number(set, "/spec/replicas")).sum();
        let room = self.wanted + self.surge - others;
        if size >= self.wanted { self.wanted } else { room.clamp(size, self.wanted) }
    }

    /// Pods that do not serve go first; then as many as availability allows.
    fn sizes_of_old<'a>(&self, current: &Value, old: &[&'a Arc<Value>]) -> Vec<(&'a Arc<Value>, i64)> {
        let size = |set: &Value| number(set, "/spec/replicas");
        let available = |set: &Value| number(set, "/status/availableReplicas").min(size(set));
        let least = self.wanted - self.unavailable;
        let total: i64 = size(current) + old.iter().map(|set| size(set)).sum::<i64>();
        let starting = size(current) - available(current);
        let mut budget = (total - least - starting).max(0);
        let mut sizes = Vec::new();
        for set in old {
            let idle = (size(set) - available(set)).min(budget);
            budget -= idle;
            sizes.push((*set, size(set) - idle));
        }
        let serving = available(current) + old.iter().map(|set| available(set)).sum::<i64>();
        let mut spare = (serving - least).max(0).min(budget);
        for (set, left) in &mut sizes {
            let removed = (*left).min(spare).min(available(set));
            spare -= removed;
            *left -= removed;
        }
        sizes
    }
}

/// An int-or-percentage of `whole`.
fn share(value: &Value, whole: i64, round_up: bool) -> i64 {
    let percent = || value.as_str()?.strip_suffix('%')?.parse::<i64>().ok();
    let of_percent = |p: i64| (p * whole + if round_up { 99 } else { 0 }) / 100;
    value.as_i64().or_else(|| percent().map(of_percent)).unwrap_or(0)
}

fn new_set(deployment: &Value, hash: &str, replicas: i64) -> Value {
    let mut template = deployment["spec"]["template"].clone();
    let mut selector = deployment["spec"]["selector"].clone();
    object::map_mut(&mut template["metadata"], "labels").insert(HASH.to_owned(), json!(hash));
    object::map_mut(&mut selector, "matchLabels").insert(HASH.to_owned(), json!(hash));
    json!({
        "metadata": {
            "name": format!("{}-{hash}", object::name(deployment)),
            "labels": template["metadata"]["labels"],
            "ownerReferences": [reference(deployment, "Deployment")],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    })
}

fn report(cluster: &Cluster<'_>, deployment: &Value, sets: &[Arc<Value>]) {
    let sum = |pointer: &str| sets.iter().map(|set| number(set, pointer)).sum::<i64>();
    let hash = template_hash(&deployment["spec"]["template"]);
    let current = sets.iter().filter(|set| object::label(set, HASH) == Some(&hash));
    let (wanted, available) = (number(deployment, "/spec/replicas"), sum("/status/availableReplicas"));
    let least = wanted - Bounds::of(deployment).unavailable;
    let is_available = if available >= least { "True" } else { "False" };
    let mut status = json!({
        "observedGeneration": number(deployment, "/metadata/generation"),
        "replicas": sum("/status/replicas"), "readyReplicas": sum("/status/readyReplicas"),
        "availableReplicas": available, "unavailableReplicas": (wanted - available).max(0),
        "updatedReplicas": current.map(|set| number(set, "/status/replicas")).sum::<i64>(),
    });
    if object::condition(deployment, "Available") != Some(is_available) {
        let reason =
            if is_available == "True" { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" };
        status["conditions"] = json!([{
            "type": "Available", "status": is_available, "reason": reason, "message": "",
            "lastTransitionTime": cluster.timestamp(), "lastUpdateTime": cluster.timestamp(),
        }]);
    }
    cluster.report("apps", "deployments", deployment, &status);
}
