//! Gauges that are published as a whole: thousands of series in which few texts repeat, as those about instance types.
//!
//! Samples share their texts, and are written when they are asked for. What is not in the set published last is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::area::{Descriptor, Kind};
use super::exposition::{Head, Page};
use super::registry::{Registry, Written};

/// Samples by their label values, in the order in which the labels are declared.
pub type Samples<const LABELS: usize> = BTreeMap<[Arc<str>; LABELS], f64>;

/// One family of gauges.
#[derive(Clone, Debug)]
pub struct GaugeTable<const LABELS: usize> {
    head: Head,
    samples: Arc<Mutex<Arc<Samples<LABELS>>>>,
}

impl<const LABELS: usize> GaugeTable<LABELS> {
    pub(super) const KIND: Kind = Kind::Gauge;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let family =
            Self { head: Head::new(row.name, row.help, row.labels.iter().copied()), samples: Arc::default() };
        registry.add_written(row.name, family.clone());
        family
    }

    /// Publishes exactly `samples`.
    pub fn publish(&self, samples: Samples<LABELS>) {
        *self.samples.lock() = Arc::new(samples);
    }

    /// What was published last.
    pub fn published(&self) -> Arc<Samples<LABELS>> {
        Arc::clone(&self.samples.lock())
    }
}

impl<const LABELS: usize> Written for GaugeTable<LABELS> {
    fn write(&self, page: &mut Page<'_>) {
        let mut lines = page.lines(&self.head);
        for (labels, value) in self.published().iter() {
            lines.gauge(&labels.each_ref().map(AsRef::as_ref), *value);
        }
    }
}
