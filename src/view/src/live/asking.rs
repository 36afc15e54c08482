//! Data of a page beyond the world: events of its subject and the controller's explanation, the plan, objects as they are
//! stored. Asked for while the page is open, every few seconds.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Duration, Instant};

use super::{Explainer, Planner, Sources};
use crate::details::{Details, EventFacts, Found, Subject};
use crate::trouble::EVENTS;

/// Interval at which the same is requested again.
const PERIOD: Duration = Duration::from_secs(5);
/// Interval at which the plan is made again: it lists the whole cluster.
const PLAN_PERIOD: Duration = Duration::from_secs(30);
/// Events of one object that are asked for.
const EVENTS_MAX: u32 = 200;

/// Asks, and keeps the last answer.
pub(super) struct Asker {
    client: Client,
    explainer: Explainer,
    planner: Planner,
    details: Option<Details>,
    asked: Option<Instant>,
    questions: JoinSet<Details>,
}

impl Asker {
    pub(super) fn new(sources: &Sources) -> Self {
        Self {
            client: sources.client.clone(),
            explainer: Arc::clone(&sources.explainer),
            planner: Arc::clone(&sources.planner),
            details: None,
            asked: None,
            questions: JoinSet::new(),
        }
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
        let period = if subject == Subject::Plan { PLAN_PERIOD } else { PERIOD };
        if same && self.asked.is_some_and(|asked| asked.elapsed() < period) {
            return;
        }
        if !same {
            self.details = Some(Details::asking(subject.clone()));
        }
        self.asked = Some(Instant::now());
        let client = self.client.clone();
        let (explainer, planner) = (Arc::clone(&self.explainer), Arc::clone(&self.planner));
        self.questions.spawn(async move {
            let explained = async {
                match subject.question() {
                    Some(question) => explainer(question).await,
                    None if subject == Subject::Plan => planner().await,
                    None => stored(&client, &subject).await,
                }
            };
            let (events, explained) = tokio::join!(events(&client, &subject), explained);
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

/// The objects of a subject as YAML, without the record of who manages which field.
async fn stored(client: &Client, subject: &Subject) -> Result<String, String> {
    let mut text = String::new();
    for (version, kind, namespace, name) in subject.objects() {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let failed = |error: &dyn std::fmt::Display| format!("cannot read {kind} `{name}`: {error}");
        let mut object = api.get(name).await.map_err(|error| failed(&error))?;
        object.metadata.managed_fields = None;
        let separator = if text.is_empty() { "" } else { "---\n" };
        text.push_str(separator);
        text.push_str(&serde_saphyr::to_string(&object).map_err(|error| failed(&error))?);
    }
    Ok(text)
}

async fn events(client: &Client, subject: &Subject) -> Found<Vec<EventFacts>> {
    if subject.question().is_none() {
        return Found::Is(Vec::new());
    }
    let mut all = Vec::new();
    for (_, kind, namespace, name) in subject.objects() {
        let api: Api<Event> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
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
