//! Kubernetes events: what people read in `kubectl describe`.
//!
//! [`Recorder::publish`] never blocks and never fails: an event informs a person, and nothing may depend
//! on it. Equal events are suppressed for the period of their reason, some reasons also have a rate limit
//! (spec disruption 7). Events that pass are sent to a [`Sink`]: the API server in production, memory in tests.

mod gate;
mod kube_sink;
pub mod reason;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

pub use kube_sink::{KubeSink, KubeWriter};
pub use reason::{Reason, Severity};

use gate::Gate;

/// Longest message kept, in bytes; the API server refuses longer ones.
pub const MESSAGE_MAX: usize = 1024;

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectRef {
    pub api_version: String,
    pub kind: String,
    /// Absent for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
}

impl ObjectRef {
    /// An object without namespace.
    pub fn cluster_scoped(
        api_version: &str,
        kind: &str,
        name: impl Into<String>,
        uid: impl Into<String>,
    ) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: name.into(),
            uid: uid.into(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} `{namespace}/{}`", self.kind, self.name),
            None => write!(f, "{} `{}`", self.kind, self.name),
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub object: ObjectRef,
    pub reason: Reason,
    pub message: String,
    /// Values that, together with the reason, decide whether two events are the same one.
    pub dedupe: Vec<String>,
}

impl Event {
    /// An event that repeats when reason and object uid are equal, as most do.
    pub fn new(object: ObjectRef, reason: Reason, message: impl Into<String>) -> Self {
        let dedupe = vec![object.uid.clone()];
        Self { object, reason, message: truncate(message.into(), MESSAGE_MAX), dedupe }
    }

    /// Makes `value` part of what decides whether two events are the same one.
    #[must_use]
    pub fn distinguished_by(mut self, value: impl Into<String>) -> Self {
        self.dedupe.push(value.into());
        self
    }
}

/// Destination of events that have passed the recorder.
pub trait Sink: Send + Sync {
    /// Takes the event without blocking; false where there is no room for it. Delivery may fail silently.
    fn emit(&self, event: Event, at: Timestamp) -> bool;
}

/// Suppresses repeated events and hands the others to its sink.
pub struct Recorder {
    sink: Box<dyn Sink>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    gate: Mutex<Gate>,
}

impl Recorder {
    /// A recorder that reads the time from `now`.
    pub fn new(sink: impl Sink + 'static, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { sink: Box::new(sink), now: Box::new(now), gate: Mutex::default() }
    }

    /// Emits `event` unless an equal one was emitted recently or its reason is over its rate.
    pub fn publish(&self, event: Event) {
        let now = (self.now)();
        if !self.gate.lock().admit(&event, now) {
            return;
        }
        tracing::debug!(
            object = %event.object, reason = event.reason.name(), message = event.message, "published event"
        );
        let key = Gate::key(&event);
        // An event without room in the sink is new again at its next occurrence.
        if !self.sink.emit(event, now) {
            self.gate.lock().forget(&key);
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// Keeps events in memory, for tests and for commands that only look.
#[derive(Clone, Debug, Default)]
pub struct MemorySink(Arc<Mutex<Vec<Event>>>);

impl MemorySink {
    /// Everything emitted so far, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().clone()
    }

    /// The messages emitted with the reason called `name`.
    pub fn messages(&self, name: &str) -> Vec<String> {
        self.events()
            .into_iter()
            .filter(|event| event.reason.name() == name)
            .map(|event| event.message)
            .collect()
    }
}

impl Sink for MemorySink {
    fn emit(&self, event: Event, _at: Timestamp) -> bool {
        self.0.lock().push(event);
        true
    }
}

/// Cuts `text` to at most `max` bytes, marking the cut with `...`.
pub fn truncate(mut text: String, max: usize) -> String {
    const MARK: &str = "...";
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max.saturating_sub(MARK.len())));
        text.push_str(MARK);
    }
    text
}

#[cfg(test)]
mod tests;
