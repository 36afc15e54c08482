//! `provisioner`: makes a plan for pods that wait, has it audited, and carries it out.
//!
//! Triggers are collected into a batch, and nodes that later pods could hardly make cheaper are launched meanwhile
//! (`ahead.rs`); then everything known is frozen, planned on another thread and audited. What a finding of the audit is
//! about is not carried out, the rest is. What is left waiting is looked at again every ten seconds, at once when a pool
//! becomes able to take nodes, and within seconds of a node that others have filled; where nothing has changed since a plan
//! that placed no pod, that plan stands. While the scheduler binds what has a place, no other plan is made for it.

mod ahead;
mod apply;
mod gauges;
mod log;
mod promises;
mod publish;
mod refusals;
mod settled;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_engine::backlog::Backlog;
use karpenter_kube_harness::compute;
use karpenter_lifecycle::pods::batch::Batcher;
use karpenter_model::{Plan, Pod, PodOutcome, Report, Snapshot, Taint};
use karpenter_telemetry::observe::{self, Outcome};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;

use crate::buffers;
use crate::pods::Waiting;
use crate::pool::instance_types;
use crate::triggers::Trigger;
use crate::{Context, Error};
use gauges::{Running, Zones};
use promises::{BINDING, Promises};
use refusals::Refusals;
use settled::Settled;

const NAME: &str = "provisioner";

/// Period in which pods that still wait, and nodes that are leaving, ask for another pass.
const RETRY_PERIOD: Duration = Duration::from_secs(10);

/// Period in which the provisioner looks for pods that are left over beside nodes that have come.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// A pod is left over when the node it was promised has been ready for the first, and the scheduler has had time for it; after the
/// second it waits for the same reasons as any other.
const LEFT_OVER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(15));

/// State that passes leave behind for those after them; a restart may lose it.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub(crate) waiting: Waiting,
    pub(crate) promises: Promises,
    log: Arc<Mutex<log::Log>>,
    refusals: Refusals,
    settled: Settled,
    slices: Arc<Mutex<Slices>>,
}

/// Progress of passes with a backlog that is too large for one.
#[derive(Default)]
struct Slices {
    backlog: Backlog,
    /// The last pass left pods out and placed others: the next one is worth while at once.
    goes_on: bool,
}

impl Memory {
    /// Leaves as many pods to the snapshot as one pass plans for; returns whether there are more.
    fn admit(&self, snapshot: &mut Snapshot) -> bool {
        let admitted = self.slices.lock().backlog.admit(&snapshot.pending, most(snapshot));
        let left_out = admitted.len() < snapshot.pending.len();
        snapshot.pending = admitted;
        left_out
    }

    /// Records the outcomes of the admitted pods. Virtual pods have their place in every pass; that is no
    /// reason for another one.
    fn record(&self, snapshot: &Snapshot, report: &Report, left_out: bool) {
        let mut slices = self.slices.lock();
        slices.backlog.planned(report);
        let placed = report.pods.values().filter(|outcome| outcome.is_placed()).count();
        let virtual_pods = snapshot.pending.iter().filter(|pod| pod.is_virtual());
        let placed_virtual =
            virtual_pods.filter(|pod| report.pods.get(&pod.key).is_some_and(PodOutcome::is_placed));
        slices.goes_on = left_out && placed > placed_virtual.count();
    }
}

