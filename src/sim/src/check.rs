//! Checkers on the truth: the log of the API server's store and the instances of the account, never what the controller says
//! about itself.
//!
//! Each checker is a file; this one reads the log in the order of its revisions and asks them. A checker may be late, it
//! may not be wrong: where the controller cannot have known yet, it waits.

mod budgets;
mod by_instance;
mod candidates;
mod drift;
mod ending;
mod fixed;
mod labels;
mod leader;
mod limits;
mod machines;
mod pods;
mod surplus;
mod unserving;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::StatusCode;
use karpenter_aws_api::ec2::{Instance, InstanceState};
use karpenter_aws_api::id::InstanceId;
use karpenter_aws_sim::Account;
use karpenter_kube_sim::apiserver::object::{self, Key};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind, Store};
use karpenter_kube_sim::apiserver::{ApiServer, TableName};
use karpenter_model::names::{label, tag, taint};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::target::Target;
use crate::trace::Trace;
use by_instance::ByInstance;

pub(crate) use ending::Unfinished;

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Seconds of virtual time after the beginning.
    pub seconds: u64,
    pub rule: &'static str,
    /// The object or process that broke it, and how.
    pub what: String,
}

/// The truth, and what was found wrong with it. Clones share it.
#[derive(Clone)]
pub(crate) struct Truth {
    server: ApiServer,
    account: Account,
    trace: Trace,
    state: Arc<Mutex<State>>,
    broken: Arc<Notify>,
    started: Instant,
}

/// Largest age of a controller's picture of the cluster, in seconds: watches are late, and answers may take more than a minute.
const OUTDATED: u64 = 180;

/// Groups and plural names of what is followed.
const TABLES: [(&str, &str); 9] = [
    ("", "nodes"),
    ("", "pods"),
    ("", "events"),
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.sh", "nodepools"),
    ("karpenter.k8s.aws", "ec2nodeclasses"),
    ("policy", "poddisruptionbudgets"),
    ("storage.k8s.io", "volumeattachments"),
    ("autoscaling.x-k8s.io", "capacitybuffers"),
];

#[derive(Default)]
struct State {
    cursor: u64,
    scene: Scene,
    budgets: budgets::Budgets,
    candidates: candidates::Candidates,
    drift: drift::Drift,
    fixed: fixed::Fixed,
    surplus: surplus::Surplus,
    unserving: unserving::Unserving,
    machines: machines::Machines,
    volumes: volumes::Volumes,
    leader: leader::Leader,
    /// Cores of each instance type.
    cores: BTreeMap<String, u32>,
    found: Vec<Violation>,
    told: BTreeSet<String>,
}

/// Cluster and account at one revision.
#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) nodes: ByInstance,
    pub(crate) pods: BTreeMap<Key, Arc<Value>>,
    pub(crate) claims: ByInstance,
    pub(crate) pools: BTreeMap<Key, Arc<Value>>,
    pub(crate) classes: BTreeMap<Key, Arc<Value>>,
    /// Disruption budgets of pods.
    pub(crate) budgets: BTreeMap<Key, Arc<Value>>,
    /// Buffers of capacity, whose pods do not exist.
    pub(crate) buffers: BTreeMap<Key, Arc<Value>>,
    /// Provider ids of Nodes that were chosen for disruption once, whether the Node is still there or not.
    pub(crate) chosen: BTreeSet<String>,
    /// Pods by their node.
    by_node: BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
    /// Instances that are not terminated.
    pub(crate) instances: Arc<Vec<Arc<Instance>>>,
}

