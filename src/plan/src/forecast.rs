//! Forecast: the decisions of the engine for a snapshot, as a structure for people and tools.
//!
//! The engine decides and the audit checks, as in the controller; nothing is decided here. Commands that must be quiet
//! first are given with the instant of their second look, at which the controller may still find a reason against them.

mod difference;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_engine::disrupt::{BudgetState, Decision, Memory, Standing, decide};
use karpenter_lifecycle::claim::expiration;
use karpenter_lifecycle::step::{DeletionCause, Effect};
use karpenter_model::names::label;
use karpenter_model::plan::command::{Candidate, Command};
use karpenter_model::report::{Reason, ReasonCode};
use karpenter_model::{
    Claim, ClaimName, ConditionType, DisruptionReason, InstanceType, Launch, Node, NodeName, NodeOutcome,
    Nomination, OfferingRef, Plan, Pod, PodKey, PodOutcome, PoolName, PoolOutcome, Price, Report, Resources,
    Snapshot, Target,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::help::{Help, Helper, Refusal, pool_conflict};
use crate::picture::{Decided, Picture, price_of};
use crate::settle::MayDrift;
use crate::static_pools::{StaticPools, static_pools};

pub use difference::Difference;

/// Everything that would happen now, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// The instant it is for.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// In one word, as the exit code says.
    pub verdict: Verdict,
    /// Prices per hour.
    #[schemars(with = "WrittenPrices")]
    pub price: Prices,
    /// Nodes that would be launched for waiting pods, in the order of the plan.
    pub launches: Vec<Launched>,
    /// Nodes that would go, and what takes their place, in the order of the methods.
    pub removals: Vec<Removal>,
    /// Nodes that are older than they may be and go whatever runs on them.
    pub expired: Vec<Machine>,
    /// Nodes of pools with a fixed number that are too many.
    pub surplus: Vec<Machine>,
    /// Nodes of pools that are assumed to be deleted.
    pub deleted: Vec<Machine>,
    /// Pods that would stay pending, by name.
    pub pending: Vec<Waiting>,
    /// Pods that fit on nodes that are there or coming.
    pub nominated: Vec<Nominated>,
    /// Nodes that have drifted and go as soon as budgets allow, by name.
    pub later: Vec<Staying>,
    /// Nodes of which only the account can tell whether they drift.
    pub may_drift: Vec<MayDrift>,
    /// Nodes that stay besides, with the reason of each, by name.
    pub staying: Vec<Staying>,
    /// Pools and their activity, by name.
    pub pools: Vec<PoolLine>,
    /// Rules that a decision broke: what they are about would not be carried out. A finding is a defect of the engine.
    pub findings: Vec<String>,
    /// Remarks on how the plan was made.
    pub notes: Vec<String>,
    /// The effect of what is assumed; `null` when nothing is.
    pub because: Option<Difference>,
    /// Data of the page's drawing.
    #[serde(skip)]
    pub(crate) picture: Picture,
}

/// The plan in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing would be launched or removed, and no pod waits.
    Unchanged,
    /// Nothing is known that would be launched or removed, and nodes may drift, which only the account can tell.
    Unknown,
    /// Something would be launched, replaced or removed, at once or as budgets allow.
    Changes,
    /// Pods would stay pending, whatever else happens.
    PodsWait,
}

impl Verdict {
    /// The exit code that stands for it.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Unchanged => 0,
            Self::Unknown => 4,
            Self::Changes => 2,
            Self::PodsWait => 3,
        }
    }
}

/// Hourly prices of the managed nodes, as far as their offerings are known. The nodes are those of the picture. In JSON a sum of
/// nothing but unknown prices is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "WrittenPrices")]
pub struct Prices {
    /// The nodes there are, also those that are leaving already.
    pub now: Price,
    /// Price of the nodes that neither are leaving nor would go, and of what would be launched, each launch at its cheapest.
    /// Nodes that commands replace count by their savings.
    pub after: Price,
    /// Nodes whose price is not known and counts as zero.
    pub unknown_nodes: usize,
    /// Those of them that stay.
    pub unknown_after: usize,
}

/// [`Prices`] as they are written.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WrittenPrices {
    /// The nodes there are, also those that are leaving already; `null` when no price is known.
    #[schemars(with = "Option<String>")]
    now: Option<Price>,
    /// Nodes that stay and nodes that are launched; `null` when no price is known.
    #[schemars(with = "Option<String>")]
    after: Option<Price>,
    /// Nodes whose price is not known and counts as zero.
    unknown_nodes: usize,
    /// Those of them that stay.
    unknown_after: usize,
}

