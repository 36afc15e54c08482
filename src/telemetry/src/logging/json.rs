//! One JSON object per line: `level`, `time`, `logger`, `caller` when debugging, `message`, `commit`, then the
//! fields of the enclosing spans and of the message itself.

use std::fmt::Debug;
use std::io::Write;
use std::time::SystemTime;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use super::Lines;
use super::sampling::Sampler;

/// Formats and writes; the span fields live in the registry's extensions.
pub(super) struct Json {
    lines: Lines,
    commit: &'static str,
    caller: bool,
    sampler: Sampler,
}

impl Json {
    pub(super) fn new(lines: Lines, commit: &'static str, caller: bool) -> Self {
        Self { lines, commit, caller, sampler: Sampler::default() }
    }

    fn object(&self, event: &Event<'_>, spans: Vec<Fields>, now: SystemTime) -> Map<String, Value> {
        let mut own = Fields::default();
        event.record(&mut own);
        let meta = event.metadata();
        let mut line = Map::new();
        line.insert("level".to_owned(), meta.level().as_str().into());
        line.insert("time".to_owned(), time(now).into());
        line.insert("logger".to_owned(), "controller".into());
        if self.caller
            && let (Some(file), Some(number)) = (meta.file(), meta.line())
        {
            line.insert("caller".to_owned(), format!("{file}:{number}").into());
        }
        line.insert("message".to_owned(), own.0.shift_remove("message").unwrap_or_default());
        if !self.commit.is_empty() {
            line.insert("commit".to_owned(), self.commit.into());
        }
        for (name, value) in spans.into_iter().flat_map(|fields| fields.0).chain(own.0) {
            line.insert(name, value);
        }
        line
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Json {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let now = SystemTime::now();
        let spans = context
            .event_scope(event)
            .into_iter()
            .flat_map(Scope::from_root)
            .filter_map(|span| span.extensions().get::<Fields>().cloned())
            .collect();
        let line = self.object(event, spans, now);
        let message = line.get("message").and_then(Value::as_str).unwrap_or_default();
        if !self.sampler.admit(message, now) {
            return;
        }
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // Failures have gone to the error outputs.
        let _unwritten = self.lines.clone().write(text.as_bytes());
    }
}

/// ISO 8601 in UTC with milliseconds.
fn time(now: SystemTime) -> String {
    Timestamp::try_from(now).map_or_else(|_| String::new(), |now| format!("{now:.3}"))
}

/// The fields of one span or message, in the order they were recorded.
#[derive(Clone, Debug, Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::super::tests::{Captured, lines};
    use super::{Json, Value};

    fn logged(caller: bool, write: impl FnOnce()) -> Vec<Value> {
        let captured = Captured::default();
        let json = Json::new(lines(captured.clone()), "0123abc", caller);
        let subscriber = tracing_subscriber::registry().with(json);
        tracing::subscriber::with_default(subscriber, write);
        let text = String::from_utf8(captured.0.lock().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_has_the_reference_s_fields_in_its_order() {
        let lines = logged(false, || {
            let _pass = tracing::info_span!("pass", controller = "nodeclaim.lifecycle", name = "a").entered();
            tracing::info!(instances = 2, "launched nodeclaim");
        });
        let keys: Vec<&str> = lines[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["level", "time", "logger", "message", "commit", "controller", "name", "instances"]);
        assert_eq!(lines[0]["level"], "INFO");
        assert_eq!(lines[0]["message"], "launched nodeclaim");
        assert_eq!(lines[0]["instances"], 2);
        let time = lines[0]["time"].as_str().unwrap();
        assert!(time.len() == "2026-01-01T12:00:00.000Z".len() && time.ends_with('Z'), "{time}");
    }

    #[test]
    fn the_caller_is_named_only_when_debugging() {
        assert!(logged(true, || tracing::info!("a"))[0].get("caller").is_some());
        assert!(logged(false, || tracing::info!("a"))[0].get("caller").is_none());
    }
}
