//! The format of scenario files: a field for everything a file may say, with the words that editors show.
//!
//! One of several fields is meant to be given in [`Step`] and [`Expectation`]; which is checked when a file is read
//! (`read`), because serde refuses unknown fields only where every field is known.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use super::value::{Amount, Dollars, Span};
use crate::history::Fault;

/// A scenario: a cluster with its manifests, what happens to it and when, and what has to be true of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    /// What it is called, in a sentence.
    pub name: String,
    /// Why it is there, for those who read it.
    #[serde(default)]
    #[expect(dead_code, reason = "read by people")]
    pub(crate) about: Option<String>,
    /// What the cluster begins with: files beside this one, or objects in place.
    #[schemars(with = "Vec<Manifest>")]
    pub(crate) manifests: Vec<Spanned<Value>>,
    /// Virtual time it takes.
    pub duration: Span,
    /// Decides delays, names and what faults strike.
    #[serde(default = "one")]
    pub seed: u64,
    /// When it begins, as an RFC 3339 time; schedules of budgets go by it.
    #[serde(default = "start")]
    #[schemars(with = "String")]
    pub start: jiff::Timestamp,
    /// Name of the cluster; by default what the EC2NodeClasses have in their `karpenter.sh/discovery` tags, or demo.
    #[serde(default)]
    pub(crate) cluster: Option<String>,
    /// Region of the account, of which there are zones a, b and c; by default that of the zones the manifests name, or us-west-2.
    #[serde(default)]
    pub(crate) region: Option<String>,
    /// Instance types that the account sells.
    #[serde(default)]
    pub(crate) instance_types: Range,
    /// Settings of the controller that differ from their defaults, by the names of docs/settings.md without dashes in front.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What happens.
    #[serde(default)]
    #[schemars(with = "Vec<Step>")]
    pub(crate) timeline: Vec<Spanned<Step>>,
    /// What goes wrong between the controller and its surroundings, drawn request by request.
    #[serde(default)]
    #[schemars(with = "Vec<FaultSpan>")]
    pub faults: Vec<Spanned<FaultSpan>>,
    /// What has to be true.
    #[schemars(with = "Vec<Expectation>")]
    pub(crate) expect: Vec<Spanned<Expectation>>,
}

/// Instance types that the account of a scenario sells.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Range {
    /// Some hundred of the common families.
    #[default]
    Usual,
    /// Every type of us-east-1, at the prices of the public list.
    All,
}

fn one() -> u64 {
    1
}

/// Start of scenarios that do not state one.
pub(super) fn start() -> jiff::Timestamp {
    // 2026-01-01T12:00:00Z, a Thursday.
    jiff::Timestamp::constant(1_767_268_800, 0)
}

/// A path, or an object.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Manifest {
    /// A file or folder, seen from the folder of the scenario
    Path(String),
    /// A Kubernetes object
    Object(serde_json::Map<String, Value>),
}

/// Actions of a step, of which it has one.
const ACTIONS: [&str; 19] = [
    "scale",
    "wave",
    "apply",
    "delete",
    "removeFinalizers",
    "interrupt",
    "rebalance",
    "terminate",
    "stop",
    "silence",
    "unhealthy",
    "differ",
    "capacityLoss",
    "price",
    "imageRelease",
    "doomedBoots",
    "neverJoin",
    "restart",
    "disconnect",
];

/// Subjects of an expectation, of which it has one.
const SUBJECTS: [&str; 7] = ["cost", "realised", "nodes", "pods", "pendingTime", "disruptions", "events"];

/// Tells editors that one of some fields is meant to be there.
fn one_of(schema: &mut Schema, fields: &[&str]) {
    let each: Vec<Value> = fields.iter().map(|field| json!({"required": [field]})).collect();
    schema.insert("oneOf".to_owned(), each.into());
}

