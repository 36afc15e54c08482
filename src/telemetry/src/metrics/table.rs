//! Gauges that are published as a whole: thousands of series in which few texts repeat, as those about instance types.
//!
//! A series of the metrics library keeps its own copy of every text about it, about a kilobyte. Here samples share
//! their texts, and become series during a scrape. What is not in the set published last is gone.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use super::area::{Descriptor, Kind};
use super::registry::Registry;

/// Samples by their label values, in the order in which the labels are declared.
pub type Samples<const LABELS: usize> = BTreeMap<[Arc<str>; LABELS], f64>;

/// One family of gauges.
#[derive(Clone, Debug)]
pub struct GaugeTable<const LABELS: usize> {
    row: &'static Descriptor,
    description: Desc,
    samples: Arc<Mutex<Arc<Samples<LABELS>>>>,
}

impl<const LABELS: usize> GaugeTable<LABELS> {
    pub(super) const KIND: Kind = Kind::Gauge;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let labels = row.labels.iter().map(ToString::to_string).collect();
        let description = Desc::new(row.name.to_owned(), row.help.to_owned(), labels, HashMap::new());
        let description = description.expect("invariant: names and labels are literals checked by a test");
        let family = Self { row, description, samples: Arc::default() };
        registry.add(family.clone());
        family
    }

    /// Publishes exactly `samples`.
    pub fn publish(&self, samples: Samples<LABELS>) {
        *self.samples.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(samples);
    }

    /// What was published last.
    pub fn published(&self) -> Arc<Samples<LABELS>> {
        Arc::clone(&self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<const LABELS: usize> Collector for GaugeTable<LABELS> {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.description]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        // The format wants labels by name.
        let mut order: Vec<(&'static str, usize)> = self.row.labels.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let series = |(labels, value): (&[Arc<str>; LABELS], &f64)| {
            let pairs = order.iter().map(|(name, place)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value(labels[*place].to_string());
                pair
            });
            let mut metric = proto::Metric::from_label(pairs.collect());
            let mut gauge = proto::Gauge::default();
            gauge.set_value(*value);
            metric.set_gauge(gauge);
            metric
        };
        let mut family = proto::MetricFamily::default();
        family.set_name(self.row.name.to_owned());
        family.set_help(self.row.help.to_owned());
        family.set_field_type(proto::MetricType::GAUGE);
        family.set_metric(self.published().iter().map(series).collect());
        vec![family]
    }
}
