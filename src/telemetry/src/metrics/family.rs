//! Gauges whose label names are known only at start-up, published as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::area::Descriptor;
use super::registry::Registry;

/// One family of gauges. What is not in a published set is gone, with no moment in which anything is missing.
#[derive(Debug)]
pub struct Family {
    gauge: prometheus::GaugeVec,
    published: Mutex<BTreeSet<Vec<String>>>,
}

impl Family {
    /// Registers `row` with `further` labels in front of its own.
    pub(super) fn register<'a>(
        registry: &Registry,
        row: &Descriptor,
        further: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let labels: Vec<&str> = further.into_iter().chain(row.labels.iter().copied()).collect();
        let gauge = prometheus::GaugeVec::new(prometheus::Opts::new(row.name, row.help), &labels)
            .expect("invariant: further labels are distinct and valid names");
        registry.register(&labels, &gauge);
        Self { gauge, published: Mutex::default() }
    }

    /// Publishes exactly `samples`: the values of the further labels, then of the family's own.
    pub fn publish(&self, samples: BTreeMap<Vec<String>, f64>) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, value) in &samples {
            self.gauge.with_label_values(labels).set(*value);
        }
        for gone in published.iter().filter(|labels| !samples.contains_key(*labels)) {
            // The only other error is a wrong number of labels, which would have shown when it was set.
            let _absent = self.gauge.remove_label_values(gone);
        }
        *published = samples.into_keys().collect();
    }
}
