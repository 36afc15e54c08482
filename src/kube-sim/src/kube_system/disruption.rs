//! The status of disruption budgets.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{StandIn, cluster::Cluster, template::number};
use crate::apiserver::{
    label_selector_matches,
    object::{self, text},
    store::allowed_disruptions,
};

pub(super) struct Disruption;

impl StandIn for Disruption {
    fn tables(&self) -> &[(&'static str, &'static str)] {
        &[("policy", "poddisruptionbudgets"), ("", "pods"), ("apps", "replicasets")]
    }

    fn pass(&mut self, cluster: &Cluster<'_>) {
        let budgets = cluster.list("policy", "poddisruptionbudgets");
        if budgets.is_empty() {
            return;
        }
        let pods = cluster.list("", "pods");
        let wanted: BTreeMap<String, i64> = ["replicasets", "statefulsets"]
            .into_iter()
            .flat_map(|plural| cluster.list("apps", plural))
            .map(|set| (object::uid(&set).to_owned(), number(&set, "/spec/replicas")))
            .collect();
        for budget in budgets {
            report(cluster, &budget, &pods, &wanted);
        }
    }
}

fn report(cluster: &Cluster<'_>, budget: &Value, pods: &[Arc<Value>], wanted: &BTreeMap<String, i64>) {
    let covered = pods.iter().map(Arc::as_ref).filter(|pod| {
        object::namespace(pod) == object::namespace(budget)
            && label_selector_matches(&budget["spec"]["selector"], &pod["metadata"]["labels"])
    });
    let replicas = |pod: &Value| {
        let uid = text(object::controller(pod)?, "/uid").to_owned();
        let count = *wanted.get(&uid)?;
        Some((uid, count))
    };
    let allowed = allowed_disruptions(budget, covered, replicas);
    let status = json!({
        "currentHealthy": allowed.healthy, "desiredHealthy": allowed.desired_healthy,
        "disruptionsAllowed": allowed.disruptions, "expectedPods": allowed.expected,
        "observedGeneration": number(budget, "/metadata/generation"),
    });
    cluster.report("policy", "poddisruptionbudgets", budget, &status);
}
