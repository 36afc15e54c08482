//! The Node that a launch promises, as it is once it takes pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fastrand::Rng;
use karpenter_model::instance_type::Offering;
use karpenter_model::names::label;
use karpenter_model::pod::volume::ATTACHABLE_PREFIX;
use karpenter_model::requirement::Operator;
use karpenter_model::requirement::set::Undefined;
use karpenter_model::{InstanceType, LabelRegistry, Labels, Launch, Pool, Requirements, Snapshot};
use serde_json::{Value, json};

use crate::catalogue::{AT, Catalogue, REGION};

/// The Node of a launch, and what its agents publish. A launch leaves types, zones and capacity types open; each of them
/// keeps the promise. The cheapest is taken, or with `any` one that is drawn.
pub(crate) fn keep(
    launch: &Launch,
    name: &str,
    catalogue: &Catalogue,
    any: Option<&mut Rng>,
) -> Result<Vec<Value>> {
    let (instance_type, offering) = bought(launch, catalogue, any)?;
    Ok(node(launch, name, instance_type, offering))
}

/// A node that a pool could add.
pub(crate) struct Possible {
    /// Its type, zone and capacity type.
    pub(crate) what: String,
    /// The Node and what its agents publish.
    pub(crate) objects: Vec<Value>,
}

/// The largest node of each family in every zone and capacity type that a pool allows.
pub(crate) fn possible(pool: &Pool, snapshot: &Snapshot, catalogue: &Catalogue) -> Vec<Possible> {
    let launch = Launch::from_template(pool, &snapshot.settings, &snapshot.registry);
    let mut largest: BTreeMap<(String, String, &str), (&InstanceType, &Offering)> = BTreeMap::new();
    for (one, offering) in sold(&launch, catalogue.types().iter().map(|one| &**one), &snapshot.registry) {
        let family = one.name.as_str().split('.').next().unwrap_or_default();
        let place = (family.to_owned(), offering.zone.to_string(), offering.capacity_type.as_str());
        let found = largest.entry(place).or_insert((one, offering));
        if found.0.capacity.get("cpu") < one.capacity.get("cpu") {
            *found = (one, offering);
        }
    }
    let nodes = largest.into_iter().map(|((_, zone, kind), (one, offering))| Possible {
        what: format!("{} of pool {}, {zone}, {kind}", one.name, pool.name),
        objects: node(&launch, "possible", one, offering),
    });
    nodes.collect()
}

fn node(launch: &Launch, name: &str, instance_type: &InstanceType, offering: &Offering) -> Vec<Value> {
    let mut labels: Labels = launch.labels.clone();
    // As on a machine of the provider: what has one value on the type, then what the launch has decided.
    for requirements in [&instance_type.requirements, &offering.requirements] {
        labels.extend(single_values(requirements));
    }
    let mut labels = json!(labels);
    labels[label::HOSTNAME] = json!(name);
    labels[label::REGION] = json!(REGION);
    labels[label::REGISTERED] = json!("true");
    labels[label::INITIALIZED] = json!("true");
    let taints: Vec<Value> = launch.taints.iter().map(|taint| json!(taint)).collect();
    let provider_id = format!("aws:///{}/{name}", offering.zone);
    let capacity = json!(instance_type.capacity.replaced_by(&offering.capacity_override));
    let allocatable = json!(instance_type.allocatable_through(offering));
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": AT},
        "spec": {"providerID": provider_id, "taints": taints},
        "status": {"capacity": capacity, "allocatable": allocatable, "conditions": [condition("Ready")]},
    });
    let conditions = ["Launched", "Registered", "Initialized", "Ready"].map(condition);
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("claim-{name}"), "labels": labels, "creationTimestamp": AT},
        "spec": {"requirements": [], "expireAfter": "Never", "taints": taints, "nodeClassRef":
            {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": launch.node_class.name}},
        "status": {"providerID": provider_id, "nodeName": name, "capacity": capacity, "allocatable": allocatable,
            "conditions": conditions},
    });
    let limits = instance_type.capacity.iter().filter_map(|(resource, amount)| {
        Some((resource.as_str().strip_prefix(ATTACHABLE_PREFIX)?.to_owned(), amount.as_units_ceil()))
    });
    let drivers = limits.map(|(driver, count)| {
        json!({"name": driver, "nodeID": name, "topologyKeys": [], "allocatable": {"count": count}})
    });
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name},
        "spec": {"drivers": drivers.collect::<Vec<_>>()},
    });
    vec![claim, node, csi_node]
}

fn bought<'c>(
    launch: &Launch,
    catalogue: &'c Catalogue,
    any: Option<&mut Rng>,
) -> Result<(&'c InstanceType, &'c Offering)> {
    let types = launch.instance_types.iter().filter_map(|name| catalogue.named(name.as_str()));
    let mut sold = sold(launch, types, &catalogue.plan_inputs.registry);
    sold.sort_by_key(|(one, offering)| (offering.price, one.name.clone(), offering.zone.clone()));
    let index = any.map_or(0, |rng| rng.usize(0..sold.len().max(1)));
    sold.get(index).copied().with_context(|| format!("nothing keeps the promise of launch {}", launch.bin.0))
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastHeartbeatTime": AT,
        "lastTransitionTime": AT})
}

/// Offerings of some types that a launch could buy.
fn sold<'c>(
    launch: &Launch,
    types: impl Iterator<Item = &'c InstanceType>,
    registry: &LabelRegistry,
) -> Vec<(&'c InstanceType, &'c Offering)> {
    let known = Undefined::WellKnown(registry);
    let types = types.filter(|one| launch.requirements.compatible(&one.requirements, known).is_ok());
    let offered = types.flat_map(|one| one.offerings.iter().map(move |offering| (one, offering)));
    let compatible = |(_, offering): &(&InstanceType, &Offering)| {
        offering.is_launchable() && offering.is_compatible(&launch.requirements, registry)
    };
    offered.filter(compatible).collect()
}

fn single_values(requirements: &Requirements) -> Labels {
    let single = requirements.iter().filter(|one| one.operator() == Operator::In && one.values().len() == 1);
    single.filter_map(|one| Some((one.key().clone(), one.any()?))).collect()
}
