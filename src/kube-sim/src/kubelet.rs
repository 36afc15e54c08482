//! A node agent that stands in for kubelet on every machine of an account.
//!
//! It runs against any API server: the one in this crate for the embedded demo, a real kube-apiserver for the
//! end-to-end suite. For every running machine it reads the user data and joins a Node with exactly what that says;
//! it runs the pods bound to its nodes, stops them when they are deleted, and goes silent with its machine.
//!
//! Everything is level-triggered: a pass compares what is with what should be and does one step towards it, so a
//! failed call or a restart costs one pass. Passes start when something changes, when something is due, and at least
//! once per [`Options::poll`].

mod allocatable;
mod cloud;
mod ec2;
mod heartbeat;
mod machine;
mod node;
mod pods;
mod view;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_model::Clock;
use kube::{Api, Client, ResourceExt, api::DeleteParams};
use tokio_util::sync::CancellationToken;

pub use self::ec2::Ec2Machines;
pub use self::machine::{Machine, MachineState, Machines};
use self::view::View;

/// How the machines behave. All durations are time of the clock.
#[derive(Clone)]
pub struct Options {
    /// Only machines whose user data names this cluster join; empty for any.
    pub cluster_name: String,
    /// Kubelet version that nodes report, for example `v1.35.0`.
    pub version: String,
    /// From launch until the Node is registered.
    pub boot: Duration,
    /// From registration until the Node is ready.
    pub ready: Duration,
    /// From binding until a pod runs.
    pub pod_start: Duration,
    /// From deletion until a pod has stopped, at most its grace period; `None` for the whole grace period.
    pub pod_stop: Option<Duration>,
    /// Between two heartbeats of a node.
    pub heartbeat: Duration,
    /// Longest time between two passes.
    pub poll: Duration,
    /// From the moment the node of a bound pod is missing until the pod is removed.
    pub pod_collection: Duration,
    /// Delete Nodes whose machine is gone, as a cloud controller manager does.
    pub cloud_node_lifecycle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cluster_name: String::new(),
            version: "v1.35.0".to_owned(),
            boot: Duration::from_secs(30),
            ready: Duration::from_secs(10),
            pod_start: Duration::from_secs(2),
            pod_stop: None,
            heartbeat: Duration::from_secs(10),
            poll: Duration::from_secs(1),
            pod_collection: Duration::from_secs(10),
            cloud_node_lifecycle: true,
        }
    }
}

/// What one machine does differently.
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
}

/// What a pass remembers for the next one; losing it delays things, nothing more.
#[derive(Default)]
struct Memory {
    heartbeats: BTreeMap<String, Timestamp>,
    machines_missing_since: BTreeMap<String, Timestamp>,
    nodes_missing_since: BTreeMap<String, Timestamp>,
    complaints: BTreeMap<String, String>,
}

/// What every step of a pass uses.
struct Pass<'a> {
    agent: &'a Agent,
    view: &'a View,
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
    now: Timestamp,
    next: Option<Timestamp>,
}

impl Agent {
    /// An agent for all machines that `machines` lists.
    pub fn new(client: Client, machines: Arc<dyn Machines>, clock: Arc<dyn Clock>, options: Options) -> Self {
        Self { client, machines, clock, options, behaviours: Mutex::default() }
    }

    /// Tells one machine how to behave from now on.
    pub fn behave(&self, instance_id: &str, behaviour: Behaviour) {
        self.behaviours().by_instance.insert(instance_id.to_owned(), behaviour);
    }

    /// Tells all machines that were not told otherwise how to behave from now on.
    pub fn behave_all(&self, behaviour: Behaviour) {
        self.behaviours().others = behaviour;
    }

    fn behaviour(&self, instance_id: &str) -> Behaviour {
        let behaviours = self.behaviours();
        behaviours.by_instance.get(instance_id).copied().unwrap_or(behaviours.others)
    }

    fn behaviours(&self) -> std::sync::MutexGuard<'_, Behaviours> {
        self.behaviours.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// One step for everything; returns how long nothing is due.
    async fn pass(&self, view: &View, memory: &mut Memory) -> Duration {
        let mut pass =
            Pass { agent: self, view, pods: view.pods_by_node(), now: self.clock.now(), next: None };
        match self.machines.list().await {
            Ok(machines) => {
                for machine in machines.iter().filter(|m| m.state == MachineState::Running) {
                    pass.run_machine(machine, memory).await;
                }
                pass.release_nodes(&machines, memory).await;
            }
            Err(error) => tracing::warn!(%error, "cannot list machines"),
        }
        pass.collect_pods(memory).await;
        pass.pause()
    }
}

impl Pass<'_> {
    async fn run_machine(&mut self, machine: &Machine, memory: &mut Memory) {
        let behaviour = self.agent.behaviour(&machine.instance_id);
        if matches!(behaviour, Behaviour::NeverJoins | Behaviour::Silent) {
            return;
        }
        let name = &machine.private_dns_name;
        let Some(node) = self.view.node(name) else {
            self.join(machine, memory).await;
            return;
        };
        if node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) != Some(&machine.provider_id) {
            tracing::debug!(%name, "waiting for the predecessor's Node to go");
            return;
        }
        self.keep_ready(&node, machine, behaviour).await;
        self.beat(&node, memory).await;
        let running = behaviour == Behaviour::Healthy && node::is_ready(&node);
        for pod in self.pods.get(name).cloned().unwrap_or_default() {
            if pod.metadata.deletion_timestamp.is_some() {
                self.stop_pod(&pod).await;
            } else if running {
                self.start_pod(&pod, machine).await;
            }
        }
    }

    /// Whether `at` has come; if not, the next pass starts then.
    fn is_due(&mut self, at: Timestamp) -> bool {
        if at <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }

    fn pause(&self) -> Duration {
        let until = |next: Timestamp| Duration::try_from(next.duration_since(self.now)).unwrap_or_default();
        let due = self.next.map_or(self.agent.options.poll, until);
        due.min(self.agent.options.poll).max(Duration::from_millis(1))
    }

    /// Deletes exactly this pod, without grace.
    async fn remove_pod(&self, pod: &Pod) {
        let pods: Api<Pod> = Api::namespaced(self.agent.client.clone(), &pod.namespace().unwrap_or_default());
        let only_this = kube::api::Preconditions { uid: pod.uid(), resource_version: None };
        let params =
            DeleteParams { preconditions: Some(only_this), ..DeleteParams::default().grace_period(0) };
        report("remove pod", &pod.name_any(), pods.delete(&pod.name_any(), &params).await);
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.agent.client.clone())
    }
}

fn after(at: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    at.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// A refused write is repeated by a later pass; races with other writers are not worth a word.
fn report<T>(what: &str, name: &str, result: kube::Result<T>) {
    match result {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => tracing::warn!(%name, %error, "cannot {what}"),
    }
}
