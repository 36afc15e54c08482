//! Gauges of what can be bought (spec aws-provider 15, 16): availability joined by "or" over all pools, and where
//! prices come from.

use std::collections::BTreeMap;

use karpenter_aws::node_class::Lookup;
use karpenter_aws::prices::Tally;
use karpenter_model::{CapacityType, Price, resources};

use crate::AwsContext;

/// Publishes the present state. `NodeClasses` whose types are not known yet are left out.
pub fn publish(context: &AwsContext) {
    let mut offerings: BTreeMap<(String, &'static str, String), (bool, Option<Price>)> = BTreeMap::new();
    let gauges = &context.common.metrics.cloud;
    for pool in context.common.view.pools() {
        let Lookup::Found(class) = context.aws.classes.get(&pool.model.template.node_class.name) else {
            continue;
        };
        let Ok(types) = context.aws.types.list(&class) else { continue };
        for one in types.iter() {
            let name = one.name.as_str();
            gauges.instance_type_cpu_cores.set_count([name], count(one.capacity.amount(resources::CPU)));
            gauges
                .instance_type_memory_bytes
                .set_count([name], count(one.capacity.amount(resources::MEMORY)));
            for offering in &one.offerings {
                let key = (name.to_owned(), offering.capacity_type.as_str(), offering.zone.to_string());
                let entry = offerings.entry(key).or_insert((false, None));
                entry.0 |= offering.available;
                entry.1 = entry.1.or(Some(offering.price));
                if context.aws.settings.reserved_capacity {
                    // A zone without a reservation says so instead of saying nothing.
                    let reserved = CapacityType::Reserved.as_str();
                    let key = (name.to_owned(), reserved, offering.zone.to_string());
                    offerings.entry(key).or_insert((false, None));
                }
            }
        }
    }
    for ((name, capacity_type, zone), (available, price)) in &offerings {
        let labels = [name.as_str(), *capacity_type, zone.as_str()];
        gauges.instance_type_offering_available.set_count(labels, usize::from(*available));
        if let Some(price) = price {
            gauges.instance_type_offering_price_estimate.set(labels, dollars(*price));
        }
    }
    for Tally { capacity_type, source, types, read } in context.aws.prices.tally() {
        let labels = [capacity_type.as_str(), source.as_str()];
        gauges.instance_types_priced.set_count(labels, types);
        if let Some(read) = read {
            gauges.price_age_seconds.set(labels, context.aws.now().duration_since(read).as_secs_f64());
        }
    }
}

fn count(quantity: karpenter_model::Quantity) -> usize {
    usize::try_from(quantity.as_units_ceil()).unwrap_or_default()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floats; prices are compared as integers elsewhere"
)]
fn dollars(price: Price) -> f64 {
    price.nanos() as f64 / 1e9
}
