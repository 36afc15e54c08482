//! Data of a page beyond the world: events of its subject, and the controller's explanation. Asked for while the page
//! is open, every few seconds.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant};

use super::Explainer;
use crate::details::{Details, EventFacts, Found, Subject};
use crate::trouble::EVENTS;

/// Interval at which the same is requested again.
const PERIOD: Duration = Duration::from_secs(5);
/// Events of one object that are asked for.
const EVENTS_MAX: u32 = 200;

/// Asks, and keeps the last answer.
pub(super) struct Asker {
    client: Client,
    explainer: Explainer,
    details: Option<Details>,
    asked: Option<Instant>,
    questions: JoinSet<Details>,
}

impl Asker {
    pub(super) fn new(client: Client, explainer: Explainer) -> Self {
        Self { client, explainer, details: None, asked: None, questions: JoinSet::new() }
    }

    /// Returns the data of the last request.
    pub(super) const fn details(&self) -> Option<&Details> {
        self.details.as_ref()
    }

    /// The page that is open is about `subject`: asks if that has not been asked lately.
    pub(super) fn ask(&mut self, subject: Option<Subject>) {
        let Some(subject) = subject else {
            self.details = None;
            return;
        };
        let same = self.details.as_ref().is_some_and(|details| details.subject == subject);
        if same && self.asked.is_some_and(|asked| asked.elapsed() < PERIOD) {
            return;
        }
        if !same {
            self.details = Some(Details::asking(subject.clone()));
        }
        self.asked = Some(Instant::now());
        let (client, explainer) = (self.client.clone(), Arc::clone(&self.explainer));
        self.questions.spawn(async move {
            let (events, explained) = tokio::join!(events(&client, &subject), explainer(subject.question()));
            let explained = explained.map_or_else(Found::Not, Found::Is);
            Details { subject, events, explained }
        });
    }

    /// Resolves when an answer to the question has come.
    pub(super) async fn answered(&mut self) -> Result<(), JoinError> {
        while let Some(answer) = self.questions.join_next().await {
            let answer = answer?;
            // Answers about a page that was left are of no use.
            if let Some(details) = self.details.as_mut().filter(|known| known.subject == answer.subject) {
                *details = answer;
                return Ok(());
            }
        }
        std::future::pending().await
    }
}

async fn events(client: &Client, subject: &Subject) -> Found<Vec<EventFacts>> {
    let (objects, api): (Vec<(&str, &str)>, Api<Event>) = match subject {
        Subject::Machine { node, claim } => {
            let node = node.as_deref().map(|name| ("Node", name));
            let claim = claim.as_deref().map(|name| ("NodeClaim", name));
            (node.into_iter().chain(claim).collect(), Api::all(client.clone()))
        }
        Subject::Pod(key) => {
            (vec![("Pod", key.name.as_str())], Api::namespaced(client.clone(), key.namespace.as_str()))
        }
    };
    let mut all = Vec::new();
    for (kind, name) in objects {
        let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
        match api.list(&ListParams::default().fields(&fields).limit(EVENTS_MAX)).await {
            Ok(list) => all.extend(list.items.into_iter().map(facts)),
            Err(error) => {
                let code = match &error {
                    kube::Error::Api(status) => Some(status.code),
                    _ => None,
                };
                return Found::Not(EVENTS.trouble("list", code, &error.to_string()).full());
            }
        }
    }
    all.sort_by_key(|event| Reverse(event.at));
    Found::Is(all)
}

fn facts(event: Event) -> EventFacts {
    let series = event.series.as_ref();
    let times = [
        series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.metadata.creation_timestamp.as_ref().map(|time| time.0),
    ];
    EventFacts {
        at: times.into_iter().flatten().next().unwrap_or(Timestamp::UNIX_EPOCH),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}
