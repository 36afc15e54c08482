//! Allocatable, overrides and prices.

use super::*;
use crate::names::label;
use crate::requirement::{Expression, Operator};

fn resources(entries: &[(&str, &str)]) -> Resources {
    entries.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())).collect()
}

fn offering(zone: &str, capacity_type: CapacityType, price: &str, available: bool) -> Offering {
    Offering { available, ..Offering::new(zone, capacity_type, price.parse().unwrap()) }
}

fn instance_type(offerings: Vec<Offering>) -> InstanceType {
    InstanceType {
        capacity: resources(&[("cpu", "2"), ("memory", "8Gi"), ("pods", "10")]),
        overhead: Overhead {
            kube_reserved: resources(&[("cpu", "70m"), ("memory", "500Mi")]),
            system_reserved: resources(&[("cpu", "30m")]),
            eviction: resources(&[("memory", "100Mi")]),
        },
        ..InstanceType::bare("m5.large", offerings)
    }
}

fn only(key: &str, value: &str) -> Requirements {
    Requirements::from_expressions(&LabelRegistry::core(), &[Expression::new(key, Operator::In, &[value])])
}

#[test]
fn allocatable_is_capacity_minus_all_overhead() {
    let allocatable = instance_type(vec![]).allocatable();
    assert_eq!(allocatable, resources(&[("cpu", "1900m"), ("memory", "7592Mi"), ("pods", "10")]));
}

#[test]
fn huge_pages_come_out_of_memory_down_to_zero() {
    let mut instance = instance_type(vec![]);
    instance.capacity.set("hugepages-2Mi", "1Gi".parse().unwrap());
    assert_eq!(instance.allocatable().amount("memory"), "6568Mi".parse().unwrap());
    instance.capacity.set("hugepages-1Gi", "16Gi".parse().unwrap());
    assert_eq!(instance.allocatable().amount("memory"), Quantity::ZERO);
}

#[test]
fn overrides_of_an_offering_replace_entries() {
    let instance = instance_type(vec![]);
    let special = Offering {
        capacity_override: resources(&[("memory", "4Gi"), ("example.com/link", "1")]),
        overhead_override: resources(&[("cpu", "1")]),
        ..offering("a", CapacityType::OnDemand, "1", true)
    };
    let expected =
        resources(&[("cpu", "1"), ("memory", "3496Mi"), ("pods", "10"), ("example.com/link", "1")]);
    assert_eq!(instance.allocatable_through(&special), expected);
}

#[test]
fn prices_look_at_available_compatible_offerings_only() {
    use CapacityType::{OnDemand, Spot};
    let registry = LabelRegistry::core();
    let instance = instance_type(vec![
        offering("a", Spot, "0.03", true),
        offering("b", Spot, "0.04", true),
        offering("a", OnDemand, "0.10", true),
        offering("b", OnDemand, "0.09", false),
    ]);
    let cents = |text: &str| Some(text.parse::<Price>().unwrap());
    let table = [
        (Requirements::new(), cents("0.03"), cents("0.04")),
        (only(label::ZONE, "a"), cents("0.03"), cents("0.03")),
        (only(label::CAPACITY_TYPE, "on-demand"), cents("0.10"), cents("0.10")),
        (only(label::ZONE, "c"), None, None),
    ];
    for (requirements, cheapest, worst) in table {
        assert_eq!(instance.cheapest(&requirements, &registry), cheapest, "{requirements}");
        assert_eq!(instance.worst_launch_price(&requirements, &registry), worst, "{requirements}");
    }
}
