//! Instance types that pools can launch: a few families of the account in memory, read once through the provider, as a
//! controller does.

use std::sync::Arc;

use anyhow::{Context, Result};
use jiff::Timestamp;
use karpenter_aws::registry::label_registry;
use karpenter_aws::{NODE_CLASS_KIND, Settings as OfProvider};
use karpenter_compose::WallClock;
use karpenter_compose::offered::{OfferingsReader, in_memory};
use karpenter_model::names::tag;
use karpenter_model::{InstanceType, PoolName, Settings};
use karpenter_plan::{Offerings, PlanInputs, WhatIf, World};
use serde_json::{Value, json};

/// The region of every world.
pub const REGION: &str = "us-west-2";
/// Zones of the catalogue.
pub const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];
/// The instant of every plan.
pub(crate) const AT: &str = "2026-01-01T00:00:00Z";
/// Families that worlds are planned with: both architectures, little and much memory, few and many pods. `t3` is not sold in
/// the third zone.
const FAMILIES: [&str; 5] = ["m5", "c5", "r5", "t3", "m6g"];
/// Larger types only make planning slower.
const CPUS_MAX: i64 = 8;

/// Instance types and what decisions are made by.
pub struct Catalogue {
    /// Settings and names.
    pub plan_inputs: PlanInputs,
    types: Arc<[Arc<InstanceType>]>,
}

impl Catalogue {
    /// Reads what the account in memory sells.
    ///
    /// # Errors
    /// The account in memory does not answer.
    pub fn read() -> Result<Self> {
        let plan_inputs = PlanInputs {
            registry: Arc::new(label_registry()),
            classes: vec![NODE_CLASS_KIND],
            settings: Arc::new(Settings::default()),
            repair: Arc::default(),
        };
        let mut objects = vec![class(), pool("all", &json!({}))];
        karpenter_plan::resolve(&mut objects, &ZONES.map(str::to_owned), |_| Vec::new());
        let world = World::new(objects, Timestamp::UNIX_EPOCH, plan_inputs.clone(), WhatIf::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let offerings = runtime.block_on(async {
            let clock = Arc::new(WallClock);
            let (clients, _) = in_memory(REGION, clock.clone());
            let mut reader =
                OfferingsReader::new(clients, OfProvider::new("judge", "https://judge"), clock).await?;
            anyhow::Ok(reader.offerings(&world.pools(), &world.node_classes()).await)
        })?;
        let all = offerings.types.get(&PoolName::from("all")).context("the pool has no instance types")?;
        let types = all.iter().filter(|one| is_used(one)).cloned().collect();
        Ok(Self { plan_inputs, types })
    }

    /// The instance types for the pools of a world.
    pub fn offerings(&self, world: &World) -> Offerings {
        let pools = world.pools().into_iter().map(|pool| (pool.name, Arc::clone(&self.types)));
        Offerings { types: pools.collect(), partial: true, ..Offerings::default() }
    }

    /// Every instance type.
    pub(crate) fn types(&self) -> &[Arc<InstanceType>] {
        &self.types
    }

    /// The instance type of a name.
    pub(crate) fn named(&self, name: &str) -> Option<&InstanceType> {
        self.types.iter().map(|one| &**one).find(|one| one.name.as_str() == name)
    }
}

fn is_used(one: &InstanceType) -> bool {
    let family = one.name.as_str().split('.').next().unwrap_or_default();
    let cpus = one.capacity.get("cpu").map_or(0, karpenter_model::Quantity::as_units_ceil);
    FAMILIES.contains(&family) && cpus <= CPUS_MAX
}

/// The node class of every pool.
pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {(tag::DISCOVERY): "judge"}}],
            "securityGroupSelectorTerms": [{"tags": {(tag::DISCOVERY): "judge"}}],
        },
    })
}

/// A pool with these fields in the spec of its template.
pub(crate) fn pool(name: &str, template: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {}}, "spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }},
        },
    });
    for (field, value) in template.as_object().into_iter().flatten() {
        pool["spec"]["template"]["spec"][field] = value.clone();
    }
    pool
}