impl From<Prices> for WrittenPrices {
    fn from(prices: Prices) -> Self {
        let (now, after) = (prices.known_now(), prices.known_after());
        let Prices { unknown_nodes, unknown_after, .. } = prices;
        Self { now, after, unknown_nodes, unknown_after }
    }
}

/// A node that would be launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Launched {
    #[schemars(with = "String")]
    pub pool: PoolName,
    /// The cheapest way to launch it as far as known: `instanceType`, `zone`, `capacityType` and `price`.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub cheapest: Option<OfferingRef>,
    /// Every type the launch may use, in price order; none means whatever the requirements allow.
    pub instance_types: Vec<String>,
    /// Requirements of the claim.
    pub requirements: Vec<String>,
    /// Requests of its pods and daemons.
    #[schemars(with = "BTreeMap<String, String>")]
    pub requests: Resources,
    pub pods: Vec<String>,
}

/// Nodes that would go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// Reason for the removal.
    #[schemars(with = "String")]
    pub reason: DisruptionReason,
    /// Method that chose the nodes.
    pub method: String,
    /// Nodes that go.
    pub nodes: Vec<Machine>,
    /// Nodes that take their place.
    pub replacements: Vec<Launched>,
    /// Pods that move to nodes there are.
    pub moves: Vec<Nominated>,
    /// Savings per hour, negative when it costs more; `None` when the price of one of the nodes is not known.
    #[schemars(with = "Option<String>")]
    pub savings: Option<Price>,
    /// The earliest start; later than now when a second look comes first.
    #[schemars(with = "String")]
    pub not_before: Timestamp,
}

/// A node by what people know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    pub name: String,
    #[schemars(with = "Option<String>")]
    pub pool: Option<PoolName>,
    pub instance_type: Option<String>,
    pub zone: Option<String>,
    pub capacity_type: Option<String>,
    /// Price per hour; `None` when nothing says what it costs.
    #[schemars(with = "Option<String>")]
    pub price: Option<Price>,
    /// Pods on it that need another place.
    pub pods: Vec<String>,
}

/// A pod that would stay pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub pod: String,
    /// Reasons, the pool that comes closest first.
    pub reasons: Vec<Why>,
    /// Changes that would help, most promising first.
    pub help: Vec<String>,
}

/// A reason, whose it is, and its stable code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// One of those in docs/reasons.md.
    #[schemars(with = "String")]
    pub code: ReasonCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pool: Option<PoolName>,
    /// The parts of pod and pool that do not agree, where they are known; `text` has everything that was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    pub text: String,
}

/// A pod and the node that would take it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nominated {
    pub pod: String,
    pub node: String,
}

/// A node that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Staying {
    pub node: String,
    pub reason: Why,
}

/// Activity of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolLine {
    #[schemars(with = "String")]
    pub name: PoolName,
    pub weight: i32,
    pub nodes: usize,
    /// Nodes launched for waiting pods.
    pub launches: u32,
    /// Instance types it can launch now.
    pub instance_types: usize,
    /// Reason why it takes no part, if it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Why>,
    /// Nodes that may go at once for each reason, of those that count; `null` is no limit.
    pub budgets: BTreeMap<String, Option<u32>>,
}

/// Forecasts the changes to the cluster of `snapshot`; `notes` are passed on.
pub fn forecast(snapshot: &Snapshot, notes: Vec<String>) -> Forecast {
    forecast_without(snapshot, &BTreeSet::new(), notes)
}