/// Something happens at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = |schema: &mut Schema| one_of(schema, &ACTIONS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Step {
    /// Since the beginning.
    pub(crate) at: Span,
    /// It happens again, so long after, so many times in all.
    #[serde(default)]
    pub(crate) repeat: Option<Repeat>,
    /// A Deployment gets another number of replicas.
    #[serde(default)]
    pub(crate) scale: Option<Scale>,
    /// A Deployment gets one number of replicas after the other: traffic.
    #[serde(default)]
    pub(crate) wave: Option<Wave>,
    /// Manifests are applied: files, or objects in place.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Manifest>>")]
    pub(crate) apply: Option<Vec<Spanned<Value>>>,
    /// An object is deleted.
    #[serde(default)]
    pub(crate) delete: Option<Object>,
    /// Another client takes every finalizer off an object.
    #[serde(default)]
    pub(crate) remove_finalizers: Option<Object>,
    /// EC2 takes spot instances back, with the usual two minutes of notice.
    #[serde(default)]
    pub(crate) interrupt: Option<Machines>,
    /// EC2 recommends to leave spot instances, whose interruption has become likelier.
    #[serde(default)]
    pub(crate) rebalance: Option<Machines>,
    /// Instances end without notice.
    #[serde(default)]
    pub(crate) terminate: Option<Machines>,
    /// Another client stops instances, which keep what they have and cost nothing.
    #[serde(default)]
    pub(crate) stop: Option<Machines>,
    /// Kubelets of instances fall silent.
    #[serde(default)]
    pub(crate) silence: Option<Machines>,
    /// The agents of node health report a condition, until the machine is rebooted.
    #[serde(default)]
    pub(crate) unhealthy: Option<Unhealthy>,
    /// Machines launched from then on differ from what their type, image and user data promise. The last of the steps that
    /// mean a machine counts.
    #[serde(default)]
    pub(crate) differ: Option<Differ>,
    /// EC2 has none of these to sell.
    #[serde(default)]
    pub(crate) capacity_loss: Option<CapacityLoss>,
    /// Prices change.
    #[serde(default)]
    pub(crate) price: Option<PriceChange>,
    /// AWS publishes a newer release of the images that aliases with `@latest` follow.
    #[serde(default)]
    pub(crate) image_release: Option<ImageRelease>,
    /// So many of the next instances end while they boot.
    #[serde(default)]
    pub(crate) doomed_boots: Option<u32>,
    /// Machines that boot do not join, as long as it lasts.
    #[serde(default)]
    pub(crate) never_join: Option<For>,
    /// The controller dies and is started again.
    #[serde(default)]
    pub(crate) restart: Option<Nothing>,
    /// The controller is cut off from API server and AWS.
    #[serde(default)]
    pub(crate) disconnect: Option<For>,
}

/// Again and again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Repeat {
    /// From one time to the next.
    pub(crate) every: Span,
    /// In all, the first included.
    pub(crate) times: u32,
}

/// Nothing more to say: `{}`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// For how long.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct For {
    /// How long it lasts.
    pub r#for: Span,
}

/// Replicas of a Deployment.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// Its name.
    pub deployment: String,
    /// Its namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How many.
    pub replicas: u32,
}

/// Replicas of a Deployment over time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Wave {
    /// Its name.
    pub(crate) deployment: String,
    /// Its namespace.
    #[serde(default = "default_namespace")]
    pub(crate) namespace: String,
    /// One number after the other.
    pub(crate) replicas: Vec<u32>,
    /// From one to the next.
    pub(crate) every: Span,
}

/// An object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Object {
    /// Its kind, as in manifests.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace, for kinds that have one.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

/// Instances of nodes, the oldest first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machines {
    /// At most so many; all of them by default.
    #[serde(default)]
    pub count: Option<usize>,
    /// Name of their NodePool.
    #[serde(default)]
    pub pool: Option<String>,
    /// Name of their zone: us-west-2a
    #[serde(default)]
    pub zone: Option<String>,
    /// A type, or a family with a star: m7i.*
    #[serde(default)]
    pub instance_type: Option<String>,
    /// How they are paid for.
    #[serde(default)]
    pub capacity_type: Option<CapacityType>,
}