/// Runs until `shutdown`.
pub(crate) async fn run(
    mut triggered: mpsc::UnboundedReceiver<Trigger>,
    memory: Memory,
    context: Context,
    shutdown: CancellationToken,
) {
    let settings = &context.settings.decisions;
    let mut batch: Batcher<Trigger> = Batcher::new(settings.batch_idle, settings.batch_max);
    let zones = Zones::new(&context.metrics);
    let mut retry = interval(RETRY_PERIOD);
    // A pass may take longer than the period: ticks that were missed would follow in a burst.
    retry.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look = interval(LOOK_PERIOD);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let closes = batch.left(context.now());
        let looks = batch.until_look(context.now()).filter(|_| settings.batch_early_launch);
        tokio::select! {
            // In this order: triggers that have arrived are part of the batch that is about to close.
            biased;
            () = shutdown.cancelled() => return,
            trigger = triggered.recv() => match trigger {
                Some(trigger) => drop(batch.trigger(trigger, context.now())),
                None => return,
            },
            _ = retry.tick() => {
                for trigger in overdue(&context) {
                    batch.trigger(trigger, context.now());
                }
            }
            _ = look.tick() => {
                // An open window will plan for such pods in any case.
                if batch.opened().is_none() && has_left_over(&context, &memory) {
                    batch.trigger(Trigger::LeftOver, context.now());
                }
            }
            () = after(closes) => {
                let batch_opened = batch.opened().unwrap_or_else(|| context.now());
                if batch.close(context.now()).is_some() {
                    // Failures are logged and counted by the wrapper; the pods trigger again by themselves.
                    let work = pass(&context, &memory, &zones, batch_opened);
                    let _reported = observe::pass(&context.metrics, NAME, "", |outcome| outcome.again(), work).await;
                    if std::mem::take(&mut memory.slices.lock().goes_on) {
                        batch.trigger(Trigger::Backlog, context.now());
                    }
                    batch.pass_ended(context.now());
                }
            }
            () = after(looks) => {
                let batch_opened = batch.opened().unwrap_or_else(|| context.now());
                let work = ahead::launch(&context, &memory, batch_opened);
                let _reported = observe::pass(&context.metrics, NAME, "", |outcome| outcome.again(), work).await;
                batch.looked(context.now());
            }
        }
    }
}

/// Returns whether the scheduler has bound all it can, and left a pod without a place beside the node that was launched for
/// it. Before that, pods that spread wait for each other, and a plan would send them elsewhere.
fn has_left_over(context: &Context, memory: &Memory) -> bool {
    let (young, old) = LEFT_OVER;
    if !memory.promises.are_quiet_for(BINDING) {
        return false;
    }
    let ago = |span: Duration| context.now().checked_sub(span).unwrap_or(Timestamp::MIN);
    context.view.with_cluster(|cluster| cluster.has_left_over(ago(old), ago(young)))
}

/// Ends when this time is over; never, if there is none.
async fn after(left: Option<Duration>) {
    match left {
        Some(left) => sleep(left).await,
        None => std::future::pending().await,
    }
}

/// Pods that still wait, and nodes whose pods will need a place soon.
fn overdue(context: &Context) -> Vec<Trigger> {
    let Some(snapshot) = context.snapshot() else { return Vec::new() };
    // Buffers come again by themselves.
    let pods =
        snapshot.pending.iter().filter(|pod| !pod.is_virtual()).map(|pod| Trigger::Pod(pod.uid.clone()));
    let disrupted = Taint::disrupted();
    let leaving =
        snapshot.nodes.iter().filter(|node| node.taints.iter().any(|taint| taint.matches(&disrupted)));
    pods.chain(leaving.map(|node| Trigger::DisruptedNode(node.id.clone()))).collect()
}

