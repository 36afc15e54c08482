//! Shows the real API server to the recorder of scenarios: every state of pods, events and claims as a watch brings it, and
//! the nodes and pods that are there when a picture is taken.
//!
//! Objects that were there before the watches began belong to the cluster and do not count, nor do further pods of the same
//! owners, as those of its daemon sets on new nodes; nor do the controller's own pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::stream::{BoxStream, StreamExt};
use jiff::Timestamp;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_kube_sim::apiserver::object;
use karpenter_model::Price;
use karpenter_sim::scenario::record::{Recorder, Recording};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::manifests::NAMESPACE;
use crate::wait::PATIENCE;

/// Watched kinds: group, version, kind, and the name in paths.
const KINDS: [(&str, &str, &str, &str); 4] = [
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Event", "events"),
    ("", "v1", "Node", "nodes"),
    ("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
];

/// Watches of a cluster; they end when this is dropped.
pub(super) struct Watches {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

struct Seen {
    recorder: Recorder,
    began: Instant,
    /// Uids of what was there before, and of what owns it.
    before: BTreeSet<String>,
    /// Objects by kind and uid.
    objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
}

impl Watches {
    /// Begins to watch; returns when everything that is there was seen.
    pub(super) async fn begin(client: &Client) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Seen {
            recorder: Recorder::default(),
            began: Instant::now(),
            before: BTreeSet::new(),
            objects: BTreeMap::new(),
        }));
        let mut tasks = JoinSet::new();
        for (group, version, kind, plural) in KINDS {
            let resource =
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let mut changes = watcher(api, Config::default()).default_backoff().boxed();
            let first = tokio::time::timeout(PATIENCE, first_list(&mut changes)).await;
            let first = first.ok().flatten().with_context(|| format!("list {plural} with a watch"))?;
            let mut locked = seen.lock();
            locked.before.extend(first.keys().cloned());
            locked.before.extend(first.values().flat_map(object::owner_uids).map(str::to_owned));
            locked.objects.insert(kind, first);
            drop(locked);
            tasks.spawn(follow(kind, changes, Arc::clone(&seen)));
        }
        Ok(Self { seen, _tasks: tasks })
    }

    /// The time of the scenario begins now.
    pub(super) fn start(&self) -> Instant {
        let mut seen = self.seen.lock();
        seen.began = Instant::now();
        seen.began
    }

    /// The scenario takes these instances back.
    pub(super) fn taken(&self, ids: impl IntoIterator<Item = String>) {
        self.seen.lock().recorder.taken(ids);
    }

    /// Takes a picture of what is there now, with these instances and what each costs an hour.
    pub(super) fn picture(&self, instances: Vec<(InstanceState, Price)>) {
        let mut seen = self.seen.lock();
        let Seen { recorder, began, before, objects } = &mut *seen;
        let of = |kind: &str| objects.get(kind).into_iter().flat_map(BTreeMap::iter);
        let pods = of("Pod").map(|(_, pod)| pod).filter(|pod| !is_from(before, pod) && !is_controllers(pod));
        let nodes = of("Node").map(|(_, node)| node);
        recorder.picture(began.elapsed(), nodes, pods, instances);
    }

    /// The end of the scenario.
    pub(super) fn finish(self) -> Recording {
        let mut seen = self.seen.lock();
        let took = seen.began.elapsed();
        std::mem::take(&mut seen.recorder).finish(took, Timestamp::now())
    }
}

impl Seen {
    /// One state of an object, the last one if it is `gone`.
    fn show(&mut self, kind: &'static str, object: Value, gone: bool) {
        let uid = object::uid(&object).to_owned();
        if !is_from(&self.before, &object) {
            let at = self.began.elapsed();
            match kind {
                "Pod" if !is_controllers(&object) => self.recorder.pod(Timestamp::now(), &object, gone),
                "Event" if !gone => self.recorder.event(at, &object),
                "NodeClaim" => self.recorder.claim(at, &object, gone),
                _ => {}
            }
        }
        let of_kind = self.objects.entry(kind).or_default();
        if gone {
            of_kind.remove(&uid);
        } else {
            of_kind.insert(uid, object);
        }
    }
}

type Changes = BoxStream<'static, watcher::Result<Event<DynamicObject>>>;

/// Returns the objects that a watch begins with, by uid; `None` when it ends before.
async fn first_list(changes: &mut Changes) -> Option<BTreeMap<String, Value>> {
    let mut listed = BTreeMap::new();
    loop {
        // A list that fails begins again by itself.
        match changes.next().await? {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(one)) => {
                let one = value(one);
                listed.insert(object::uid(&one).to_owned(), one);
            }
            Ok(Event::InitDone) => return Some(listed),
            Ok(Event::Apply(_) | Event::Delete(_)) | Err(_) => {}
        }
    }
}