/// Machines that are unhealthy.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unhealthy {
    /// A condition that says `False` from then on: `AcceleratedHardwareReady`
    pub condition: String,
    /// Its reason: `NvidiaXID46Error`
    pub reason: String,
    /// The machines.
    #[serde(default)]
    pub machines: Machines,
}

/// Machines, and how they differ from what is foreseen; without the latter, they do not any more.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Differ {
    /// At most so many, the first that come; all of them by default.
    #[serde(default)]
    pub(crate) count: Option<usize>,
    /// Name of their NodePool.
    #[serde(default)]
    pub(crate) pool: Option<String>,
    /// Name of their zone: us-west-2a
    #[serde(default)]
    pub(crate) zone: Option<String>,
    /// A type, or a family with a star: m7i.*
    #[serde(default)]
    pub(crate) instance_type: Option<String>,
    /// How they are paid for.
    #[serde(default)]
    pub(crate) capacity_type: Option<CapacityType>,
    /// What the hardware has more or less, by resource: -10%, -500m, 2Gi. Reservations of the kubelet are taken off
    /// afterwards.
    #[serde(default)]
    pub(crate) hardware: BTreeMap<String, Amount>,
    /// What the node offers to pods more or less, by resource, whatever the hardware has: -10%, -500m, 2Gi
    #[serde(default)]
    pub(crate) room: BTreeMap<String, Amount>,
    /// Labels that something in the cluster sets on the node, and keeps there.
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    /// Labels that it takes off, and keeps off.
    #[serde(default)]
    pub(crate) without_labels: Vec<String>,
    /// Taints the node has from the beginning on, until something takes them off.
    #[serde(default)]
    pub(crate) taints: Vec<NodeTaint>,
    /// Volumes that the node attaches at most, as its driver states it; any number by default.
    #[serde(default)]
    pub(crate) volumes: Option<u32>,
    /// So much later the node is registered.
    #[serde(default)]
    pub(crate) joins_later: Span,
    /// So much later, after its registration, the node is ready.
    #[serde(default)]
    pub(crate) ready_later: Span,
    /// The node stops being ready from time to time.
    #[serde(default)]
    pub(crate) flaps: Option<Flapping>,
}

/// A taint of a node.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeTaint {
    pub(crate) key: String,
    #[serde(default)]
    pub(crate) value: String,
    pub(crate) effect: TaintEffect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
pub(crate) enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

/// How often a node stops being ready, and for how long.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Flapping {
    /// From one time to the next.
    pub(crate) every: Span,
    /// How long it is not ready each time.
    pub(crate) r#for: Span,
}

/// How capacity is paid for.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// EC2 may take it back.
    Spot,
    /// EC2 leaves it.
    OnDemand,
}

impl CapacityType {
    /// As labels have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

/// Offerings without capacity. What is left out is any.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CapacityLoss {
    /// How it would be paid for.
    #[serde(default)]
    pub capacity_type: Option<CapacityType>,
    /// Name of the zone: us-west-2a
    #[serde(default)]
    pub zone: Option<String>,
    /// A type: m7i.large
    #[serde(default)]
    pub instance_type: Option<String>,
    /// How long it lasts; to the end by default.
    #[serde(default)]
    pub r#for: Option<Span>,
}

/// Prices of offerings. What is left out is any.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PriceChange {
    /// How it is paid for.
    #[serde(default)]
    pub capacity_type: Option<CapacityType>,
    /// Spot prices alone differ by zone.
    #[serde(default)]
    pub zone: Option<String>,
    /// A type: m7i.large
    #[serde(default)]
    pub instance_type: Option<String>,
    /// Of what each costs now: 150 is half as much again.
    pub percent: u64,
}

/// A release of images.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageRelease {
    /// What it is called: v20260115
    pub version: String,
}