/// Forecasts the changes as [`forecast`] does, while the claims of `deleted_pools` go with those.
pub(crate) fn forecast_without(
    snapshot: &Snapshot,
    deleted_pools: &BTreeSet<PoolName>,
    mut notes: Vec<String>,
) -> Forecast {
    let (snapshot, expired) = with_claims_deleted(snapshot, |claim| {
        let step = expiration::step(claim, snapshot.now);
        step.effects.contains(&Effect::DeleteClaim(DeletionCause::Expired))
    });
    // A claim that is being deleted already goes whatever becomes of its pool.
    let (snapshot, deleted) = with_claims_deleted(&snapshot, |claim| {
        claim.deletion.is_none() && claim.pool.as_ref().is_some_and(|pool| deleted_pools.contains(pool))
    });
    let StaticPools { launches: of_static_pools, snapshot, surplus, notes: limited } =
        static_pools(&snapshot);
    notes.extend(limited);
    let snapshot = &snapshot;
    let (plan, report) = karpenter_engine::plan(snapshot);
    let mut findings = Vec::new();
    let plan = sound_plan(snapshot, plan, &mut findings);
    // Whatever else is decided is decided after this plan was carried out.
    let snapshot = &nominated_in(snapshot, &plan);
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let decision = decide(snapshot, &mut Memory::default(), &standing);
    let commands = karpenter_audit::sound_commands(snapshot, decision.commands.clone(), |plan| {
        let wrong = karpenter_audit::audit(snapshot, plan);
        findings.extend(wrong.iter().map(ToString::to_string));
        wrong.is_empty()
    });
    notes.extend(without_room(snapshot, &report));
    let pending = waiting(snapshot, &report);
    let launches: Vec<Launch> = of_static_pools.into_iter().chain(plan.launches).collect();
    let gone = &(&expired | &surplus) | &deleted;
    let picture = Picture::of(&Decided {
        snapshot,
        launches: &launches,
        nominations: &plan.nominations,
        commands: &commands,
        gone: &gone,
    });
    let nominated = plan.nominations.iter().map(nominated).collect();
    let (later, staying) = staying(snapshot, &decision, &gone);
    let mut forecast = Forecast {
        at: snapshot.now,
        verdict: Verdict::Unchanged,
        price: prices(snapshot, &launches, &commands),
        launches: launches.iter().map(launched).collect(),
        removals: commands.iter().map(|command| removal(command, snapshot)).collect(),
        expired: machines(snapshot, &expired),
        surplus: machines(snapshot, &surplus),
        deleted: machines(snapshot, &deleted),
        pending,
        nominated,
        later,
        may_drift: Vec::new(),
        staying,
        pools: pools(snapshot, &report, &decision),
        findings,
        notes,
        because: None,
        picture,
    };
    forecast.verdict = forecast.decided();
    forecast
}

impl Forecast {
    /// Returns the forecast with nodes of which only the account can tell whether they drift.
    #[must_use]
    pub(crate) fn with_may_drift(mut self, may_drift: Vec<MayDrift>) -> Self {
        if self.verdict == Verdict::Unchanged && !may_drift.is_empty() {
            self.verdict = Verdict::Unknown;
        }
        self.may_drift = may_drift;
        self
    }

    /// Returns the forecast with, of pods and of nodes launched for them, those of a namespace alone.
    #[must_use]
    pub fn of_namespace(mut self, namespace: &str) -> Self {
        let is_own = |pod: &String| pod.split_once('/').is_some_and(|(own, _)| own == namespace);
        self.pending.retain(|waiting| is_own(&waiting.pod));
        self.nominated.retain(|nominated| is_own(&nominated.pod));
        self.launches.retain(|launched| launched.pods.iter().any(is_own));
        self.verdict = self.decided();
        self.notes.push(format!(
            "pods of other namespaces than `{namespace}`, and nodes for these alone, are planned and not printed; prices are of \
             everything"
        ));
        let may_drift = std::mem::take(&mut self.may_drift);
        self.with_may_drift(may_drift)
    }

    fn decided(&self) -> Verdict {
        match (self.pending.is_empty(), self.changes()) {
            (false, _) => Verdict::PodsWait,
            (true, true) => Verdict::Changes,
            (true, false) => Verdict::Unchanged,
        }
    }

    /// Number of the nodes of which only the account can tell whether they drift.
    pub(crate) fn uncertain(&self) -> usize {
        self.may_drift.iter().map(|class| class.claims.len()).sum()
    }

    /// Returns whether nodes would be launched or go, at once or as budgets allow.
    pub(crate) fn changes(&self) -> bool {
        !self.launches.is_empty() || !self.going().is_empty()
    }

    /// Names of the nodes that would go, at once or as budgets allow.
    pub(crate) fn going(&self) -> BTreeSet<String> {
        let machines = self.removals.iter().flat_map(|removal| &removal.nodes);
        let gone = self.expired.iter().chain(&self.surplus).chain(&self.deleted);
        let machines = machines.chain(gone).map(|machine| &machine.name);
        machines.chain(self.later.iter().map(|staying| &staying.node)).cloned().collect()
    }
}

