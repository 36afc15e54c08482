//! Gauges that are read off what is known when they are asked for.
//!
//! A cluster has one series per pod and tens per Node, each with a score of labels. Kept as series they would be several
//! times what is known of the cluster itself, so nothing is kept: the owner of the objects writes the lines.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::area::{Descriptor, Kind};
use super::exposition::{Head, Lines, Page};
use super::registry::{Registry, Written};

/// Writes the series of a family. Writing may wait for the reader, so no lock is held meanwhile.
type Source = Arc<dyn Fn(&mut Lines<'_, '_>) + Send + Sync>;

/// One family of gauges, with label names that are known only at start-up.
#[derive(Clone)]
pub struct Family(Arc<Inner>);

struct Inner {
    head: Head,
    source: Mutex<Option<Source>>,
}

impl Family {
    /// Registers `row` with `further` labels in front of its own.
    pub(super) fn register<'a>(
        registry: &Registry,
        row: &Descriptor,
        further: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let labels = further.into_iter().chain(row.labels.iter().copied());
        let head = Head::new(row.name, row.help, labels);
        let family = Self(Arc::new(Inner { head, source: Mutex::default() }));
        registry.add_written(family.0.head.name(), family.clone());
        family
    }

    /// Has `source` write the series from now on, for as long as what is returned is held. A family has one source: the
    /// last one.
    pub fn collect(&self, source: impl Fn(&mut Lines<'_, '_>) + Send + Sync + 'static) -> Collecting {
        let source: Source = Arc::new(source);
        *self.0.source.lock() = Some(Arc::clone(&source));
        Collecting { family: self.clone(), source }
    }
}

impl Written for Family {
    fn write(&self, page: &mut Page<'_>) {
        let source = self.0.source.lock().clone();
        if let Some(source) = source {
            source(&mut page.lines(&self.0.head));
        }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.0.head.name()).finish()
    }
}

/// Keeps a family with its source; without it the family has no series.
#[must_use = "a family has series for as long as this is held"]
pub struct Collecting {
    family: Family,
    source: Source,
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let mut source = self.family.0.source.lock();
        if source.as_ref().is_some_and(|now| Arc::ptr_eq(now, &self.source)) {
            *source = None;
        }
    }
}

impl fmt::Debug for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collecting").field(&self.family).finish()
    }
}

/// One family of gauges whose labels are known when this is compiled.
#[derive(Clone, Debug)]
pub struct Collected<const LABELS: usize>(Family);

impl<const LABELS: usize> Collected<LABELS> {
    pub(super) const KIND: Kind = Kind::Gauge;

    pub(super) fn register(row: &'static Descriptor, registry: &Registry) -> Self {
        Self(Family::register(registry, row, []))
    }

    /// Adds a source: it passes each series, with labels and value, to its argument; see [`Family::collect`].
    pub fn collect(
        &self,
        source: impl Fn(&mut dyn FnMut([&str; LABELS], f64)) + Send + Sync + 'static,
    ) -> Collecting {
        self.0.collect(move |lines| source(&mut |labels, value| lines.gauge(&labels, value)))
    }
}
