//! Offerings that pools can launch, in memory and in files.
//!
//! An instance type is written once with the names of the pools that see it so; what is read is equal to what was
//! written, so a plan of an export is the plan of the cluster.

mod table;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_api::{Requirement, convert};
use karpenter_cloud::overlay::List;
use karpenter_model::instance_type::{Offering, Overhead, Overlaid, Reservation};
use karpenter_model::{
    CapacityType, InstanceType, LabelRegistry, NodeClassRef, Pool, PoolName, Price, Requirements,
    ReservationId, Resources, Zone,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use table::{offered, offered_text};

/// API version of what is in an export and in no cluster.
pub(crate) const API_VERSION: &str = "export.karpenter.sh/v1";
/// Kind of an instance type in an export.
pub(crate) const INSTANCE_TYPE: &str = "InstanceType";

/// Offerings that each pool can launch.
#[derive(Clone, Debug, Default)]
pub struct Offerings {
    /// Types per pool; of a pool that is missing they are not known.
    pub types: BTreeMap<PoolName, List>,
    /// Reasons why the types of a pool are not known.
    pub problems: BTreeMap<PoolName, String>,
    /// Zones the cluster is shifted away from.
    pub zones_away: BTreeSet<Zone>,
    /// Types are missing in this list: that one is not in it means nothing.
    pub partial: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    pools: Vec<PoolName>,
    /// Position in the list of each of those pools.
    order: usize,
    name: String,
    requirements: Vec<Requirement>,
    capacity: Resources,
    kube_reserved: Resources,
    system_reserved: Resources,
    eviction: Resources,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    price_overlaid: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    capacity_overlaid: bool,
    offerings: Vec<WrittenOffering>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOffering {
    zone: Zone,
    capacity_type: CapacityType,
    price: Price,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    estimated: bool,
    available: bool,
    requirements: Vec<Requirement>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<(String, u32)>,
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    capacity_override: Resources,
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    overhead_override: Resources,
}

impl Offerings {
    /// Every instance type as an object of an export.
    pub fn written(&self) -> Vec<Value> {
        type Seen<'a> = Vec<(&'a Arc<InstanceType>, Vec<PoolName>)>;
        let mut by_order: BTreeMap<usize, Seen<'_>> = BTreeMap::new();
        for (pool, types) in &self.types {
            for (order, one) in types.iter().enumerate() {
                let seen = by_order.entry(order).or_default();
                match seen.iter_mut().find(|(known, _)| *known == one) {
                    Some((_, pools)) => pools.push(pool.clone()),
                    None => seen.push((one, vec![pool.clone()])),
                }
            }
        }
        let object = |order: usize, one: &InstanceType, pools: Vec<PoolName>| {
            let of = pools.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
            let name = format!("{}.{of}", one.name);
            json!({
                "apiVersion": API_VERSION, "kind": INSTANCE_TYPE, "metadata": {"name": name},
                "spec": write(one, order, pools),
            })
        };
        let all =
            by_order.into_iter().flat_map(|(order, seen)| seen.into_iter().map(move |one| (order, one)));
        all.map(|(order, (one, pools))| object(order, one, pools)).collect()
    }

    /// Reads instance types of an export.
    pub(crate) fn read<'a>(
        objects: impl IntoIterator<Item = &'a Value>,
        registry: &LabelRegistry,
    ) -> Result<BTreeMap<PoolName, List>, serde_json::Error> {
        let mut pools: BTreeMap<PoolName, BTreeMap<usize, Arc<InstanceType>>> = BTreeMap::new();
        for object in objects {
            let written = Written::deserialize(&object["spec"])?;
            let (of, order) = (written.pools.clone(), written.order);
            let read = Arc::new(read(written, registry));
            for pool in of {
                pools.entry(pool).or_default().insert(order, Arc::clone(&read));
            }
        }
        Ok(pools.into_iter().map(|(pool, types)| (pool, types.into_values().collect())).collect())
    }

    /// Returns the offerings of `pools`, by those of the pools of an export: they depend on the node class alone. For a class
    /// that no pool of the export had, they are not known.
    pub(crate) fn of_classes(mut self, exported: &[Pool], pools: &[Pool]) -> Self {
        let class = |pool: &Pool| pool.template.node_class.clone();
        let types =
            exported.iter().filter_map(|pool| Some((class(pool), self.types.get(&pool.name)?.clone())));
        let by_class: BTreeMap<NodeClassRef, List> = types.collect();
        for pool in pools {
            if exported.iter().any(|one| one.name == pool.name && class(one) == class(pool)) {
                continue;
            }
            if let Some(types) = by_class.get(&pool.template.node_class) {
                self.types.insert(pool.name.clone(), types.clone());
                continue;
            }
            self.types.remove(&pool.name);
            let mut alike = exported.iter().filter(|one| class(one) == class(pool));
            let known = alike.find_map(|one| self.problems.get(&one.name).cloned());
            let problem = known.unwrap_or_else(|| {
                let name = &pool.template.node_class.name;
                format!("no pool of the export has node class `{name}`; plan against the cluster")
            });
            self.problems.insert(pool.name.clone(), problem);
        }
        self
    }

    /// Returns the offerings, each as `change` makes it.
    #[must_use]
    pub(crate) fn with(mut self, change: impl Fn(&mut InstanceType)) -> Self {
        for types in self.types.values_mut() {
            let changed = types.iter().map(|one| {
                let mut one = InstanceType::clone(one);
                change(&mut one);
                Arc::new(one)
            });
            *types = changed.collect();
        }
        self
    }
}