/// Returns the part of the plan that passes the audit, as the controller carries it out.
fn sound_plan(snapshot: &Snapshot, plan: Plan, findings: &mut Vec<String>) -> Plan {
    let Some(part) = karpenter_audit::sound_part(snapshot, &plan) else { return plan };
    findings.extend(part.findings.iter().map(ToString::to_string));
    part.plan
}

/// The cluster once pods have been promised their places: a node that is to take some is not disrupted for being empty.
/// The controller's promise ends after a while; by then the pods are there.
fn nominated_in(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut snapshot = snapshot.clone();
    // Numbers of pods that each node takes: those that exist, and those that stand for room.
    let mut taken: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let virtual_pods: BTreeSet<_> =
        snapshot.pending.iter().filter(|pod| pod.is_virtual()).map(|pod| pod.key.clone()).collect();
    for one in &plan.nominations {
        let (pods, room) = taken.entry(target(&one.target)).or_default();
        *if virtual_pods.contains(&one.pod) { room } else { pods } += 1;
    }
    for node in &mut snapshot.nodes {
        let names =
            [node.name.as_ref().map(NodeName::as_str), node.claim.as_ref().map(|claim| claim.name.as_str())];
        let found = names.into_iter().flatten().find_map(|name| taken.get(name)).copied();
        if let Some((pods, room)) = found {
            let nominated_until = if pods > 0 { Some(Timestamp::MAX) } else { node.nominated_until };
            let buffer_pods = node.buffer_pods + room;
            *node = Arc::new(Node { nominated_until, buffer_pods, ..Node::clone(node) });
        }
    }
    snapshot
}

fn target(target: &Target) -> &str {
    match target {
        Target::Node(node) => node.as_str(),
        Target::Claim(claim) => claim.as_str(),
    }
}

/// The cluster once the claims that go are deleted, and those claims. Nothing else decides about them, and their pods need
/// another place.
fn with_claims_deleted(
    snapshot: &Snapshot,
    goes: impl Fn(&Claim) -> bool,
) -> (Snapshot, BTreeSet<ClaimName>) {
    let mut snapshot = snapshot.clone();
    let mut deleted = BTreeSet::new();
    for node in &mut snapshot.nodes {
        let Some(claim) = node.claim.as_deref() else { continue };
        if goes(claim) {
            deleted.insert(claim.name.clone());
            let claim = Claim { deletion: Some(snapshot.now), ..claim.clone() };
            *node = Arc::new(Node { claim: Some(Arc::new(claim)), ..Node::clone(node) });
        }
    }
    (snapshot, deleted)
}

/// Returns whether a machine belongs to one of these claims.
fn is_of(node: &Node, claims: &BTreeSet<ClaimName>) -> bool {
    node.claim.as_ref().is_some_and(|claim| claims.contains(&claim.name))
}

/// The machines of these claims.
fn machines(snapshot: &Snapshot, claims: &BTreeSet<ClaimName>) -> Vec<Machine> {
    let of_claims = snapshot.nodes.iter().filter(|node| is_of(node, claims));
    of_claims.map(|node| machine(node, snapshot)).collect()
}

/// Buffers whose room is nowhere, which no pod waits for.
fn without_room(snapshot: &Snapshot, report: &Report) -> Vec<String> {
    let mut missing: BTreeMap<String, usize> = BTreeMap::new();
    for pod in &snapshot.pending {
        let placed = report.pods.get(&pod.key).is_none_or(PodOutcome::is_placed);
        if let Some(buffer) = pod.buffer.as_ref().filter(|_| !placed) {
            *missing.entry(buffer.to_string()).or_default() += 1;
        }
    }
    let said = |(buffer, pods): (String, usize)| {
        format!("buffer `{buffer}` lacks room for {pods} of its pods, which no pool can give")
    };
    missing.into_iter().map(said).collect()
}

