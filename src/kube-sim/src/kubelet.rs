//! A node agent that stands in for kubelet on every machine of an account.
//!
//! It runs against any API server: the one in this crate for the embedded demo, a real kube-apiserver for the
//! end-to-end suite. For every running machine it reads the user data and joins a Node with exactly what that says;
//! it runs the pods bound to its nodes, stops them when they are deleted, and goes silent with its machine.
//!
//! Everything is level-triggered: a look at a node compares what is with what should be and does one step towards it, so
//! a failed call or a restart costs one look. A node is looked at when it, its pods or its machine have changed, when
//! something is due on it, and a poll after a call about it failed; the others cost nothing. Machines are listed when
//! anything has changed, and at least once per [`Options::poll`].

mod allocatable;
mod cloud;
mod difference;
mod ec2;
mod heartbeat;
mod machine;
mod node;
mod pods;
mod schedule;
mod view;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_model::Clock;
use karpenter_model::clock::{later, since};
use kube::{Api, Client, ResourceExt, api::DeleteParams};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::difference::{Change, Difference, Flaps};
pub use self::ec2::Ec2Machines;
pub use self::machine::{Machine, MachineState, Machines};
use self::schedule::Schedule;
use self::view::View;

/// Behavior of the machines. All durations are time of the clock.
#[derive(Clone)]
pub struct Options {
    /// Name of the cluster: only machines whose user data names it join; empty for any.
    pub cluster_name: String,
    /// Kubelet version that nodes report, for example `v1.35.0`.
    pub version: String,
    /// Time from launch until the Node is registered.
    pub boot: Duration,
    /// Time from registration until the Node is ready.
    pub ready: Duration,
    /// Largest share by which both may be longer, in percent: each machine has a time of its own between none and this, as
    /// machines that are launched together are never ready together.
    pub spread: u32,
    /// Time from binding until a pod runs.
    pub pod_start: Duration,
    /// Time from deletion until a pod has stopped, at most its grace period; `None` for the whole grace period.
    pub pod_stop: Option<Duration>,
    /// Between two heartbeats of a node.
    pub heartbeat: Duration,
    /// Longest time between two passes.
    pub poll: Duration,
    /// Time from the moment the node of a bound pod is missing until the pod is removed.
    pub pod_collection: Duration,
    /// Delete Nodes whose machine is gone, as a cloud controller manager does.
    pub cloud_node_lifecycle: bool,
    /// Nodes that talk to the API server at the same time. One at a time keeps equal runs equal; against a real API server each
    /// answer is waited for, and five hundred nodes in a row would be later than any machine.
    pub at_once: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            version: "v1.35.0".to_owned(),
            boot: Duration::from_secs(30),
            ready: Duration::from_secs(10),
            spread: 0,
            pod_start: Duration::from_secs(2),
            pod_stop: None,
            heartbeat: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            pod_collection: Duration::from_secs(10),
            cloud_node_lifecycle: true,
            at_once: 1,
        }
    }
}

impl Options {
    /// Returns the time that this machine takes for something that takes `at_least` this long.
    fn on(&self, machine: &Machine, at_least: Duration) -> Duration {
        let share = u32::try_from(hash(&machine.instance_id) % 1_000).expect("invariant: below a thousand");
        at_least + at_least * self.spread * share / 100_000
    }
}

/// Depends on nothing else, so that equal runs stay equal.
fn hash(of: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(of)
}

/// Difference of one machine from a healthy one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing: it joins, gets ready and runs pods.
    #[default]
    Healthy,
    /// It never joins the cluster.
    NeverJoins,
    /// It joins and does not get ready; a ready node stops being ready.
    NotReady,
    /// It stops talking to the API server without leaving.
    Silent,
}

/// The agent of all machines.
pub struct Agent {
    client: Client,
    machines: Arc<dyn Machines>,
    clock: Arc<dyn Clock>,
    options: Options,
    behaviours: Mutex<Behaviours>,
}

#[derive(Default)]
struct Behaviours {
    by_instance: BTreeMap<String, Behaviour>,
    others: Behaviour,
    ailments: BTreeMap<String, Ailment>,
    /// Told since the last pass: every node is looked at.
    changed: bool,
}

/// A condition that a machine's agent of node health reports as `False` until the machine is rebooted.
#[derive(Debug, Clone)]
struct Ailment {
    condition: String,
    reason: String,
    /// Number of reboots when it was first reported.
    since: Option<u32>,
}