/// Shows every change of a kind.
async fn follow(kind: &'static str, mut changes: Changes, seen: Arc<Mutex<Seen>>) {
    // A watch that breaks begins again with a list: what is not in it is gone.
    let mut listed: BTreeSet<String> = BTreeSet::new();
    while let Some(change) = changes.next().await {
        match change {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(one)) => {
                let one = value(one);
                listed.insert(object::uid(&one).to_owned());
                seen.lock().show(kind, one, false);
            }
            Ok(Event::InitDone) => {
                let mut seen = seen.lock();
                let known = seen.objects.get(kind).cloned().unwrap_or_default();
                for (_, one) in known.into_iter().filter(|(uid, _)| !listed.contains(uid)) {
                    seen.show(kind, one, true);
                }
            }
            Ok(Event::Apply(one)) => seen.lock().show(kind, value(one), false),
            Ok(Event::Delete(one)) => seen.lock().show(kind, value(one), true),
            Err(error) => tracing::debug!(kind, %error, "a watch begins again"),
        }
    }
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Returns whether an object is one of these, or belongs to one.
fn is_from(uids: &BTreeSet<String>, of: &Value) -> bool {
    uids.contains(object::uid(of)) || object::owner_uids(of).any(|owner| uids.contains(owner))
}

/// Returns whether a pod is one of the controller's, as the chart names them.
fn is_controllers(pod: &Value) -> bool {
    object::namespace(pod) == NAMESPACE && object::label(pod, "app.kubernetes.io/name") == Some("karpenter")
}

#[cfg(test)]
mod tests {
    use karpenter_kube_sim::VirtualClock;
    use karpenter_kube_sim::apiserver::{ApiServer, Options};
    use karpenter_sim::scenario::judge::judge;
    use karpenter_sim::scenario::read::read;
    use serde_json::json;

    use super::*;
    use crate::wait;

    fn pod(name: &str, namespace: &str, label: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": label}},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        })
    }

    /// Waits until the watch of pods has seen `count` pods.
    async fn known(watches: &Watches, count: usize) {
        wait::until(&format!("{count} pods"), || async {
            let known = watches.seen.lock().objects.get("Pod").map_or(0, BTreeMap::len);
            Ok(if known == count { Ok(()) } else { Err(known.to_string()) })
        })
        .await
        .unwrap();
    }

    /// Returns the failures of these expectations.
    fn wrong(recording: &Recording, expect: &str) -> Vec<String> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        let manifests = ["old", "new"].map(|name| pod(name, "default", "web").to_string()).join(", ");
        let text = format!("name: a\nmanifests: [{manifests}]\nduration: 1h\nexpect:\n{expect}");
        std::fs::write(file.path(), text).unwrap();
        let scenario = read(file.path()).unwrap();
        judge(&scenario.expectations, recording).iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn pods_count_but_for_those_of_the_cluster_and_the_controllers_own() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::now()));
        let server = ApiServer::with_options(Options::new(clock));
        for definition in karpenter_api::crd_values() {
            server.load(&definition).unwrap();
        }
        let of_daemon_set = |name: &str| {
            let mut pod = pod(name, "kube-system", "proxy");
            let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "proxy", "uid": "d"});
            pod["metadata"]["ownerReferences"] = json!([owner]);
            pod
        };
        server.load(&pod("old", "default", "web")).unwrap();
        server.load(&of_daemon_set("proxy-1")).unwrap();
        let watches = Watches::begin(&server.client()).await.unwrap();
        watches.start();
        server.load(&pod("new", "default", "web")).unwrap();
        server.load(&pod("karpenter-0", NAMESPACE, "karpenter")).unwrap();
        server.load(&of_daemon_set("proxy-2")).unwrap();
        known(&watches, 5).await;
        watches.picture(vec![
            (InstanceState::Running, Price::from_nanos(30_000_000)),
            (InstanceState::ShuttingDown, Price::from_nanos(90_000_000)),
        ]);
        let recording = watches.finish();
        let expect = "  - pods: {phase: pending, exactly: 1}\n  - pods: {phase: pending, workload: new, exactly: 1}\n  \
                      - cost: {perHour: {atLeast: 0.03, atMost: 0.03}}\n  - pendingTime: {max: 1h}\n";
        assert_eq!(wrong(&recording, expect), Vec::<String>::new());
        let found = wrong(&recording, "  - pendingTime: {workload: old, max: 1h}\n");
        assert!(matches!(&found[..], [one] if one.ends_with("actual no pod at all")), "{found:?}");
    }
}