impl Scene {
    /// Instances that cost money and were not told to end.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &Instance> {
        let alive =
            |instance: &&Instance| matches!(instance.state, InstanceState::Pending | InstanceState::Running);
        self.instances.iter().map(AsRef::as_ref).filter(alive)
    }

    /// The claim of this name.
    pub(crate) fn claim(&self, name: &str) -> Option<&Arc<Value>> {
        self.claims.get(&Key::new("", name))
    }

    /// The claim of a Node. The instance tells: what the claim says of its Node comes later, or never if it is deleted
    /// first.
    pub(crate) fn claim_of_node(&self, node: &Value) -> Option<&Arc<Value>> {
        let id = object::text(node, "/spec/providerID");
        self.claims.of_instance(id).next().map(|(_, claim)| claim)
    }

    /// The Node of a claim, by its instance.
    pub(crate) fn node_of_claim(&self, claim: &Value) -> Option<(&Key, &Arc<Value>)> {
        let id = object::text(claim, "/status/providerID");
        self.nodes.of_instance(id).find(|_| !id.is_empty())
    }

    /// The pods on a Node that have not ended.
    pub(crate) fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Value> {
        let pods = self.by_node.get(node).into_iter().flat_map(BTreeMap::values).map(AsRef::as_ref);
        pods.filter(|pod| !matches!(object::text(pod, "/status/phase"), "Succeeded" | "Failed"))
    }

    fn put(&mut self, plural: &str, change: &Change) {
        let key = Key::of(&change.object);
        if plural == "nodes" && is_disrupted(&change.object) {
            self.chosen.insert(object::text(&change.object, "/spec/providerID").to_owned());
        }
        let there = (change.kind != ChangeKind::Deleted).then(|| Arc::clone(&change.object));
        let with_instances = |objects: &mut ByInstance| match &there {
            Some(object) => objects.insert(key.clone(), Arc::clone(object)),
            None => objects.remove(&key),
        };
        let objects = match plural {
            "nodes" => return drop(with_instances(&mut self.nodes)),
            "nodeclaims" => return drop(with_instances(&mut self.claims)),
            "pods" => &mut self.pods,
            "nodepools" => &mut self.pools,
            "ec2nodeclasses" => &mut self.classes,
            "capacitybuffers" => &mut self.buffers,
            _ => &mut self.budgets,
        };
        let before = match there {
            Some(object) => objects.insert(key.clone(), object),
            None => objects.remove(&key),
        };
        if plural == "pods" {
            self.move_pod(&key, before.as_deref(), change);
        }
    }

    fn move_pod(&mut self, key: &Key, before: Option<&Value>, change: &Change) {
        let node = |pod: &Value| object::text(pod, "/spec/nodeName").to_owned();
        if let Some(node) = before.map(node)
            && let Some(pods) = self.by_node.get_mut(&node)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        if change.kind != ChangeKind::Deleted {
            let pods = self.by_node.entry(node(&change.object)).or_default();
            pods.insert(key.clone(), Arc::clone(&change.object));
        }
    }
}

/// The claim an instance is for, by its tags.
fn claim_of(instance: &Instance) -> &str {
    instance.tags.get(tag::NODE_CLAIM).map_or("", String::as_str)
}

/// The pool of an object.
fn pool_of(object: &Value) -> &str {
    object::label(object, label::NODE_POOL).unwrap_or_default()
}

/// Returns whether a Node has the taint of disruption.
fn is_disrupted(node: &Value) -> bool {
    object::list(node, "/spec/taints").iter().any(|one| one["key"] == taint::DISRUPTED)
}

impl Truth {
    /// Creates it with nothing seen.
    pub(crate) fn new(
        server: ApiServer,
        account: Account,
        trace: Trace,
        cores: BTreeMap<String, u32>,
    ) -> Self {
        let state = State { cores, ..State::default() };
        let (state, broken) = (Arc::new(Mutex::new(state)), Arc::default());
        Self { server, account, trace, state, broken, started: Instant::now() }
    }

    /// Reads what was written since the last time.
    pub(crate) fn look(&self) {
        let instances = self.account.live();
        let mut state = self.state.lock();
        let state = &mut *state;
        let cursor = state.cursor;
        let (changes, revision) = self.server.read(|store| (changes(store, cursor), store.revision()));
        state.cursor = revision;
        let still = Arc::ptr_eq(&state.scene.instances, &instances);
        state.scene.instances = instances;
        let (mut found, now) = (Vec::new(), self.seconds());
        let quiet = changes.iter().all(|(plural, _)| *plural == "events");
        let counts = |change: &(&str, Change)| change.0 != "pods" || !is_daemon(&change.1.object);
        for (plural, change) in changes.into_iter().filter(counts) {
            match plural {
                "nodes" => {
                    state.budgets.node(&state.scene, &change, &mut found);
                    state.candidates.node(&state.scene, &change, now, &mut found);
                    state.surplus.node(&state.scene, &change, now);
                }
                "nodeclaims" => {
                    machines::claim(&state.scene, &change, &mut found);
                    state.drift.claim(&change, now, &mut found);
                    state.fixed.claim(&state.scene, &change, now, &mut found);
                    state.surplus.claim(&state.scene, &change, now, &mut found);
                    state.unserving.claim(&state.scene, &change);
                }
                "pods" => {
                    state.candidates.pod(&change, now);
                    state.surplus.pod(&change, now);
                    state.unserving.pod(&change);
                }
                "nodepools" => {
                    state.drift.pool(&change, now);
                    state.fixed.pool(&change, now);
                    state.unserving.pool(&state.scene, &change);
                }
                "ec2nodeclasses" => {
                    state.drift.class(&change, now);
                    state.unserving.class(&state.scene, &change);
                }
                "events" => {
                    state.unserving.event(&state.scene, &change.object);
                    continue;
                }
                "volumeattachments" => {
                    state.volumes.attachment(&change, now);
                    continue;
                }
                "poddisruptionbudgets" => state.candidates.budget(&change, now),
                _ => {}
            }
            state.scene.put(plural, &change);
        }
        if !quiet {
            state.surplus.look(&state.scene, now);
        }
        if state.unserving.any_open() {
            state.unserving.look(&state.scene, now, &mut found);
        }
        // Unchanged objects give the findings of the last look, except machines without a claim: their time grows.
        if !quiet || !still {
            limits::look(&state.scene, &state.cores, &mut found);
        }
        if !quiet || !still || state.machines.any_unowned() {
            state.machines.look(&state.scene, now, &mut found);
        }
        self.report(state, found);
    }

