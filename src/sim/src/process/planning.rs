//! `karpenter plan` for the world of the simulation: what it reads of the API server and of the account.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::instances::repair;
use karpenter_aws::registry::label_registry;
use karpenter_compose::offered::OfferingsReader;
use karpenter_controllers::repair_policies;
use karpenter_kube_sim::apiserver::store::ListQuery;
use karpenter_model::Clock as _;
use karpenter_plan::{Forecast, Offerings, PlanInputs, WhatIf};
use serde_json::Value;

use super::{aws_settings, settings};
use crate::world::World;

/// Kinds a plan reads.
const KINDS: [&str; 18] = [
    "NodePool",
    "NodeClaim",
    "EC2NodeClass",
    "NodeOverlay",
    "Node",
    "Pod",
    "DaemonSet",
    "PodDisruptionBudget",
    "Namespace",
    "LimitRange",
    "RuntimeClass",
    "PriorityClass",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ResourceSlice",
    "DeviceClass",
    "ResourceClaim",
];

/// Every object of the kinds a plan reads, as one look at the cluster finds them.
pub(crate) fn objects(world: &World) -> Vec<Value> {
    world.server.read(|store| {
        let resources = store.registry().iter().filter(|one| KINDS.contains(&one.kind.as_str()));
        let pages = resources.filter_map(|resource| store.list(resource, &ListQuery::default()).ok());
        pages.flat_map(|page| page.items).map(|object| Value::clone(&object)).collect()
    })
}

/// A cluster that has these objects, at the present time and with the settings of the world.
pub(crate) fn read(world: &World, objects: Vec<Value>, what_if: WhatIf) -> Result<karpenter_plan::World> {
    let settings = settings(&world.settings)?;
    let plan_inputs = PlanInputs {
        registry: Arc::new(label_registry()),
        classes: vec![NODE_CLASS_KIND],
        repair: repair_policies(repair::declared(aws_settings(world).gates), &settings)?,
        settings: settings.decisions,
    };
    karpenter_plan::World::new(objects, world.clock.now(), plan_inputs, what_if)
        .context("cannot read the world")
}

/// Everything that the account offers to the pools of a cluster.
pub(crate) async fn offerings(world: &World, seen: &karpenter_plan::World) -> Result<Offerings> {
    let mut reader =
        OfferingsReader::new(world.account.clients(), aws_settings(world), world.clock.clone()).await?;
    Ok(reader.offerings(&seen.pools(), &seen.node_classes()).await)
}

/// The plan.
pub(crate) fn told(seen: &karpenter_plan::World, offerings: &Offerings) -> Forecast {
    seen.forecast(offerings, Vec::new())
}
