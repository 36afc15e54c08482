//! Events on their way to the API server.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event as KubeEvent;
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_telemetry::events::{Event, KubeSink, ObjectRef, Sink, reason};
use karpenter_telemetry::progress::Progress;
use kube::api::{Api, ListParams};

use crate::world::{MINUTE, SECOND, World};

fn event(node: &str, message: &str) -> Event {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: node.to_owned(),
        uid: node.to_owned(),
    };
    Event::new(object, reason::DISRUPTION_BLOCKED, message)
}

/// Messages of the events that were written, by the name of their node.
async fn written(world: &World) -> BTreeMap<String, Vec<String>> {
    let api: Api<KubeEvent> = Api::namespaced(world.client.clone(), "default");
    let mut written: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in api.list(&ListParams::default()).await.unwrap().items {
        let node = event.involved_object.name.unwrap_or_default();
        written.entry(node).or_default().push(event.message.unwrap_or_default());
    }
    written
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_up_the_later_events_of_its_object_and_few_others() {
    let world = World::new().await;
    let slow = Rule::on("create").resource("events").times(1);
    world.server.faults().inject(slow, Fault::Delay(MINUTE));
    let (sink, writer) = KubeSink::new(&world.client, &Progress::default());
    let writer = tokio::spawn(writer.run());
    let begin: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    assert!(sink.emit(event("slow", "first"), begin));
    tokio::time::sleep(SECOND).await;
    assert!(sink.emit(event("slow", "second"), begin + SignedDuration::from_secs(1)));
    for node in 0..32 {
        assert!(sink.emit(event(&format!("node-{node}"), "only"), begin));
    }
    tokio::time::sleep(10 * SECOND).await;
    let early = written(&world).await;
    assert!(!early.contains_key("slow"), "the second event overtook the first");
    assert!(early.len() >= 20, "only {} of 32 were written meanwhile", early.len());
    drop(sink);
    writer.await.unwrap();
    let all = written(&world).await;
    assert_eq!(all.len(), 33);
    assert_eq!(all["slow"], ["first", "second"]);
}
