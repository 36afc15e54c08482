//! A small catalogue for tests.

use std::sync::Arc;

use karpenter_model::instance_type::Offering;
use karpenter_model::names::label;
use karpenter_model::{CapacityType, InstanceType, Price, Quantity, Requirement, Requirements, Resources};

use crate::offerings::Offerings;

fn one_of(key: &str, value: &str) -> Requirement {
    Requirement::one_of(key.into(), [value.into()])
}

/// Types of amd64 with 2 and 4 CPUs in zone-a, spot and on-demand.
pub(crate) fn offerings(pools: &[&str]) -> Offerings {
    let build = |name: &str, cpus: i64| {
        let mut requirements = Requirements::new();
        for (key, value) in [(label::ARCH, "amd64"), (label::OS, "linux"), (label::INSTANCE_TYPE, name)] {
            requirements.add(one_of(key, value));
        }
        let kinds = [CapacityType::Spot, CapacityType::OnDemand];
        let mut sold = requirements.clone();
        sold.add(one_of(label::ZONE, "zone-a"));
        sold.add(Requirement::one_of(label::CAPACITY_TYPE.into(), kinds.map(|kind| kind.as_str().into())));
        let offering = |kind: CapacityType| {
            let cents = if kind == CapacityType::Spot { 3 * cpus } else { 10 * cpus };
            Offering::new("zone-a", kind, Price::from_nanos(cents * 10_000_000))
        };
        Arc::new(InstanceType {
            requirements: sold,
            capacity: Resources::new()
                .with("cpu", Quantity::from_units(cpus))
                .with("memory", Quantity::from_bytes(cpus << 32))
                .with("pods", Quantity::from_units(20)),
            ..InstanceType::bare(name, kinds.map(offering).to_vec())
        })
    };
    let types: Arc<[Arc<InstanceType>]> = Arc::new([build("small", 2), build("large", 4)]);
    let types = pools.iter().map(|pool| ((*pool).into(), Arc::clone(&types))).collect();
    Offerings { types, ..Offerings::default() }
}
