//! Series that belong to an object and vanish with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::Gauge;

/// The gauges published for each object, replaced as a whole.
///
/// A label of a pod or node may change; replacing the object's whole set leaves no series behind with the old
/// labels, and forgetting the object removes them all.
#[derive(Debug)]
pub struct Series<const LABELS: usize> {
    gauge: Gauge<LABELS>,
    published: Mutex<BTreeMap<String, BTreeSet<[String; LABELS]>>>,
}

impl<const LABELS: usize> Series<LABELS> {
    /// Series written through `gauge`.
    pub fn new(gauge: Gauge<LABELS>) -> Self {
        Self { gauge, published: Mutex::default() }
    }

    /// Publishes exactly `samples` for `object`.
    pub fn replace(&self, object: &str, samples: impl IntoIterator<Item = ([String; LABELS], f64)>) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = BTreeSet::new();
        for (labels, value) in samples {
            self.gauge.set(borrow(&labels), value);
            current.insert(labels);
        }
        let previous = published.insert(object.to_owned(), current);
        let current = &published[object];
        for labels in previous.iter().flatten().filter(|labels| !current.contains(*labels)) {
            self.gauge.remove(borrow(labels));
        }
    }

    /// Removes every series of `object`.
    pub fn forget(&self, object: &str) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        for labels in published.remove(object).iter().flatten() {
            self.gauge.remove(borrow(labels));
        }
    }

    /// Forgets every object that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.retain(|object, series| {
            let kept = keep(object);
            if !kept {
                for labels in series.iter() {
                    self.gauge.remove(borrow(labels));
                }
            }
            kept
        });
    }
}

fn borrow<const LABELS: usize>(labels: &[String; LABELS]) -> [&str; LABELS] {
    std::array::from_fn(|index| labels[index].as_str())
}
