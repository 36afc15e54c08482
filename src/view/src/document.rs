//! The scene as one JSON document, for scripts. Amounts and prices are exact texts, as everywhere in Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::{Price, Quantity};
use schemars::JsonSchema;
use serde::Serialize;

use crate::list::{self, Choice};
use crate::machine::Machine;
use crate::scene::Scene;
use crate::totals::Totals;
use crate::ui::Ui;

/// A scene for scripts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    at: String,
    cluster: &'a str,
    /// True if every list was read; what is missing is in `troubles`.
    complete: bool,
    troubles: Vec<String>,
    totals: Sums<'a>,
    pools: Vec<Pool<'a>>,
    nodes: Vec<Entry<'a>>,
    waiting_pods: Vec<WaitingPod<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Sums<'a> {
    nodes: usize,
    states: BTreeMap<&'static str, usize>,
    pods: usize,
    /// `null` when no price is known.
    #[schemars(with = "Option<String>")]
    price_per_hour: Option<Price>,
    /// Nodes that cost something unknown.
    nodes_without_price: usize,
    #[schemars(with = "BTreeMap<String, String>")]
    requested: BTreeMap<&'a str, Quantity>,
    #[schemars(with = "BTreeMap<String, String>")]
    allocatable: BTreeMap<&'a str, Quantity>,
}

#[derive(Serialize, JsonSchema)]
struct Pool<'a> {
    name: &'a str,
    #[serde(flatten)]
    totals: Sums<'a>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    node: Option<Arc<str>>,
    claim: Option<&'a str>,
    pool: Option<&'a str>,
    instance_type: Option<&'a str>,
    zone: Option<&'a str>,
    capacity_type: Option<&'a str>,
    #[schemars(with = "Option<String>")]
    price_per_hour: Option<Price>,
    state: &'static str,
    why: Option<&'a str>,
    created: String,
    pods: usize,
    /// Labels that were asked for, where the node has them.
    labels: BTreeMap<&'a str, String>,
    #[schemars(with = "BTreeMap<String, String>")]
    requested: BTreeMap<&'a str, Quantity>,
    #[schemars(with = "BTreeMap<String, String>")]
    allocatable: BTreeMap<&'a str, Quantity>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitingPod<'a> {
    namespace: &'a str,
    name: &'a str,
    created: String,
    waits_for: &'a str,
    #[schemars(with = "BTreeMap<String, String>")]
    requested: BTreeMap<&'a str, Quantity>,
}

/// The document of `scene` with the filter and the order that `ui` has.
pub fn document<'a>(scene: &Scene<'a>, ui: &Ui) -> Document<'a> {
    let names = scene.world.shown().names();
    let named = |amounts: &[Quantity]| -> BTreeMap<&'a str, Quantity> {
        names.iter().map(String::as_str).zip(amounts.iter().copied()).collect()
    };
    let sums = |totals: &Totals| Sums {
        nodes: totals.machines,
        states: totals.by_phase().map(|(phase, count)| (phase.as_str(), count)).collect(),
        pods: totals.pods,
        price_per_hour: totals.known_price(),
        nodes_without_price: totals.unpriced,
        requested: named(&totals.requested),
        allocatable: named(&totals.allocatable),
    };
    let choice = Choice { by_pool: false, ..ui.choice().clone() };
    let (rows, list::Sums { shown: totals, .. }) = list::rows(scene.machines(), &choice);
    let machines: Vec<Box<Machine<'_>>> = rows
        .into_iter()
        .filter_map(|row| match row {
            list::Row::Machine(machine) => Some(machine),
            list::Row::Pool { .. } => None,
        })
        .collect();
    let mut pools: BTreeMap<&str, Totals> = BTreeMap::new();
    for machine in &machines {
        pools.entry(machine.pool).or_default().add(machine);
    }
    let labelled = |machine: &Machine<'_>| -> BTreeMap<&'a str, String> {
        let keys = scene.world.shown().labels().iter();
        keys.filter_map(|key| Some((key.as_str(), machine.label(key)?.to_owned()))).collect()
    };
    let nodes = machines.iter().map(|machine| Entry {
        node: machine.node.is_some().then(|| Arc::clone(&machine.name)),
        claim: machine.claim.map(|(name, _)| name),
        pool: non_empty(machine.pool),
        instance_type: non_empty(machine.instance_type),
        zone: non_empty(machine.zone),
        capacity_type: non_empty(machine.capacity),
        price_per_hour: machine.price,
        state: machine.state.phase.as_str(),
        why: non_empty(machine.state.why),
        created: machine.created.to_string(),
        pods: machine.pods,
        labels: labelled(machine),
        requested: named(machine.requested),
        allocatable: named(machine.allocatable),
    });
    let waiting = scene.world.waiting().iter().map(|(key, pod)| WaitingPod {
        namespace: key.namespace.as_str(),
        name: key.name.as_str(),
        created: pod.created.to_string(),
        waits_for: &pod.waits_for,
        requested: named(&pod.requests),
    });
    Document {
        at: scene.now.to_string(),
        cluster: scene.cluster,
        complete: scene.complete,
        troubles: scene.troubles.iter().map(crate::trouble::Trouble::full).collect(),
        totals: sums(&totals),
        pools: pools.iter().map(|(name, totals)| Pool { name, totals: sums(totals) }).collect(),
        nodes: nodes.collect(),
        waiting_pods: waiting.collect(),
    }
}

fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