/// A fault, and when it is possible.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultSpan {
    /// Which one.
    pub fault: FaultName,
    /// From then on; the beginning by default.
    #[serde(default)]
    pub from: Span,
    /// Until then; the end by default.
    #[serde(default)]
    pub until: Option<Span>,
}

/// What can go wrong with requests. The rest of what can is said in the timeline.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub enum FaultName {
    /// Requests to the API server and their answers take up to two seconds each.
    KubeLatency,
    /// The API server answers 409, 429, 500 or 503 instead of doing what was asked.
    KubeErrors,
    /// The API server does what was asked; the connection ends before the answer.
    KubeLostAnswers,
    /// The API server does what was asked and answers after more than a minute.
    KubeHangs,
    /// Watches end, in the middle of an event or after it.
    WatchCuts,
    /// Events of a watch arrive up to ten seconds late.
    WatchLate,
    /// Events of a watch arrive twice.
    WatchRepeats,
    /// Bookmarks do not arrive.
    WatchSilence,
    /// Calls of AWS take up to five seconds.
    AwsLatency,
    /// AWS throttles or answers with errors of its own.
    AwsErrors,
    /// AWS does what was asked; the connection ends before the answer.
    AwsLostAnswers,
    /// Descriptions of instances are out of date, and new instances are not known yet.
    AwsStale,
}

impl From<FaultName> for Fault {
    fn from(name: FaultName) -> Self {
        match name {
            FaultName::KubeLatency => Self::KubeLatency,
            FaultName::KubeErrors => Self::KubeErrors,
            FaultName::KubeLostAnswers => Self::KubeLostAnswers,
            FaultName::KubeHangs => Self::KubeHangs,
            FaultName::WatchCuts => Self::WatchCuts,
            FaultName::WatchLate => Self::WatchLate,
            FaultName::WatchRepeats => Self::WatchRepeats,
            FaultName::WatchSilence => Self::WatchSilence,
            FaultName::AwsLatency => Self::AwsLatency,
            FaultName::AwsErrors => Self::AwsErrors,
            FaultName::AwsLostAnswers => Self::AwsLostAnswers,
            FaultName::AwsStale => Self::AwsStale,
        }
    }
}

/// Something has to be true: of the end, unless `at` or `when` says otherwise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = |schema: &mut Schema| one_of(schema, &SUBJECTS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Expectation {
    /// What it is for; part of the message when it is not met.
    #[serde(default)]
    pub(crate) because: Option<String>,
    /// At this time.
    #[serde(default)]
    pub(crate) at: Option<Span>,
    /// All the time, or at some time.
    #[serde(default)]
    pub(crate) when: Option<When>,
    /// With `when`, and for what is counted: from then on.
    #[serde(default)]
    pub(crate) from: Option<Span>,
    /// With `when`, and for what is counted: until then.
    #[serde(default)]
    pub(crate) until: Option<Span>,
    /// What the instances of the account cost.
    #[serde(default)]
    pub(crate) cost: Option<Cost>,
    /// What the instances cost an hour at the end, as a multiple of one plan for all pods with no node there.
    #[serde(default)]
    pub(crate) realised: Option<Realised>,
    /// Number of nodes.
    #[serde(default)]
    pub(crate) nodes: Option<Nodes>,
    /// Number of pods.
    #[serde(default)]
    pub(crate) pods: Option<Pods>,
    /// How long pods waited from their creation until they ran; those that still wait count with the time so far.
    #[serde(default)]
    pub(crate) pending_time: Option<PendingTime>,
    /// Nodes that were removed.
    #[serde(default)]
    pub(crate) disruptions: Option<Disruptions>,
    /// Events of Kubernetes that were written.
    #[serde(default)]
    pub(crate) events: Option<Events>,
}

impl Machines {
    /// Those of them that EC2 may take back.
    #[must_use]
    pub fn on_spot(&self) -> Self {
        Self { capacity_type: Some(CapacityType::Spot), ..self.clone() }
    }
}

/// All the time, or at some time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum When {
    Always,
    Eventually,
}