    /// A process sends a write.
    pub(crate) fn sends(&self, who: &str, target: &Target) {
        let mut state = self.state.lock();
        let found = state.leader.sends(who, target);
        self.report(&mut state, found);
    }

    /// A process has written the Lease of the election.
    pub(crate) fn lease_written(&self, who: &str) {
        let held = self.server.read(leader::is_held);
        self.state.lock().leader.written(who, held);
    }

    /// A controller calls the API server now. Returns the rules about pods that this breaks, unless the call is about an earlier
    /// pod of the name, which only the [answer](Self::answered) shows.
    pub(crate) fn asked(&self, target: &Target, deletes: bool) -> Found {
        if target.plural == "nodeclaims" && deletes {
            self.look();
            let mut state = self.state.lock();
            let found = state.candidates.deleting(&state.scene, target);
            self.report(&mut state, found);
        }
        if target.plural == "pods" && (deletes || target.subresource == "eviction") {
            return self.server.read(|store| pods::leaving(store, target, deletes));
        }
        Found::new()
    }

    /// The API server has answered a call that [breaks rules](Self::asked).
    pub(crate) fn answered(&self, broken: Found, status: Option<StatusCode>) {
        // A conflict: the call names the uid of an earlier pod, and nothing was asked of this one.
        if !broken.is_empty() && status != Some(StatusCode::CONFLICT) {
            self.report(&mut self.state.lock(), broken);
        }
    }

    /// Something happens to an instance that is not the controller's doing.
    pub(crate) fn struck(&self, instance: &InstanceId) {
        self.state.lock().candidates.struck(instance.as_str());
    }

    /// Other images are there from now on.
    pub(crate) fn images_released(&self) {
        let now = self.seconds();
        self.state.lock().drift.images(now);
    }

    /// A controller terminates instances now.
    pub(crate) fn terminating(&self, ids: &[InstanceId]) {
        self.look();
        let mut state = self.state.lock();
        let mut found = machines::terminating(&state.scene, ids);
        state.volumes.terminating(&state.scene, ids, self.seconds(), &mut found);
        self.report(&mut state, found);
    }

    /// A controller called AWS.
    pub(crate) fn account_changed(&self, operation: &str) {
        if matches!(operation, "CreateFleet" | "TerminateInstances") {
            self.look();
        }
    }

    /// Notes something that was found wrong elsewhere.
    pub(crate) fn found(&self, rule: &'static str, what: String) {
        let mut state = self.state.lock();
        self.report(&mut state, vec![(rule, what)]);
    }

    /// Nodes and pods now.
    pub(crate) fn nodes_and_pods(&self) -> (Vec<Arc<Value>>, Vec<Arc<Value>>) {
        self.look();
        let state = self.state.lock();
        (state.scene.nodes.values().cloned().collect(), state.scene.pods.values().cloned().collect())
    }

    /// Returns what is missing until everything is as it should be at rest.
    pub(crate) fn unfinished(&self) -> Unfinished {
        self.look();
        ending::unfinished(&self.state.lock().scene)
    }

    /// Returns the violations found so far.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.state.lock().found.clone()
    }

    /// Returns once a rule was broken.
    pub(crate) async fn broken(&self) {
        self.broken.notified().await;
    }

    fn report(&self, state: &mut State, found: Vec<(&'static str, String)>) {
        for (rule, what) in found {
            // A state that stays wrong is reported once.
            if state.told.insert(format!("{rule} {what}")) {
                self.trace.note("checker", rule, &what);
                state.found.push(Violation { seconds: self.seconds(), rule, what });
                self.broken.notify_one();
            }
        }
    }

    fn seconds(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}

/// Violations that a checker found: the rule, and how it was broken.
pub(crate) type Found = Vec<(&'static str, String)>;

/// Returns whether a pod is a daemon. Daemons start and end with their nodes, so no rule covers them.
fn is_daemon(pod: &Value) -> bool {
    object::controller(pod).is_some_and(|owner| owner["kind"] == "DaemonSet")
}

fn changes(store: &Store, since: u64) -> Vec<(&'static str, Change)> {
    let of = |(group, plural): (&str, &'static str)| {
        let changes = store.changes_since(&TableName::new(group, plural), since).unwrap_or_default();
        changes.into_iter().map(move |change| (plural, change))
    };
    let mut all: Vec<_> = TABLES.into_iter().flat_map(of).collect();
    all.sort_by_key(|(_, change)| change.revision);
    all
}