fn write(one: &InstanceType, order: usize, pools: Vec<PoolName>) -> Written {
    Written {
        pools,
        order,
        name: one.name.to_string(),
        requirements: expressions(&one.requirements),
        capacity: one.capacity.clone(),
        kube_reserved: one.overhead.kube_reserved.clone(),
        system_reserved: one.overhead.system_reserved.clone(),
        eviction: one.overhead.eviction.clone(),
        price_overlaid: one.overlaid.price,
        capacity_overlaid: one.overlaid.capacity,
        offerings: one.offerings.iter().map(write_offering).collect(),
    }
}

fn write_offering(one: &Offering) -> WrittenOffering {
    WrittenOffering {
        zone: one.zone.clone(),
        capacity_type: one.capacity_type,
        price: one.price,
        estimated: one.estimated,
        available: one.available,
        requirements: expressions(&one.requirements),
        reservation: one
            .reservation
            .as_ref()
            .map(|reservation| (reservation.id.to_string(), reservation.count)),
        capacity_override: one.capacity_override.clone(),
        overhead_override: one.overhead_override.clone(),
    }
}

fn read(written: Written, registry: &LabelRegistry) -> InstanceType {
    InstanceType {
        name: written.name.as_str().into(),
        requirements: convert::requirements(registry, &written.requirements),
        capacity: written.capacity,
        overhead: Overhead {
            kube_reserved: written.kube_reserved,
            system_reserved: written.system_reserved,
            eviction: written.eviction,
        },
        offerings: written.offerings.into_iter().map(|one| read_offering(one, registry)).collect(),
        overlaid: Overlaid { price: written.price_overlaid, capacity: written.capacity_overlaid },
        devices: None,
    }
}

fn read_offering(written: WrittenOffering, registry: &LabelRegistry) -> Offering {
    Offering {
        zone: written.zone,
        capacity_type: written.capacity_type,
        requirements: convert::requirements(registry, &written.requirements),
        price: written.price,
        estimated: written.estimated,
        available: written.available,
        reservation: written
            .reservation
            .map(|(id, count)| Reservation { id: ReservationId::from(id.as_str()), count }),
        capacity_override: written.capacity_override,
        overhead_override: written.overhead_override,
    }
}

fn expressions(requirements: &Requirements) -> Vec<Requirement> {
    requirements.to_expressions().iter().map(Requirement::from).collect()
}