/// What instances cost: list prices of the account in memory, for what is pending or running.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Cost {
    /// Dollars per hour at one time.
    #[serde(default)]
    pub(crate) per_hour: Option<Money>,
    /// Dollars from the beginning on.
    #[serde(default)]
    pub(crate) total: Option<Money>,
}

/// Bounds of an amount of money.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Money {
    #[serde(default)]
    pub(crate) at_most: Option<Dollars>,
    #[serde(default)]
    pub(crate) at_least: Option<Dollars>,
}

/// Bound of a ratio of costs: 1.01 is one in a hundred more than one plan costs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Realised {
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub(crate) at_most: Option<f64>,
}

/// Number of nodes that are registered. What is left out is any.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Nodes {
    #[serde(default)]
    pub(crate) pool: Option<String>,
    #[serde(default)]
    pub(crate) zone: Option<String>,
    /// A type, or a family with a star: m7i.*
    #[serde(default)]
    pub(crate) instance_type: Option<String>,
    #[serde(default)]
    pub(crate) capacity_type: Option<CapacityType>,
    /// amd64 or arm64
    #[serde(default)]
    pub(crate) arch: Option<String>,
    #[serde(default)]
    pub(crate) exactly: Option<u64>,
    #[serde(default)]
    pub(crate) at_most: Option<u64>,
    #[serde(default)]
    pub(crate) at_least: Option<u64>,
}

/// Number of pods. What is left out is any.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pods {
    /// Running by default.
    #[serde(default)]
    pub(crate) phase: Phase,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    /// Name of the Deployment, DaemonSet or pod.
    #[serde(default)]
    pub(crate) workload: Option<String>,
    #[serde(default)]
    pub(crate) pool: Option<String>,
    #[serde(default)]
    pub(crate) zone: Option<String>,
    /// A type, or a family with a star: m7i.*
    #[serde(default)]
    pub(crate) instance_type: Option<String>,
    #[serde(default)]
    pub(crate) capacity_type: Option<CapacityType>,
    #[serde(default)]
    pub(crate) exactly: Option<u64>,
    #[serde(default)]
    pub(crate) at_most: Option<u64>,
    #[serde(default)]
    pub(crate) at_least: Option<u64>,
}

/// Whether a pod runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    #[default]
    Running,
    Pending,
}

/// Longest times: of half of the pods, of 90 and 99 in a hundred, of all.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PendingTime {
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    /// Name of the Deployment or pod; pods of a DaemonSet never count.
    #[serde(default)]
    pub(crate) workload: Option<String>,
    #[serde(default)]
    pub(crate) p50: Option<Span>,
    #[serde(default)]
    pub(crate) p90: Option<Span>,
    #[serde(default)]
    pub(crate) p99: Option<Span>,
    #[serde(default)]
    pub(crate) max: Option<Span>,
}

/// Number of nodes that were removed. What is left out is any.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Disruptions {
    #[serde(default)]
    pub(crate) reason: Option<Reason>,
    #[serde(default)]
    pub(crate) pool: Option<String>,
    #[serde(default)]
    pub(crate) exactly: Option<u64>,
    #[serde(default)]
    pub(crate) at_most: Option<u64>,
    #[serde(default)]
    pub(crate) at_least: Option<u64>,
}

/// Why a node is removed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
pub(crate) enum Reason {
    Empty,
    Underutilized,
    Drifted,
    /// It was broken for too long.
    Unhealthy,
    /// Its time was up.
    Expired,
    /// EC2 took it back, or it ended.
    Interrupted,
    /// Anything else: deleted by another client, never joined, its machine is gone.
    Other,
}

/// How often events were written. What is left out is any.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Events {
    /// docs/events.md has them all.
    pub(crate) reason: String,
    /// Kind of the object it is about.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Name of the object it is about.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Part of its message.
    #[serde(default)]
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) exactly: Option<u64>,
    #[serde(default)]
    pub(crate) at_most: Option<u64>,
    #[serde(default)]
    pub(crate) at_least: Option<u64>,
}