/// Memory from one pass to the next; losing it delays things, nothing more.
#[derive(Default)]
struct Memory {
    notes: Mutex<Notes>,
    fleet: Fleet,
    schedule: Schedule,
}

/// Notes of looks at nodes for later looks at the same node.
#[derive(Default)]
struct Notes {
    heartbeats: BTreeMap<String, Timestamp>,
    machines_missing_since: BTreeMap<String, Timestamp>,
    nodes_missing_since: BTreeMap<String, Timestamp>,
    complaints: BTreeMap<String, String>,
}

/// The machines as they were listed last.
#[derive(Default)]
struct Fleet {
    listed: Arc<Vec<Arc<Machine>>>,
    /// Machines that run, by the names of their nodes.
    running: BTreeMap<String, Arc<Machine>>,
    /// Provider ids of those that are not terminated.
    there: BTreeSet<String>,
}

impl Fleet {
    /// Takes a new list; returns the names of nodes whose machines are others than before.
    fn take(&mut self, listed: Arc<Vec<Arc<Machine>>>) -> BTreeSet<String> {
        if Arc::ptr_eq(&self.listed, &listed) {
            return BTreeSet::new();
        }
        let before: BTreeMap<&str, &Arc<Machine>> =
            self.listed.iter().map(|machine| (machine.instance_id.as_str(), machine)).collect();
        let same = |machine: &Arc<Machine>| {
            let known = before.get(machine.instance_id.as_str());
            known.is_some_and(|known| Arc::ptr_eq(known, machine) || *known == machine)
        };
        let mut changed: BTreeSet<String> = BTreeSet::new();
        changed.extend(listed.iter().filter(|one| !same(one)).map(|one| one.private_dns_name.clone()));
        let now: BTreeSet<&str> = listed.iter().map(|machine| machine.instance_id.as_str()).collect();
        let gone = self.listed.iter().filter(|one| !now.contains(one.instance_id.as_str()));
        changed.extend(gone.map(|one| one.private_dns_name.clone()));
        let running = listed.iter().filter(|machine| machine.state == MachineState::Running);
        self.running = running.map(|one| (one.private_dns_name.clone(), Arc::clone(one))).collect();
        let there = listed.iter().filter(|machine| machine.state != MachineState::Terminated);
        self.there = there.map(|one| one.provider_id.clone()).collect();
        self.listed = listed;
        changed
    }
}

/// Values that every step of a look at a node uses.
struct Pass<'a> {
    agent: &'a Agent,
    view: &'a View,
    fleet: &'a Fleet,
    notes: &'a Mutex<Notes>,
    now: Timestamp,
    /// Time at which the node has to be looked at again.
    next: Option<Timestamp>,
}

impl Agent {
    /// An agent for all machines that `machines` lists.
    pub fn new(client: Client, machines: Arc<dyn Machines>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self { client, machines, clock, options, behaviours: Mutex::default() }
    }

    /// Tells one machine how to behave from now on.
    pub fn behave(&self, instance_id: &str, behaviour: Behaviour) {
        let mut behaviours = self.behaviours.lock();
        behaviours.by_instance.insert(instance_id.to_owned(), behaviour);
        behaviours.changed = true;
    }

    /// Tells all machines that were not told otherwise how to behave from now on.
    pub fn behave_all(&self, behaviour: Behaviour) {
        let mut behaviours = self.behaviours.lock();
        behaviours.others = behaviour;
        behaviours.changed = true;
    }

    /// Lets one machine report `condition` as `False`, for `reason`, until it is rebooted.
    pub fn ail(&self, instance_id: &str, condition: &str, reason: &str) {
        let (condition, reason) = (condition.to_owned(), reason.to_owned());
        let mut behaviours = self.behaviours.lock();
        behaviours.ailments.insert(instance_id.to_owned(), Ailment { condition, reason, since: None });
        behaviours.changed = true;
    }

    /// The ailment of `machine`, and whether it still has it.
    fn ailment(&self, machine: &Machine) -> Option<(Ailment, bool)> {
        let mut behaviours = self.behaviours.lock();
        let ailment = behaviours.ailments.get_mut(&machine.instance_id)?;
        let lasts = *ailment.since.get_or_insert(machine.reboots) == machine.reboots;
        Some((ailment.clone(), lasts))
    }

