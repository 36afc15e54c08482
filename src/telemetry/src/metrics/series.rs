//! Series that belong to an object and vanish with it.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Gauge;

/// The gauges published for each object, replaced as a whole. For families with few series: what there is one of per
/// pod or Node is [collected](super::Family) instead.
///
/// A label of an object may change; replacing the object's whole set leaves no series behind with the old
/// labels, and forgetting the object removes them all.
#[derive(Debug)]
pub struct Series<const LABELS: usize> {
    gauge: Gauge<LABELS>,
    objects: Mutex<HashMap<String, Vec<[String; LABELS]>>>,
}

impl<const LABELS: usize> Series<LABELS> {
    /// Series written through `gauge`.
    pub fn new(gauge: &Gauge<LABELS>) -> Self {
        Self { gauge: gauge.clone(), objects: Mutex::default() }
    }

    /// Publishes exactly `samples` for `object`, with labels that no other object has. There is no moment in which a
    /// series that stays is missing.
    pub fn replace(&self, object: &str, samples: impl IntoIterator<Item = ([String; LABELS], f64)>) {
        let mut objects = self.objects.lock();
        let set = |(labels, value): ([String; LABELS], f64)| {
            self.gauge.set(labels.each_ref().map(String::as_str), value);
            labels
        };
        let now: Vec<_> = samples.into_iter().map(set).collect();
        let before =
            if now.is_empty() { objects.remove(object) } else { objects.insert(object.to_owned(), now) };
        let now = objects.get(object).map(Vec::as_slice).unwrap_or_default();
        self.remove(before.into_iter().flatten().filter(|gone| !now.contains(gone)));
    }

    /// Removes every series of `object`.
    pub fn forget(&self, object: &str) {
        self.replace(object, []);
    }

    /// Forgets every object that `keep` refuses.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.objects.lock().extract_if(|object, _| !keep(object)).collect();
        self.remove(gone.into_iter().flat_map(|(_, series)| series));
    }

    fn remove(&self, gone: impl Iterator<Item = [String; LABELS]>) {
        gone.for_each(|labels| self.gauge.remove(labels.each_ref().map(String::as_str)));
    }
}
