//! Least cost of a number of pods, no matter what buys the machines for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use karpenter_aws::NODE_CLASS_KIND;
use karpenter_aws::registry::label_registry;
use karpenter_compose::offered::OfferingsReader;
use karpenter_kube_sim::apiserver::store::ListQuery;
use karpenter_model::{Clock as _, Pod, Price};
use karpenter_plan::{Offerings, PlanInputs, WhatIf};
use karpenter_testkit::bound::least_price;
use serde_json::Value;

use super::shape::deployment;
use crate::process::{aws_settings, settings};
use crate::world::World;

/// Bounds by replicas of each workload: days are alike.
pub(super) struct Bounds {
    plan_inputs: PlanInputs,
    at: jiff::Timestamp,
    /// Pools and classes.
    objects: Vec<Value>,
    offerings: Offerings,
    known: BTreeMap<Vec<u32>, Price>,
}

impl Bounds {
    /// Bounds with what the account of a world sells to its pools.
    pub(super) async fn of(world: &World) -> Result<Self> {
        let at = world.clock.now();
        let plan_inputs = PlanInputs {
            registry: Arc::new(label_registry()),
            classes: vec![NODE_CLASS_KIND],
            settings: settings(&world.settings)?.decisions,
            repair: Arc::default(),
        };
        let objects: Vec<Value> = world.server.read(|store| {
            let bought = |kind: &str| matches!(kind, "NodePool" | "EC2NodeClass" | "Namespace");
            let resources = store.registry().iter().filter(|one| bought(&one.kind));
            let pages = resources.filter_map(|resource| store.list(resource, &ListQuery::default()).ok());
            pages.flat_map(|page| page.items).map(|object| Value::clone(&object)).collect()
        });
        let seen = karpenter_plan::World::new(objects.clone(), at, plan_inputs.clone(), WhatIf::default())
            .context("cannot read pools and classes")?;
        let mut reader =
            OfferingsReader::new(world.account.clients(), aws_settings(world), world.clock.clone()).await?;
        let offerings = reader.offerings(&seen.pools(), &seen.node_classes()).await;
        Ok(Self { plan_inputs, at, objects, offerings, known: BTreeMap::new() })
    }

    /// Returns the least hourly cost of the pods.
    pub(super) fn least_price(&mut self, replicas: &[u32]) -> Result<Price> {
        if let Some(known) = self.known.get(replicas) {
            return Ok(*known);
        }
        let workloads = replicas.iter().enumerate().map(|(number, count)| deployment(number, *count));
        let objects: Vec<Value> = self.objects.iter().cloned().chain(workloads).collect();
        let world = karpenter_plan::World::new(objects, self.at, self.plan_inputs.clone(), WhatIf::default())
            .context("cannot read the workloads")?;
        let (snapshot, _) = world.snapshot(&self.offerings);
        let pods: Vec<&Pod> = snapshot.pending.iter().map(AsRef::as_ref).collect();
        let price = least_price(&snapshot, &pods);
        self.known.insert(replicas.to_vec(), price);
        Ok(price)
    }
}