/// One plan for what has come since `batch_opened`.
async fn pass(
    context: &Context,
    memory: &Memory,
    zones: &Zones,
    batch_opened: Timestamp,
) -> Result<Outcome, Error> {
    let batch_closed = context.now();
    let Some(known) = known(context, memory).await else { return Ok(Outcome::Waiting) };
    let Known { mut snapshot, held, virtual_pods } = known;
    context.metrics.scheduler.held_pods_count.set_count([], held.len());
    // While the scheduler binds pods to their nodes, a plan for the rest would only take places away.
    if virtual_pods.is_empty() && memory.promises.are_being_kept(context, &snapshot) {
        return Ok(Outcome::Skipped);
    }
    zones.publish(&snapshot);
    let left_out = memory.admit(&mut snapshot);
    snapshot.pending.extend(virtual_pods);
    let snapshot = Arc::new(snapshot);
    // Nothing has changed since a plan that placed no pod: metrics and events are renewed, and nothing is computed.
    let (plan, mut report) = match memory.settled.recall(&snapshot) {
        Some(report) => (Plan::default(), report),
        None => planned(context, memory, &snapshot).await,
    };
    let times = apply::Times { batch_opened, batch_closed, planned: context.now() };
    // Explanations list pods that were left out of the plan as waiting, too, each with a reason of its own.
    report.pods.extend(held.iter().map(|(pod, outcome)| (pod.key.clone(), outcome.clone())));
    let mut pods = apply::pods(&snapshot);
    pods.extend(held.iter().map(|(pod, _)| (&pod.key, &**pod)));
    publish::publish(context, &pods, &report);
    memory.log.lock().plan(&snapshot, &plan, &report);
    memory.waiting.decided(&context.metrics, &report, context.now());
    memory.record(&snapshot, &report, left_out);
    let buffer_room = buffers::enabled(context).then(|| buffers::counted(context, &snapshot, &report));
    context.explanations.planned(snapshot.now, report);
    let outcome = apply::apply(context, &memory.promises, &snapshot, &plan, times).await;
    if let Some(room) = buffer_room {
        buffers::provisioned(context, &room).await;
    }
    Ok(outcome)
}

/// Everything that is known, with the pods that are to be planned for.
struct Known {
    snapshot: Snapshot,
    /// Pods that are not planned for now, with the reason.
    held: Vec<(Arc<Pod>, PodOutcome)>,
    /// Virtual pods: they are never bound, so nothing is learned from them, and they take part in every slice.
    virtual_pods: Vec<Arc<Pod>>,
}

async fn known(context: &Context, memory: &Memory) -> Option<Known> {
    // Before the snapshot, which has the types as they are known then.
    instance_types::refresh(context, NAME).await;
    let mut snapshot = context.snapshot()?;
    let mut held = memory.refusals.hold(&mut snapshot);
    let pending = std::mem::take(&mut snapshot.pending).into_iter();
    let (virtual_pods, waiting) = pending.partition(|pod| pod.is_virtual());
    snapshot.pending = waiting;
    held.extend(memory.promises.hold(context, &mut snapshot));
    Some(Known { snapshot, held, virtual_pods })
}

/// Largest number of pods that one pass plans for.
fn most(snapshot: &Snapshot) -> usize {
    usize::try_from(snapshot.settings.pods_per_pass).unwrap_or(usize::MAX)
}

/// The plan for `snapshot` without what breaks a rule, and its report.
async fn planned(context: &Context, memory: &Memory, snapshot: &Arc<Snapshot>) -> (Plan, Report) {
    let input = Arc::clone(snapshot);
    let planning = compute::beside(move || {
        let started = Instant::now();
        let (plan, report) = karpenter_engine::plan(&input);
        let planning_took = started.elapsed();
        let sound_part = karpenter_audit::sound_part(&input, &plan);
        (plan, report, planning_took, sound_part)
    });
    let (plan, mut report, planning_took, sound_part) = Running::new(context, snapshot).until(planning).await;
    context.metrics.scheduler.scheduling_duration_seconds.observe([NAME], planning_took);
    if let Some(part) = sound_part {
        refusals::publish(context, &plan, &part.plan, &part.findings);
        memory.refusals.note(snapshot, &part, &mut report);
        // Pods whose place was refused are held for a while, so what is left is not the end of it.
        return (part.plan, report);
    }
    memory.settled.record(snapshot, &plan, &report);
    (plan, report)
}

/// The second opinion: true when the plan breaks no rule; otherwise publishes what the audit has found.
pub(crate) fn audited(context: &Context, snapshot: &Snapshot, plan: &Plan) -> bool {
    let findings = karpenter_audit::audit(snapshot, plan);
    if !findings.is_empty() {
        refusals::publish(context, plan, &Plan::default(), &findings);
    }
    findings.is_empty()
}

#[cfg(test)]
mod tests;
