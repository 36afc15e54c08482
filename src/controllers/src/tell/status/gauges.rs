//! What is: every condition of every object and for how long it has been so, and since when objects are being deleted.
//!
//! An object that did not change costs one value per condition; nothing of an object outlives it.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_telemetry::metrics::{Family, StatusFamilies, Statuses, Watched};

use super::families;
use super::subject::Subject;
use crate::Context;
use crate::view::Conditioned;

/// The objects as they were published last, by [`Conditioned::key`].
#[derive(Default)]
pub(super) struct Gauges {
    objects: HashMap<String, (Conditioned, Subject)>,
}

impl Gauges {
    /// Publishes what changed since the last time, and every duration.
    pub(super) fn publish(&mut self, context: &Context, objects: Vec<Conditioned>) {
        let (families, now) = (families(context), context.now());
        let mut before = std::mem::take(&mut self.objects);
        for object in objects {
            let key = object.key();
            let subject = match before.remove(&key) {
                Some((known, subject)) if known.is(&object) => {
                    each(families, &subject, |families, _| update(families, &key, &subject, now));
                    subject
                }
                _ => {
                    let subject = Subject::of(context, &object);
                    each(families, &subject, |families, around| set(families, &key, &subject, around, now));
                    subject
                }
            };
            self.objects.insert(key, (object, subject));
        }
        if !before.is_empty() {
            let all = Watched::ALL.into_iter().map(|kind| families.of(kind)).chain([&families.deprecated]);
            all.for_each(|families| {
                for family in gauges(families) {
                    family.retain(|key| self.objects.contains_key(key));
                }
            });
        }
    }
}

/// Values of the labels before and after the families' own.
type Around<'a> = (&'a [String], Vec<String>);

/// The families in which an object is: that of its kind, and that of all kinds.
fn each(families: &Statuses, subject: &Subject, mut publish: impl FnMut(&StatusFamilies, Around<'_>)) {
    publish(families.of(subject.kind), (&subject.further, Vec::new()));
    if let Some(last) = subject.deprecated() {
        publish(&families.deprecated, (&[], last.map(ToOwned::to_owned).into()));
    }
}

fn set(families: &StatusFamilies, key: &str, subject: &Subject, (first, last): Around<'_>, now: Timestamp) {
    let name = [subject.about.namespace.clone().unwrap_or_default(), subject.about.name.clone()];
    let labels = |own: &[&String]| -> Vec<String> {
        first.iter().chain(&name).chain(own.iter().copied()).chain(&last).cloned().collect()
    };
    let conditions: Vec<(Vec<String>, f64)> = subject
        .conditions
        .iter()
        .map(|state| (labels(&[&state.kind, &state.status, &state.reason]), seconds(now, state.since)))
        .collect();
    families.count.set(key, conditions.iter().map(|(labels, _)| (labels.clone(), 1.0)));
    families.current_status_seconds.set(key, conditions);
    let ending = subject.deleted.map(|deleted| (labels(&[]), seconds(now, deleted)));
    families.termination_current_time_seconds.set(key, ending);
}

fn update(families: &StatusFamilies, key: &str, subject: &Subject, now: Timestamp) {
    let lasted = subject.conditions.iter().map(|state| seconds(now, state.since));
    families.current_status_seconds.update(key, lasted);
    let ending = subject.deleted.map(|deleted| seconds(now, deleted));
    families.termination_current_time_seconds.update(key, ending);
}

fn gauges(families: &StatusFamilies) -> [&Family; 3] {
    [&families.count, &families.current_status_seconds, &families.termination_current_time_seconds]
}

fn seconds(now: Timestamp, since: Timestamp) -> f64 {
    Duration::try_from(now.duration_since(since)).unwrap_or_default().as_secs_f64()
}
