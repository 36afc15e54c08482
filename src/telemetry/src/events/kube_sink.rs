//! Writes events to the API server as core `v1` Events, as the reference does.
//!
//! Bounded queues with a writer each: when the API server is slow, events are lost rather than memory or passes. The
//! events about one object are written in their order, those about others meanwhile, so that one write that hangs
//! delays few. An event equal to a recent one raises that one's count instead of making another object.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as KubeEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

use super::{Event, ObjectRef, Sink};
use crate::progress::Progress;

/// The component every event names.
pub(crate) const COMPONENT: &str = "karpenter";

/// Name of the writers in metrics.
const NAME: &str = "events";
/// Writes that may be under way at once.
const LANES: usize = 8;
/// Events that wait, of each lane.
const QUEUE_MAX: usize = 256;
/// Events that may still be raised, of each lane.
const REMEMBERED_MAX: usize = 512;

/// Queues events for the writer returned with it.
#[derive(Debug)]
pub struct KubeSink {
    lanes: Vec<mpsc::Sender<(Event, Timestamp)>>,
}

impl KubeSink {
    /// The sink, and the writer to be spawned with [`KubeWriter::run`].
    pub fn new(client: &kube::Client, progress: &Progress) -> (Self, KubeWriter) {
        let (mut lanes, mut writers) = (Vec::new(), Vec::new());
        for _ in 0..LANES {
            let (queue, events) = mpsc::channel(QUEUE_MAX);
            lanes.push(queue);
            let (client, progress) = (client.clone(), progress.clone());
            writers.push(Lane { client, progress, events, written: Written::default() });
        }
        (Self { lanes }, KubeWriter { lanes: writers })
    }

    fn lane(&self, object: &ObjectRef) -> Option<&mpsc::Sender<(Event, Timestamp)>> {
        let mut hasher = DefaultHasher::new();
        (&object.kind, &object.namespace, &object.name).hash(&mut hasher);
        let lanes = u64::try_from(self.lanes.len()).unwrap_or(u64::MAX);
        self.lanes.get(usize::try_from(hasher.finish() % lanes).unwrap_or_default())
    }
}

impl Sink for KubeSink {
    fn emit(&self, event: Event, at: Timestamp) -> bool {
        let Some(lane) = self.lane(&event.object) else { return false };
        let taken = lane.try_send((event, at));
        if let Err(error) = &taken {
            tracing::debug!(%error, "dropped event");
        }
        taken.is_ok()
    }
}

/// Writes events.
pub struct KubeWriter {
    lanes: Vec<Lane>,
}

impl KubeWriter {
    /// Writes until the sink is dropped and the queues are empty. Panics if a lane does: its events would be lost unseen.
    pub async fn run(self) {
        let mut lanes: JoinSet<()> = self.lanes.into_iter().map(Lane::run).collect();
        while let Some(ended) = lanes.join_next().await {
            if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Writes the events of some objects, one after the other.
struct Lane {
    client: kube::Client,
    progress: Progress,
    events: mpsc::Receiver<(Event, Timestamp)>,
    written: Written,
}

impl Lane {
    async fn run(mut self) {
        while let Some((event, at)) = self.events.recv().await {
            let (progress, subject) = (self.progress.clone(), event.object.to_string());
            if let Err(error) = progress.during(NAME, subject, self.write(&event, at)).await {
                tracing::debug!(object = %event.object, reason = event.reason.name(), %error, "event not written");
            }
        }
    }

    async fn write(&mut self, event: &Event, at: Timestamp) -> Result<(), kube::Error> {
        let namespace = namespace(&event.object).to_owned();
        let events: Api<KubeEvent> = Api::namespaced(self.client.clone(), &namespace);
        let key = (event.object.clone(), event.reason.name().to_owned(), event.message.clone());
        if let Some(previous) = self.written.get_mut(&key) {
            let patch = json!({"count": previous.count + 1, "lastTimestamp": Time(at)});
            match events.patch(&previous.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {
                    previous.count += 1;
                    return Ok(());
                }
                // Events expire; write a new one.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let object = to_kube(event, at, &namespace);
        let name = object.metadata.name.clone().unwrap_or_default();
        events.create(&PostParams::default(), &object).await?;
        self.written.insert(key, Record { name, count: 1 });
        Ok(())
    }
}

type Key = (ObjectRef, String, String);

#[derive(Debug)]
struct Record {
    name: String,
    count: i32,
}

/// The most recently written events, oldest forgotten first.
#[derive(Debug, Default)]
struct Written {
    records: BTreeMap<Key, Record>,
    order: VecDeque<Key>,
}

impl Written {
    fn get_mut(&mut self, key: &Key) -> Option<&mut Record> {
        self.records.get_mut(key)
    }

    fn insert(&mut self, key: Key, record: Record) {
        if self.records.insert(key.clone(), record).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.records.remove(&oldest);
        }
    }
}

/// Events about cluster-scoped objects live in `default`, where `kubectl describe` looks for them.
fn namespace(object: &ObjectRef) -> &str {
    object.namespace.as_deref().unwrap_or("default")
}

fn to_kube(event: &Event, at: Timestamp, namespace: &str) -> KubeEvent {
    let object = &event.object;
    KubeEvent {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", object.name, at.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            uid: Some(object.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some(event.reason.severity().as_str().to_owned()),
        reason: Some(event.reason.name().to_owned()),
        message: Some(event.message.clone()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        count: Some(1),
        ..KubeEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::reason;
    use super::{Event, KubeEvent, ObjectRef, Timestamp, namespace, to_kube};

    fn event(namespace: Option<&str>) -> Event {
        let object = ObjectRef {
            api_version: "karpenter.sh/v1".to_owned(),
            kind: "NodeClaim".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "default-x7k2p".to_owned(),
            uid: "5f2b".to_owned(),
        };
        Event::new(object, reason::INSUFFICIENT_CAPACITY, "no capacity")
    }

    #[test]
    fn cluster_scoped_objects_have_their_events_in_default() {
        assert_eq!(namespace(&event(None).object), "default");
        assert_eq!(namespace(&event(Some("web")).object), "web");
    }

    #[test]
    fn an_event_names_component_object_and_times() {
        let at: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let KubeEvent { metadata, involved_object, type_, reason, source, first_timestamp, .. } =
            to_kube(&event(None), at, "default");
        assert_eq!(metadata.name.as_deref(), Some("default-x7k2p.1886999c36a18000"));
        assert_eq!(involved_object.kind.as_deref(), Some("NodeClaim"));
        assert_eq!(type_.as_deref(), Some("Warning"));
        assert_eq!(reason.as_deref(), Some("InsufficientCapacityError"));
        assert_eq!(source.and_then(|source| source.component).as_deref(), Some("karpenter"));
        assert_eq!(first_timestamp.map(|time| time.0), Some(at));
    }
}