fn waiting(snapshot: &Snapshot, report: &Report) -> Vec<Waiting> {
    let pods: BTreeMap<&PodKey, &Pod> = snapshot.pending.iter().map(|pod| (&pod.key, &**pod)).collect();
    let mut helper = Helper::new(snapshot);
    let waits = report.pods.iter().filter_map(|(key, outcome)| {
        let pod = pods.get(key).copied();
        let mut reasons: Vec<Why> = match outcome {
            _ if pod.is_some_and(Pod::is_virtual) => return None,
            PodOutcome::Ignored(reasons) => reasons.iter().map(|reason| why(reason, None)).collect(),
            PodOutcome::Unschedulable(refusals) => {
                refusals.iter().map(|refusal| why(&refusal.reason, refusal.pool.clone())).collect()
            }
            PodOutcome::Existing(_) | PodOutcome::InFlight(_) | PodOutcome::New(_) => return None,
        };
        keep_to_its_pools(pod, &mut reasons);
        // Codes are in the order of the checks, so the last is what the pod came furthest to.
        reasons.sort_by(|one, other| other.code.cmp(&one.code).then_with(|| one.pool.cmp(&other.pool)));
        let refusals: Vec<Refusal> = reasons.iter().map(|why| (why.code, why.pool.clone())).collect();
        let Help { conflicts, advice } = pod.map(|pod| helper.help(pod, &refusals)).unwrap_or_default();
        for (why, conflict) in reasons.iter_mut().zip(conflicts) {
            why.conflict = conflict;
        }
        Some(Waiting { pod: key.to_string(), reasons, help: advice })
    });
    waits.collect()
}

/// Leaves out what other pools say to a pod that names its pool: that they are not the one it names.
fn keep_to_its_pools(pod: Option<&Pod>, reasons: &mut Vec<Why>) {
    let Some(named) = pod.and_then(|pod| pod.node_selector.get(label::NODE_POOL)) else { return };
    let is_named = |why: &Why| why.pool.as_ref().is_some_and(|pool| pool.as_str() == named.as_str());
    // The named pool may not exist: then the reasons of the others are the only ones.
    if reasons.iter().any(is_named) {
        reasons.retain(|why| why.pool.is_none() || is_named(why));
    }
}

fn why(reason: &Reason, pool: Option<PoolName>) -> Why {
    Why { code: reason.code, pool, conflict: None, text: reason.to_string() }
}

fn launched(launch: &Launch) -> Launched {
    Launched {
        pool: launch.pool.clone(),
        cheapest: launch.cheapest.clone(),
        instance_types: launch.instance_types.iter().map(ToString::to_string).collect(),
        requirements: launch.requirements.iter().map(ToString::to_string).collect(),
        requests: launch.requests.clone(),
        pods: launch.pods.iter().map(ToString::to_string).collect(),
    }
}

fn nominated(nomination: &Nomination) -> Nominated {
    Nominated { pod: nomination.pod.to_string(), node: target(&nomination.target).to_owned() }
}

fn removal(command: &Command, snapshot: &Snapshot) -> Removal {
    let of = |candidate: &Candidate| {
        let node = snapshot.nodes.iter().find(|node| node.id == candidate.target.id);
        let pods = candidate.pods.iter().map(ToString::to_string).collect();
        let known = node.map(|node| machine(node, snapshot));
        let fresh = Machine {
            name: candidate.target.node.to_string(),
            pool: Some(candidate.pool.clone()),
            instance_type: None,
            zone: None,
            capacity_type: None,
            price: Some(candidate.price),
            pods: Vec::new(),
        };
        Machine { pods, ..known.unwrap_or(fresh) }
    };
    let nodes: Vec<Machine> = command.candidates.iter().map(of).collect();
    Removal {
        reason: command.reason,
        method: format!("{:?}", command.method),
        savings: nodes.iter().all(|machine| machine.price.is_some()).then_some(command.savings),
        nodes,
        replacements: command.replacements.iter().map(launched).collect(),
        moves: command.nominations.iter().map(nominated).collect(),
        not_before: command.not_before,
    }
}

fn machine(node: &Node, snapshot: &Snapshot) -> Machine {
    let pods = node.pods.iter().filter(|pod| pod.is_reschedulable()).map(|pod| pod.key.to_string());
    Machine {
        name: node.display_name().to_owned(),
        pool: node.pool(),
        instance_type: node.instance_type().map(|one| one.to_string()),
        zone: node.zone().map(|one| one.to_string()),
        capacity_type: node.capacity_type().map(|one| one.as_str().to_owned()),
        price: price_of(node, snapshot),
        pods: pods.collect(),
    }
}

