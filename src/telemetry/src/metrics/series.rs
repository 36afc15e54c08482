//! Series that belong to an object and vanish with it, of gauges whose labels are known when this is compiled.

use super::Gauge;
use super::family::Family;

/// The gauges published for each object, replaced as a whole.
///
/// A label of a pod or node may change; replacing the object's whole set leaves no series behind with the old
/// labels, and forgetting the object removes them all.
#[derive(Debug)]
pub struct Series<const LABELS: usize>(Family);

impl<const LABELS: usize> Series<LABELS> {
    /// Series written through `gauge`.
    pub fn new(gauge: &Gauge<LABELS>) -> Self {
        Self(gauge.family())
    }

    /// Publishes exactly `samples` for `object`.
    pub fn replace(&self, object: &str, samples: impl IntoIterator<Item = ([String; LABELS], f64)>) {
        self.0.set(object, samples.into_iter().map(|(labels, value)| (labels.into(), value)));
    }

    /// Removes every series of `object`.
    pub fn forget(&self, object: &str) {
        self.0.set(object, []);
    }

    /// Forgets every object that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.0.retain(keep);
    }
}
