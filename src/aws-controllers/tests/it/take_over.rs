//! A cluster changes hands between the reference (v1.14.1) and us, in both directions, and no node notices.
//!
//! Writes of the reference are in `src/aws-controllers/recorded`. [`adopted`] starts our controllers over them and asserts
//! every write they make; [`written`] has them launch the same and compares their writes with those of the reference, field
//! by field: objects that equal its own are not drifted for the reference.

mod adopted;
mod difference;
mod recording;
mod written;

use std::sync::Arc;
use std::time::Duration;

use karpenter_kube_sim::apiserver::object::{Key, text};
use karpenter_kube_sim::apiserver::store::ListQuery;
use karpenter_kube_sim::kubelet::{self, Ec2Machines};
use serde_json::Value;

use self::recording::{CLUSTER, Recording};
use crate::world::{Setup, World, Writes};

/// Starts everything in the cluster and account that the recording was made in.
fn start(setup: Setup, recording: &Recording) -> (World, Writes) {
    let (writes, client) = Writes::around(setup.server.client());
    let machines = Arc::new(Ec2Machines::new(setup.account.clients(), CLUSTER));
    // Heartbeats are most of what there is to simulate in hours without events.
    let seldom = Duration::from_secs(45);
    let kubelet = kubelet::Options { heartbeat: seldom, poll: seldom, ..kubelet::Options::default() };
    let world = World::on(setup, client, recording.settings(), machines, kubelet);
    (world, writes)
}

/// Calls that change the account, in order: operation and subject. Dry runs change nothing.
fn changes(world: &World) -> Vec<(&'static str, String)> {
    let reads = |operation: &str| ["Describe", "Get", "List"].iter().any(|verb| operation.starts_with(verb));
    let calls = world.account.calls().0.into_iter();
    let changing = calls.filter(|call| !reads(call.operation) && !call.subject.starts_with("dry run"));
    changing.map(|call| (call.operation, call.subject)).collect()
}

/// Returns the object in the API server with kind, namespace and name of `like`.
fn stored(world: &World, like: &Value) -> Option<Arc<Value>> {
    let (group, version) = text(like, "/apiVersion").rsplit_once('/').unwrap_or(("", "v1"));
    world.server.read(|store| {
        let resource = store.registry().of_kind(group, version, text(like, "/kind")).unwrap();
        store.get(&resource, &Key::of(like)).ok()
    })
}

/// Every object of a kind in the API server.
fn all(world: &World, group: &str, plural: &str) -> Vec<Value> {
    world.server.read(|store| {
        let resource = store.registry().get(group, "v1", plural).unwrap();
        let page = store.list(&resource, &ListQuery::default()).unwrap();
        page.items.iter().map(|object| Value::clone(object)).collect()
    })
}
