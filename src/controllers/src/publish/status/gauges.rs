//! Present state: every condition of every object and for how long it has been so, and since when objects are being deleted.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_telemetry::metrics::{Collecting, Family, Lines, StatusFamilies, Watched};

use super::subject::{State, Subject};
use super::{Classes, families, objects};
use crate::Context;
use crate::publish::seconds;

/// Publishes for as long as what is returned is held.
pub(crate) fn collect(context: &Context, classes: &Classes) -> Vec<Collecting> {
    let families = families(context);
    let source = |kinds: &[Watched], around: Around| {
        Arc::new(Source { context: context.clone(), classes: classes.clone(), kinds: kinds.into(), around })
    };
    let of_kind = |kind: Watched| of(families.of(kind), &source(&[kind], Around::OfKind));
    let mut all: Vec<Collecting> = Watched::ALL.into_iter().flat_map(of_kind).collect();
    // The deprecated families have no series for Nodes.
    let others: Vec<Watched> = Watched::ALL.into_iter().filter(|kind| *kind != Watched::Node).collect();
    all.extend(of(&families.deprecated, &source(&others, Around::OfAllKinds)));
    all
}

fn of(families: &StatusFamilies, source: &Arc<Source>) -> [Collecting; 3] {
    let with = |family: &Family, write: fn(&Source, &mut Lines<'_, '_>)| {
        let source = Arc::clone(source);
        family.collect(move |lines| write(&source, lines))
    };
    [
        with(&families.count, |source, lines| source.conditions(lines, |_, _| 1.0)),
        with(&families.current_status_seconds, |source, lines| {
            source.conditions(lines, |now, state| seconds(state.since, now));
        }),
        with(&families.termination_current_time_seconds, Source::endings),
    ]
}

/// Source of the lines of some families.
struct Source {
    context: Context,
    classes: Classes,
    kinds: Vec<Watched>,
    around: Around,
}

/// Labels around a family's own.
#[derive(Clone, Copy)]
enum Around {
    /// Labels of the object that its kind's series carry come in front.
    OfKind,
    /// Behind its group and kind.
    OfAllKinds,
}

impl Source {
    /// A line for each condition of each object.
    fn conditions(&self, lines: &mut Lines<'_, '_>, value: fn(Timestamp, &State) -> f64) {
        let now = self.context.now();
        for subject in self.subjects() {
            for state in &subject.conditions {
                let own = [state.kind.as_str(), state.status.as_str(), state.reason.as_str()];
                if let Some(labels) = self.labels(&subject, &own) {
                    lines.gauge(&labels, value(now, state));
                }
            }
        }
    }

    /// A line for each object that is being deleted.
    fn endings(&self, lines: &mut Lines<'_, '_>) {
        let now = self.context.now();
        for subject in self.subjects() {
            if let (Some(deleted), Some(labels)) = (subject.deleted, self.labels(&subject, &[])) {
                lines.gauge(&labels, seconds(deleted, now));
            }
        }
    }

    fn subjects(&self) -> impl Iterator<Item = Subject> {
        let objects = self.kinds.iter().flat_map(|kind| objects(&self.context, &self.classes, *kind));
        objects.map(|object| Subject::of(&self.context, &object))
    }

    fn labels<'a>(&self, subject: &'a Subject, own: &[&'a str]) -> Option<Vec<&'a str>> {
        let name = [subject.about.namespace.as_deref().unwrap_or_default(), subject.about.name.as_str()];
        let own = name.iter().chain(own).copied();
        Some(match self.around {
            Around::OfKind => subject.further.iter().map(String::as_str).chain(own).collect(),
            Around::OfAllKinds => own.chain(subject.deprecated()?).collect(),
        })
    }
}
