//! Instance types of a pool as a table: what pods may use of each, what the node keeps, and what it costs.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::{
    CapacityType, InstanceType, LabelRegistry, Price, Quantity, Requirements, Resources, resources,
};

use crate::money::known;

/// Names of the columns.
const HEADER: [&str; 8] =
    ["INSTANCE TYPE", "CPU", "MEMORY", "PODS", "RESERVED", "SPOT", "ON-DEMAND", "ZONES"];

/// Returns the types among `types` that have an offering for `requirements`, by the price of the cheapest and by name.
pub fn offered(
    types: &[Arc<InstanceType>],
    requirements: &Requirements,
    registry: &LabelRegistry,
) -> Vec<Arc<InstanceType>> {
    let allowed = types.iter().filter(|one| one.requirements.intersects(requirements).is_ok());
    let mut priced: Vec<_> =
        allowed.filter_map(|one| Some((one.cheapest(requirements, registry)?, &one.name, one))).collect();
    priced.sort_unstable_by_key(|(price, name, _)| (*price, *name));
    priced.into_iter().map(|(_, _, one)| Arc::clone(one)).collect()
}

/// The table of `types`, with the offerings for `requirements`: prices per hour, the least of all zones, and `-` where there is
/// no such offering. A line below it names the types that keep more than they have.
pub fn offered_text(
    types: &[Arc<InstanceType>],
    requirements: &Requirements,
    registry: &LabelRegistry,
) -> String {
    let rows = types.iter().map(|one| row(one, requirements, registry));
    let rows: Vec<[String; 8]> = std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..HEADER.len()).map(width).collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let table: String = rows.iter().map(line).collect();
    let full: Vec<&str> = types.iter().filter(|one| is_full(one)).map(|one| one.name.as_str()).collect();
    if full.is_empty() {
        return table;
    }
    table + &format!("A node keeps more than it has, so no pod is planned on it: {}\n", full.join(", "))
}

/// Returns whether a node of the type keeps more than it has of something: its kubelet reports that as zero.
fn is_full(one: &InstanceType) -> bool {
    one.allocatable().iter().any(|(_, room)| *room < Quantity::ZERO)
}

fn row(one: &InstanceType, requirements: &Requirements, registry: &LabelRegistry) -> [String; 8] {
    let amount = |of: &Resources, name| of.amount(name).max(Quantity::ZERO).to_string();
    let room = one.allocatable();
    let kept = one.overhead.total();
    let offerings: Vec<_> = one.compatible_offerings(requirements, registry).collect();
    let least = |capacity_type| -> Option<Price> {
        let sold = offerings.iter().filter(|offering| offering.capacity_type == capacity_type);
        sold.map(|offering| offering.price).min()
    };
    let zones: BTreeSet<&str> = offerings.iter().map(|offering| offering.zone.as_str()).collect();
    [
        one.name.to_string(),
        amount(&room, resources::CPU),
        amount(&room, resources::MEMORY),
        amount(&room, resources::PODS),
        format!("{} {}", amount(&kept, resources::CPU), amount(&kept, resources::MEMORY)),
        known(least(CapacityType::Spot)),
        known(least(CapacityType::OnDemand)),
        zones.into_iter().collect::<Vec<_>>().join(","),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::offerings;

    #[test]
    fn a_type_that_keeps_more_than_it_has_shows_none_and_is_named() {
        let mut types: Vec<_> = offerings(&["a"]).types.into_values().next().unwrap().to_vec();
        let registry = LabelRegistry::default();
        assert!(!offered_text(&types, &Requirements::new(), &registry).contains("keeps more"));
        let reserved = Resources::new().with("memory", Quantity::from_bytes(9 << 30));
        Arc::make_mut(&mut types[0]).overhead.kube_reserved = reserved;
        let text = offered_text(&types, &Requirements::new(), &registry);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["small", "2", "0", "20"], "{text}");
        let last = "\nA node keeps more than it has, so no pod is planned on it: small\n";
        assert!(text.ends_with(last), "{text}");
    }
}