    fn behaviour(&self, instance_id: &str) -> Behaviour {
        let behaviours = self.behaviours.lock();
        behaviours.by_instance.get(instance_id).copied().unwrap_or(behaviours.others)
    }

    /// Runs until `shutdown`.
    pub async fn run(&self, shutdown: CancellationToken) {
        let view = View::watch(&self.client);
        let mut memory = Memory::default();
        loop {
            let pause = self.pass(&view, &mut memory).await;
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = view.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One step for every node that needs one; returns how long nothing is due.
    async fn pass(&self, view: &View, memory: &mut Memory) -> Duration {
        let now = self.clock.now();
        let mut names = view.take_changed();
        let listed = match self.machines.shared().await {
            Ok(machines) => {
                names.extend(memory.fleet.take(machines));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "cannot list machines");
                false
            }
        };
        if std::mem::take(&mut self.behaviours.lock().changed) {
            names.extend(memory.fleet.running.keys().cloned());
        }
        names.extend(memory.schedule.take_due(now));
        let Memory { notes, fleet, schedule } = memory;
        let looks: Vec<_> = names
            .into_iter()
            .map(|name| {
                let pass = Pass { agent: self, view, fleet, notes, now, next: None };
                pass.look(name, listed)
            })
            .collect();
        let mut looks = stream::iter(looks).buffer_unordered(self.options.at_once);
        while let Some((name, next)) = looks.next().await {
            schedule.set(name, next);
        }
        let due = schedule.first();
        let until = |next: Timestamp| since(now, next);
        due.map_or(self.options.poll, until).min(self.options.poll).max(Duration::from_millis(1))
    }
}

impl Pass<'_> {
    /// One step for a node, whose machine is known if the machines are `listed`; returns the time of the next look.
    async fn look(mut self, name: String, listed: bool) -> (String, Option<Timestamp>) {
        if listed {
            if let Some(machine) = self.fleet.running.get(&name) {
                self.run_machine(machine).await;
            }
            self.release_node(&name).await;
        } else {
            self.again();
        }
        self.collect_pods(&name).await;
        (name, self.next)
    }

    async fn run_machine(&mut self, machine: &Machine) {
        let behaviour = self.agent.behaviour(&machine.instance_id);
        if matches!(behaviour, Behaviour::NeverJoins | Behaviour::Silent) {
            return;
        }
        let name = &machine.private_dns_name;
        let Some(node) = self.view.node(name) else {
            self.join(machine).await;
            return;
        };
        if node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) != Some(&machine.provider_id) {
            tracing::debug!(%name, "waiting for the predecessor's Node to go");
            return;
        }
        if !self.keep_booted(&node, machine).await {
            return;
        }
        self.keep_labels(&node, machine).await;
        self.keep_ready(&node, machine, behaviour).await;
        self.keep_health(&node, machine).await;
        self.beat(&node).await;
        let running = behaviour == Behaviour::Healthy && node::is_ready(&node);
        for pod in self.view.pods_on(name) {
            if pod.metadata.deletion_timestamp.is_some() {
                self.stop_pod(&pod).await;
            } else if running {
                self.start_pod(&pod, machine).await;
                self.end_pod(&pod).await;
            }
        }
    }

    /// Returns whether `at` has come; if not, the node is looked at again then.
    fn is_due(&mut self, at: Timestamp) -> bool {
        if at <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }

    /// The node is looked at again after a poll.
    fn again(&mut self) {
        let _not_yet = self.is_due(later(self.now, self.agent.options.poll));
    }

    /// A refused write is repeated by a later look; races with other writers are not worth a word.
    fn report<T>(&mut self, what: &str, name: &str, result: kube::Result<T>) {
        let Err(error) = result else { return };
        self.again();
        match error {
            kube::Error::Api(status) if matches!(status.code, 404 | 409) => {}
            error => tracing::warn!(%name, %error, "cannot {what}"),
        }
    }

    /// Deletes exactly this pod, without grace.
    async fn remove_pod(&mut self, pod: &Pod) {
        let pods: Api<Pod> = Api::namespaced(self.agent.client.clone(), &pod.namespace().unwrap_or_default());
        let only_this = kube::api::Preconditions { uid: pod.uid(), resource_version: None };
        let params =
            DeleteParams { preconditions: Some(only_this), ..DeleteParams::default().grace_period(0) };
        let removed = pods.delete(&pod.name_any(), &params).await;
        self.report("remove pod", &pod.name_any(), removed);
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.agent.client.clone())
    }
}
