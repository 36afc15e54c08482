//! Typed handles: a metric together with the number of its labels.

use std::time::Duration;

use super::area::{Descriptor, Kind};
use super::registry::Registry;
use super::summary::{SummaryBuilder, SummaryVec};

/// A count that only grows.
#[derive(Clone, Debug)]
pub struct Counter<const LABELS: usize>(prometheus::IntCounterVec);

impl<const LABELS: usize> Counter<LABELS> {
    pub(super) const KIND: Kind = Kind::Counter;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let family = prometheus::IntCounterVec::new(opts(row), row.labels).expect(WELL_FORMED);
        if LABELS == 0 {
            family.with_label_values::<&str>(&[]);
        }
        registry.register(row.labels, &family);
        Self(family)
    }

    /// Adds one.
    pub fn inc(&self, labels: [&str; LABELS]) {
        self.add(labels, 1);
    }

    /// Adds `count`; zero creates the series.
    pub fn add(&self, labels: [&str; LABELS], count: u64) {
        self.0.with_label_values(&labels).inc_by(count);
    }

    /// The current value; zero for a series that does not exist yet.
    pub fn value(&self, labels: [&str; LABELS]) -> u64 {
        self.0.with_label_values(&labels).get()
    }
}

/// A value that goes up and down.
#[derive(Clone, Debug)]
pub struct Gauge<const LABELS: usize>(prometheus::GaugeVec);

impl<const LABELS: usize> Gauge<LABELS> {
    pub(super) const KIND: Kind = Kind::Gauge;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let family = prometheus::GaugeVec::new(opts(row), row.labels).expect(WELL_FORMED);
        if LABELS == 0 {
            family.with_label_values::<&str>(&[]);
        }
        registry.register(row.labels, &family);
        Self(family)
    }

    /// Sets the value.
    pub fn set(&self, labels: [&str; LABELS], value: f64) {
        self.0.with_label_values(&labels).set(value);
    }

    /// Sets the value to a count. Counts above 2^53 lose precision, as every Prometheus sample does.
    #[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
    pub fn set_count(&self, labels: [&str; LABELS], count: usize) {
        self.set(labels, count as f64);
    }

    /// Adds one.
    pub fn inc(&self, labels: [&str; LABELS]) {
        self.0.with_label_values(&labels).inc();
    }

    /// Takes one away.
    pub fn dec(&self, labels: [&str; LABELS]) {
        self.0.with_label_values(&labels).dec();
    }

    /// Drops one series; a missing one is fine.
    pub fn remove(&self, labels: [&str; LABELS]) {
        // The only other error is a wrong number of labels, which the type rules out.
        let _absent = self.0.remove_label_values(&labels);
    }

    /// The current value; zero for a series that does not exist yet.
    pub fn value(&self, labels: [&str; LABELS]) -> f64 {
        self.0.with_label_values(&labels).get()
    }
}

/// Observations counted in fixed buckets.
#[derive(Clone, Debug)]
pub struct Histogram<const LABELS: usize>(prometheus::HistogramVec);

impl<const LABELS: usize> Histogram<LABELS> {
    pub(super) const KIND: Kind = Kind::Histogram;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let opts = prometheus::HistogramOpts::new(row.name, row.help).buckets(row.buckets.to_vec());
        let family = prometheus::HistogramVec::new(opts, row.labels).expect(WELL_FORMED);
        if LABELS == 0 {
            family.with_label_values::<&str>(&[]);
        }
        registry.register(row.labels, &family);
        Self(family)
    }

    /// Records a duration, in seconds.
    pub fn observe(&self, labels: [&str; LABELS], elapsed: Duration) {
        self.observe_value(labels, elapsed.as_secs_f64());
    }

    /// Records a value in the unit of the buckets.
    pub fn observe_value(&self, labels: [&str; LABELS], value: f64) {
        self.0.with_label_values(&labels).observe(value);
    }

    /// Records a count, in the unit of the buckets.
    #[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
    pub fn observe_count(&self, labels: [&str; LABELS], count: usize) {
        self.observe_value(labels, count as f64);
    }

    /// How many observations there were.
    pub fn count(&self, labels: [&str; LABELS]) -> u64 {
        self.0.with_label_values(&labels).get_sample_count()
    }
}

/// Observations reported as quantiles.
#[derive(Clone, Debug)]
pub struct Summary<const LABELS: usize>(SummaryVec);

impl<const LABELS: usize> Summary<LABELS> {
    pub(super) const KIND: Kind = Kind::Summary;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        let mut describer = opts(row);
        describer.variable_labels = row.labels.iter().map(ToString::to_string).collect();
        let family = SummaryVec::create(prometheus::proto::MetricType::SUMMARY, SummaryBuilder, describer)
            .expect(WELL_FORMED);
        if LABELS == 0 {
            family.with_label_values::<&str>(&[]);
        }
        registry.register(row.labels, &family);
        Self(family)
    }

    /// Records a duration, in seconds.
    pub fn observe(&self, labels: [&str; LABELS], elapsed: Duration) {
        self.0.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }

    /// How many observations there were.
    pub fn count(&self, labels: [&str; LABELS]) -> u64 {
        self.0.with_label_values(&labels).count()
    }
}

const WELL_FORMED: &str = "invariant: metric names, labels and help texts are literals checked by a test";

fn opts(row: &'static Descriptor) -> prometheus::Opts {
    prometheus::Opts::new(row.name, row.help)
}
