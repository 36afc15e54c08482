//! Publishes changes of status conditions, and deletions: events for people, metrics for dashboards
//! (spec disruption 6 and 7).
//!
//! Changes are published as the watches bring them; the gauges of what is are read off the view when they are asked for.

mod gauges;
mod subject;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use karpenter_kube_harness::watch::Seen;
use karpenter_model::clock::since;
use karpenter_telemetry::events::{Event, Reason, reason};
use karpenter_telemetry::metrics::{Statuses, Watched};
use kube::ResourceExt;
use kube::api::DynamicObject;
use parking_lot::Mutex;

use crate::Context;
use crate::view::{Conditioned, StatusSeen};
pub(crate) use gauges::collect;
use subject::{State, Subject};

type ByKindAndName = BTreeMap<(String, String), Arc<DynamicObject>>;

/// The node classes as last seen: the view keeps only what decisions read.
#[derive(Clone, Default)]
pub(crate) struct Classes {
    objects: Arc<Mutex<ByKindAndName>>,
    /// Set when changes are published: only by the replica that leads.
    publishing: Arc<AtomicBool>,
}

impl Classes {
    /// Publishes changes from now on.
    pub(crate) fn publish_changes(&self) {
        self.publishing.store(true, Ordering::Relaxed);
    }

    fn publish(&self, context: &Context, seen: &StatusSeen) {
        if self.publishing.load(Ordering::Relaxed) {
            publish(context, seen);
        }
    }

    /// Records an event of the watch of one kind of node class.
    pub(crate) fn note(&self, context: &Context, kind: &str, seen: &Seen<DynamicObject>) {
        match seen {
            Seen::Listing => {}
            Seen::Listed(object) | Seen::Applied(object) => {
                let new = Arc::new(object.clone());
                let before =
                    self.objects.lock().insert((kind.to_owned(), object.name_any()), Arc::clone(&new));
                // On first sight nothing has changed: the conditions are older than this process.
                if let Some(before) = before {
                    let (old, new) = (Conditioned::Class(before), Conditioned::Class(new));
                    self.publish(context, &StatusSeen::Changed { old, new });
                }
            }
            Seen::Deleted(object) => {
                self.objects.lock().remove(&(kind.to_owned(), object.name_any()));
                self.publish(context, &StatusSeen::Gone(Conditioned::Class(Arc::new(object.clone()))));
            }
            Seen::Complete(keys) => {
                let listed = |name: &str| keys.contains(&(String::new(), name.to_owned()));
                self.objects.lock().retain(|(known, name), _| known != kind || listed(name));
            }
        }
    }
}

/// Publishes what follows from a change.
pub(crate) fn publish(context: &Context, seen: &StatusSeen) {
    match seen {
        StatusSeen::Changed { old, new } => {
            let (old, new) = (Subject::of(context, old), Subject::of(context, new));
            for (before, after) in changed(&old.conditions, &new.conditions) {
                transition(context, &new, before, after);
            }
            let removed = old.finalizers.iter().filter(|name| !new.finalizers.contains(name));
            removed.for_each(|name| finalized(context, &new, name));
        }
        StatusSeen::Gone(object) => gone(context, &Subject::of(context, object)),
    }
}

fn transition(context: &Context, subject: &Subject, before: Option<&State>, after: &State) {
    let was = before.map_or("Unknown", |before| before.status.as_str());
    let began = before.map_or(subject.created, |before| before.since);
    let lasted = since(began, after.since);
    let change = (after.kind.as_str(), was, after.status.as_str(), after.reason.as_str());
    let families = families(context);
    families.of(subject.kind).transition(&subject.further(), change, &[], lasted);
    if let Some(last) = subject.deprecated() {
        families.deprecated.transition(&[], change, &last, lasted);
    }
    // The controller that writes the conditions of node classes publishes their events.
    if let Some(kind) = subject::interned(&after.kind).filter(|_| subject.kind != Watched::NodeClass) {
        let event = Event::new(subject.about.clone(), Reason::condition(kind), text(kind, was, after));
        context.recorder.publish(event);
    }
}

fn gone(context: &Context, subject: &Subject) {
    let Some(deleted) = subject.deleted else { return };
    let after = since(deleted, context.now());
    let families = families(context);
    families.of(subject.kind).gone(&subject.further(), after);
    if let Some(last) = subject.deprecated() {
        families.deprecated.gone(&last, after);
    }
    // An object goes with its last finalizer, so no state without that one was seen.
    subject.finalizers.iter().for_each(|name| finalized(context, subject, name));
}

fn finalized(context: &Context, subject: &Subject, finalizer: &str) {
    let event = Event::new(subject.about.clone(), reason::FINALIZED, format!("Finalized {finalizer}"));
    context.recorder.publish(event);
}

/// Every object of a kind.
fn objects(context: &Context, classes: &Classes, kind: Watched) -> Vec<Conditioned> {
    let view = &context.view;
    match kind {
        Watched::NodeClaim => {
            view.claims().into_iter().map(|known| Conditioned::Claim(known.object)).collect()
        }
        Watched::NodePool => view.pools().into_iter().map(|known| Conditioned::Pool(known.object)).collect(),
        Watched::Node => view.nodes().into_iter().map(|known| Conditioned::Node(known.object)).collect(),
        Watched::NodeClass => {
            classes.objects.lock().values().map(|object| Conditioned::Class(Arc::clone(object))).collect()
        }
        Watched::CapacityBuffer => {
            view.buffers().into_iter().map(|known| Conditioned::Buffer(known.object)).collect()
        }
    }
}

/// The families, with the labels that claims and Nodes of this provider have.
pub(crate) fn families(context: &Context) -> &Statuses {
    let kinds = context.provider.node_class_kinds();
    context.metrics.statuses(|kind| {
        let keys = subject::further_keys(kind, kinds);
        keys.iter().map(|key| key.replace(|one: char| !one.is_ascii_alphanumeric(), "_")).collect()
    })
}

/// Conditions whose status changed; one that was not there was unknown.
fn changed<'a>(old: &'a [State], new: &'a [State]) -> impl Iterator<Item = (Option<&'a State>, &'a State)> {
    new.iter().filter_map(|after| {
        let before = old.iter().find(|before| before.kind == after.kind);
        let was = before.map_or("Unknown", |before| before.status.as_str());
        (was != after.status).then_some((before, after))
    })
}

fn text(kind: &str, was: &str, after: &State) -> String {
    let State { status, reason, message, .. } = after;
    let text =
        format!("Status condition transitioned, Type: {kind}, Status: {was} -> {status}, Reason: {reason}");
    if message.is_empty() || status == "True" {
        return text;
    }
    format!("{text}, Message: {message}")
}
