//! Gauges of what can be bought (spec aws-provider 15, 16): availability joined by "or" over all pools, and where
//! prices come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_aws::catalogue::instance_types::List;
use karpenter_aws::class::store::Lookup;
use karpenter_aws::market::prices::Tally;
use karpenter_model::resources;
use karpenter_model::{CapacityType, InstanceTypeName, Offering, Price, Zone};
use karpenter_telemetry::metrics::Samples;

use crate::AwsContext;

/// Publishes the present state. `NodeClasses` whose types are not known yet are left out, and so is what no pool sees.
pub fn publish(context: &AwsContext) {
    let mut seen: Vec<List> = Vec::new();
    let mut all = Seen { reserved_capacity: context.aws.settings.reserved_capacity, ..Seen::default() };
    for pool in context.common.view.pools() {
        let Lookup::Found(class) = context.aws.classes.get(&pool.model.template.node_class.name) else {
            continue;
        };
        let Ok(types) = context.aws.types.list(&class) else { continue };
        // Most pools see the same types.
        if !seen.iter().any(|known| Arc::ptr_eq(known, &types)) {
            all.add(&types);
            seen.push(types);
        }
    }
    let gauges = &context.common.metrics.cloud;
    gauges.instance_type_cpu_cores.publish(all.cores);
    gauges.instance_type_memory_bytes.publish(all.memory);
    let ways = CapacityType::ALL.map(|way| (way, Arc::<str>::from(way.as_str())));
    let labels = |(name, way, zone): &Key| -> [Arc<str>; 3] {
        let way = ways.iter().find(|(known, _)| known == way).map(|(_, text)| Arc::clone(text));
        [name.clone().into(), way.unwrap_or_default(), zone.clone().into()]
    };
    let available = all.offerings.iter().map(|(key, (available, _))| (labels(key), f64::from(*available)));
    gauges.instance_type_offering_available.publish(available.collect());
    let priced = all.offerings.iter().filter_map(|(key, (_, price))| Some((labels(key), dollars((*price)?))));
    gauges.instance_type_offering_price_estimate.publish(priced.collect());
    for Tally { capacity_type, source, types, read } in context.aws.prices.tally() {
        let labels = [capacity_type.as_str(), source.as_str()];
        gauges.instance_types_priced.set_count(labels, types);
        if let Some(read) = read {
            gauges.price_age_seconds.set(labels, context.aws.now().duration_since(read).as_secs_f64());
        }
    }
}

type Key = (InstanceTypeName, CapacityType, Zone);

/// Instance types and offerings of all pools.
#[derive(Default)]
struct Seen {
    reserved_capacity: bool,
    cores: Samples<1>,
    memory: Samples<1>,
    /// Availability and price of each offering.
    offerings: BTreeMap<Key, (bool, Option<Price>)>,
}

impl Seen {
    fn add(&mut self, types: &List) {
        for one in types.iter() {
            let name: Arc<str> = one.name.clone().into();
            self.cores.insert([Arc::clone(&name)], count(one.capacity.amount(resources::CPU)));
            self.memory.insert([name], count(one.capacity.amount(resources::MEMORY)));
            for offering in &one.offerings {
                self.add_offering(&one.name, offering);
            }
        }
    }

    fn add_offering(&mut self, name: &InstanceTypeName, offering: &Offering) {
        let key = |way| (name.clone(), way, offering.zone.clone());
        let known = self.offerings.entry(key(offering.capacity_type)).or_default();
        known.0 |= offering.available;
        known.1 = known.1.or(Some(offering.price));
        if self.reserved_capacity {
            // A zone without a reservation is unavailable instead of absent.
            self.offerings.entry(key(CapacityType::Reserved)).or_default();
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
fn count(quantity: karpenter_model::Quantity) -> f64 {
    quantity.as_units_ceil() as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floats; prices are compared as integers elsewhere"
)]
fn dollars(price: Price) -> f64 {
    price.nanos() as f64 / 1e9
}