/// Returns the prices of the nodes in `snapshot`, in which those that go without a command are leaving.
fn prices(snapshot: &Snapshot, launches: &[Launch], commands: &[Command]) -> Prices {
    let (mut now, mut staying, mut unknown_nodes, mut unknown_after) = (Price::ZERO, Price::ZERO, 0, 0);
    let removed: BTreeSet<_> =
        commands.iter().flat_map(|command| &command.candidates).map(|one| &one.target.id).collect();
    for node in snapshot.nodes.iter().filter(|node| node.is_managed()) {
        let Some(price) = price_of(node, snapshot) else {
            unknown_nodes += 1;
            unknown_after += usize::from(!node.is_leaving() && !removed.contains(&node.id));
            continue;
        };
        now = now.saturating_add(price);
        if !node.is_leaving() {
            staying = staying.saturating_add(price);
        }
    }
    let new = launches.iter().filter_map(|launch| launch.cheapest.as_ref()).map(|one| one.price).sum();
    let saved: Price = commands.iter().map(|command| command.savings).sum();
    Prices { now, after: staying.saturating_add(new).saturating_sub(saved), unknown_nodes, unknown_after }
}

/// Returns why nodes stay whose claims are not `gone`: those that have drifted and wait for a budget, and all others.
fn staying(
    snapshot: &Snapshot,
    decision: &Decision,
    gone: &BTreeSet<ClaimName>,
) -> (Vec<Staying>, Vec<Staying>) {
    let stay = |node: &&Arc<Node>| node.is_managed() && !is_of(node, gone);
    let kept = snapshot.nodes.iter().filter(stay).filter_map(|node| {
        let Some(NodeOutcome::Kept(reason)) = decision.nodes.get(&node.id) else { return None };
        let later = reason.code == ReasonCode::Budget && has_drifted(node);
        Some((later, Staying { node: node.display_name().to_owned(), reason: why(reason, node.pool()) }))
    });
    let mut kept: Vec<(bool, Staying)> = kept.collect();
    kept.sort_by(|(_, one), (_, other)| natural(&one.node, &other.node));
    let (later, others): (Vec<_>, Vec<_>) = kept.into_iter().partition(|(later, _)| *later);
    let nodes = |these: Vec<(bool, Staying)>| these.into_iter().map(|(_, staying)| staying).collect();
    (nodes(later), nodes(others))
}

/// The order of names in which `n9` comes before `n10`.
fn natural(one: &str, other: &str) -> Ordering {
    let is_digit = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let split = |text: &'_ str| -> usize {
        let digits = is_digit(text);
        text.find(|letter: char| letter.is_ascii_digit() != digits).unwrap_or(text.len())
    };
    let (mut left, mut right) = (one, other);
    while !left.is_empty() && !right.is_empty() {
        let (first, second) = (&left[..split(left)], &right[..split(right)]);
        let order = if is_digit(first) && is_digit(second) {
            let (first, second) = (first.trim_start_matches('0'), second.trim_start_matches('0'));
            first.len().cmp(&second.len()).then_with(|| first.cmp(second))
        } else {
            first.cmp(second)
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (&left[split(left)..], &right[split(right)..]);
    }
    // Names that differ in leading zeros alone are not equal.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

fn has_drifted(node: &Node) -> bool {
    node.claim.as_ref().is_some_and(|claim| claim.is_true(ConditionType::Drifted))
}

fn pools(snapshot: &Snapshot, report: &Report, decision: &Decision) -> Vec<PoolLine> {
    let line = |pool: &karpenter_model::Pool| {
        let types = snapshot.instance_types.get(&pool.name);
        let requirements = &pool.template.requirements;
        let fits = |one: &InstanceType| {
            requirements.intersects(&one.requirements).is_ok()
                && one.compatible_offerings(requirements, &snapshot.registry).next().is_some()
        };
        let (launches, skipped) = match report.pools.get(&pool.name) {
            Some(PoolOutcome::Used { launches }) => (*launches, None),
            Some(PoolOutcome::Skipped(reason)) => {
                let conflict = pool_conflict(snapshot, pool, reason.code);
                (0, Some(Why { conflict, ..why(reason, None) }))
            }
            None => (0, None),
        };
        let budgets = DisruptionReason::ALL.into_iter().filter_map(|reason| {
            let state = decision.budgets.get(&(pool.name.clone(), reason))?;
            Some((
                reason.to_string(),
                Some(state.allowed).filter(|allowed| *allowed != BudgetState::NO_LIMIT),
            ))
        });
        PoolLine {
            name: pool.name.clone(),
            weight: pool.weight,
            nodes: snapshot.nodes.iter().filter(|node| node.pool().as_ref() == Some(&pool.name)).count(),
            launches,
            instance_types: types.map_or(0, |types| types.iter().filter(|one| fits(one)).count()),
            skipped,
            budgets: budgets.collect(),
        }
    };
    let mut lines: Vec<PoolLine> = snapshot.pools.iter().map(|pool| line(pool)).collect();
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    lines
}
