//! Gauges of objects, with label names that are known only at start-up.
//!
//! A cluster has tens of series per Node, each with a score of labels: they are named when their object changes, never
//! again at every look.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::area::Descriptor;
use super::registry::Registry;

/// One family of gauges, each of which belongs to an object.
#[derive(Debug)]
pub struct Family {
    gauge: prometheus::GaugeVec,
    objects: Mutex<HashMap<String, Vec<Series>>>,
}

/// One series that is there, under these values of its labels.
#[derive(Debug)]
struct Series {
    labels: Vec<String>,
    gauge: prometheus::Gauge,
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
        Self::over(gauge)
    }

    /// Writes through gauges that are registered.
    pub(super) fn over(gauge: prometheus::GaugeVec) -> Self {
        Self { gauge, objects: Mutex::default() }
    }

    /// From now on `object` has exactly the series in `samples`: values of the further labels, then of the family's own,
    /// which no other object may have. There is no moment in which one that stays is missing.
    pub fn set(&self, object: &str, samples: impl IntoIterator<Item = (Vec<String>, f64)>) {
        let mut objects = self.lock();
        let series = |(labels, value): (Vec<String>, f64)| {
            let gauge = self.gauge.with_label_values(&labels);
            gauge.set(value);
            Series { labels, gauge }
        };
        let now: Vec<Series> = samples.into_iter().map(series).collect();
        let before =
            if now.is_empty() { objects.remove(object) } else { objects.insert(object.to_owned(), now) };
        let now = objects.get(object).map(Vec::as_slice).unwrap_or_default();
        let stays = |gone: &Series| now.iter().any(|series| series.labels == gone.labels);
        self.remove(before.into_iter().flatten().filter(|gone| !stays(gone)));
    }

    /// Gives the series of `object` new values, in the order in which they were set.
    pub fn update(&self, object: &str, values: impl IntoIterator<Item = f64>) {
        if let Some(series) = self.lock().get(object) {
            series.iter().zip(values).for_each(|(series, value)| series.gauge.set(value));
        }
    }

    /// Removes the series of all objects but those that `stays` names.
    pub fn retain(&self, stays: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.lock().extract_if(|object, _| !stays(object)).collect();
        self.remove(gone.into_iter().flat_map(|(_, series)| series));
    }

    fn remove(&self, gone: impl Iterator<Item = Series>) {
        for series in gone {
            // The only other error is a wrong number of labels, which would have shown when it was set.
            let _absent = self.gauge.remove_label_values(&series.labels);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Series>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
