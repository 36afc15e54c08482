//! Puts watches and reconcilers together and runs them until shutdown.

pub(super) mod watching;

use std::sync::Arc;
use std::time::Duration;

use karpenter_kube_harness::server::Readiness;
use karpenter_telemetry::metrics::Collecting;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::buffers;
use crate::claim::expiration::Expiration;
use crate::claim::garbage;
use crate::claim::lifecycle::Lifecycle;
use crate::claim::podevents::{self, PodEvents};
use crate::claim::reboot::Reboot;
use crate::claim::upkeep::Upkeep;
use crate::disruption;
use crate::node::amounts;
use crate::node::hydration::Hydration;
use crate::node::repair::{self, Health};
use crate::node::termination::Termination;
use crate::node::together::Together;
use crate::pods::evict::Evictions;
use crate::pods::{deletion_cost, nominate, state};
use crate::pool::{self, overlays, static_capacity};
use crate::provisioner::{self, Memory};
use crate::publish::status::{self, Classes};
use crate::reconciler::run as run_queue;
use crate::reconciler::start;
use crate::run::watching::Watching;
use crate::triggers::Triggers;

/// Time the first lists may take before that is logged.
const FIRST_WARNING_AFTER: Duration = Duration::from_secs(30);

/// Time between repetitions of that log line.
const REMINDER: Duration = Duration::from_secs(10);

/// Time that work may go on after the stop: longer than that of [queues](karpenter_kube_harness::queue::DRAIN), half of the
/// time that the kubelet waits before it kills.
const LAST_WORK: Duration = Duration::from_secs(15);

/// A part of the controllers ended without having been asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("a controller ended early; the process restarts")]
    Ended,
    #[error("a controller panicked; the process restarts")]
    Panicked(#[source] tokio::task::JoinError),
}

/// Watches the cluster and runs every controller until `shutdown`, then lets running passes finish: for worlds of tests
/// without an election. The product starts its watches before it leads.
pub async fn run(
    context: Context,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let view = Arc::clone(&context.view);
    readiness.waits_for(move || view.awaited());
    let watching = Watching::start(&context, &shutdown);
    lead(watching, readiness, shutdown).await
}

/// Runs every controller on top of watches that run already.
pub async fn lead(
    watching: Watching,
    readiness: Readiness,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let Watching { context, classes, mut tasks, stop } = watching;
    let mut collecting = Vec::new();
    // A Node whose claim or pods are not known yet would be taken for one that is not needed.
    if listed(&context, &shutdown).await {
        let memory = Memory::default();
        if context.settings.cluster_state_observability {
            classes.publish_changes();
            collecting = collect(&context, &classes, &memory);
        }
        let triggers = spawn_controllers(&mut tasks, &context, memory, &shutdown);
        // Replays events that the watches brought before there were listeners.
        context.view.replay();
        readiness.set(true);
        triggers.view_complete();
    }
    let ended = joined(tasks, &shutdown, || stop.cancel()).await;
    // The gauges stay until nothing runs that they describe.
    drop(collecting);
    ended
}

/// Publishes the gauges about each object of the cluster until the returned guards are dropped.
fn collect(context: &Context, classes: &Classes, memory: &Memory) -> Vec<Collecting> {
    let mut all = vec![state::collect(context)];
    all.extend(memory.waiting.collect(context));
    all.extend(amounts::collect(context));
    all.extend(status::collect(context, classes));
    all
}

/// Waits until all `tasks` have ended. One that does so before `shutdown` makes the others `stop` as well: a process
/// in which something no longer runs is to be restarted. What has not ended [`LAST_WORK`] after `shutdown` is abandoned,
/// so that the Lease is given back before the kubelet kills the process.
pub async fn joined(
    mut tasks: JoinSet<()>,
    shutdown: &CancellationToken,
    stop: impl Fn(),
) -> Result<(), RunError> {
    let mut result = Ok(());
    let told = shutdown.clone();
    let mut overdue = std::pin::pin!(async move {
        told.cancelled().await;
        sleep(LAST_WORK).await;
    });
    loop {
        let ended = tokio::select! {
            biased;
            ended = tasks.join_next() => ended,
            () = &mut overdue => {
                tracing::warn!(tasks = tasks.len(), "stopping without what has not ended within {LAST_WORK:?}");
                None
            }
        };
        let Some(ended) = ended else { return result };
        let early = match ended {
            Err(error) => RunError::Panicked(error),
            // After the stop an end is what was asked for; before it, nothing would do the work of this task
            // any more.
            Ok(()) if shutdown.is_cancelled() => continue,
            Ok(()) => RunError::Ended,
        };
        // The first one that ends is the cause; others may end because of it.
        result = result.and(Err(early));
        // They finish what they are doing.
        shutdown.cancel();
        stop();
    }
}

/// Waits until everything has been listed once and records it in metrics; false on shutdown before.
async fn listed(context: &Context, shutdown: &CancellationToken) -> bool {
    let (metrics, started) = (&context.metrics.cluster_state, Instant::now());
    let mut warn_at = started + FIRST_WARNING_AFTER;
    while !context.view.unlisted().is_empty() {
        metrics.unsynced_time_seconds.set([], started.elapsed().as_secs_f64());
        if Instant::now() >= warn_at {
            tracing::error!(
                awaited = context.view.awaited(),
                "the view of the cluster is not complete, nothing is decided"
            );
            warn_at += REMINDER;
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return false,
            () = sleep(Duration::from_millis(100)) => {}
        }
    }
    metrics.unsynced_time_seconds.set([], 0.0);
    metrics.synced.set([], 1.0);
    let (pools, pods) = (
        context.view.pools(),
        context.view.with_cluster(|cluster| cluster.all::<karpenter_model::Pod>().count()),
    );
    tracing::info!(
        nodepools = pools.len(),
        "nodepools-ready" = pools.iter().filter(|pool| pool.model.ready).count(),
        nodeclaims = context.view.claims().len(),
        nodes = context.view.nodes().len(),
        pods,
        "the cluster is known, deciding from now on"
    );
    true
}

/// Starts the controllers, and returns the triggers of the provisioner.
fn spawn_controllers(
    tasks: &mut JoinSet<()>,
    context: &Context,
    memory: Memory,
    shutdown: &CancellationToken,
) -> Triggers {
    let subscribers = context.view.subscribers();
    let evictions = spawn_evictions(tasks, context, shutdown);
    spawn_for_claims(tasks, context, &evictions, shutdown);
    spawn_for_nodes(tasks, context, &evictions, shutdown);
    spawn_for_pools(tasks, context, shutdown);
    if context.settings.nominated_node_name {
        let again = nominate::Again::default();
        tasks.spawn(start(again.clone(), context, shutdown, |queue| again.follow(context, queue)));
    }

    if context.settings.cluster_state_observability {
        let reporting = context.clone();
        subscribers.statuses(move |seen| status::publish(&reporting, seen));
    }
    let triggers = spawn_provisioner(tasks, context, memory, shutdown);
    tasks.spawn(disruption::run(context.clone(), shutdown.clone()));
    tasks.spawn(garbage::run(context.clone(), shutdown.clone()));
    deletion_cost::spawn(tasks, context, shutdown);
    triggers
}

fn spawn_evictions(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) -> Evictions {
    let (evictions, queue) = Evictions::new();
    let listener = evictions.clone();
    context.view.subscribers().pods(move |seen| listener.seen(seen));
    tasks.spawn(run_queue(evictions.clone(), queue, context.clone(), shutdown.clone()));
    evictions
}

/// Starts the provisioner, and returns its triggers.
fn spawn_provisioner(
    tasks: &mut JoinSet<()>,
    context: &Context,
    memory: Memory,
    shutdown: &CancellationToken,
) -> Triggers {
    let subscribers = context.view.subscribers();
    // Before the triggers: a pass finds noted what it is triggered by.
    {
        let (memory, context) = (memory.clone(), context.clone());
        subscribers.pods(move |seen| {
            memory.waiting.note(&context.metrics, seen, context.now());
            memory.promises.note(seen, context.now());
        });
    }
    let (triggers, triggered) = Triggers::new();
    {
        let triggers = triggers.clone();
        subscribers.pods(move |seen| triggers.pod(seen));
    }
    {
        let triggers = triggers.clone();
        subscribers.statuses(move |seen| triggers.pool(seen));
    }
    buffers::spawn(tasks, &triggers, context, shutdown);
    overlays::spawn(tasks, context, triggers.clone(), shutdown);
    tasks.spawn(provisioner::run(triggered, memory, context.clone(), shutdown.clone()));
    triggers
}

fn spawn_for_claims(
    tasks: &mut JoinSet<()>,
    context: &Context,
    evictions: &Evictions,
    shutdown: &CancellationToken,
) {
    let subscribers = context.view.subscribers();
    let lifecycle = Lifecycle { evictions: evictions.clone() };
    tasks.spawn(start(lifecycle, context, shutdown, |queue| subscribers.claims(queue)));
    let expiration = Expiration { evictions: evictions.clone() };
    tasks.spawn(start(expiration, context, shutdown, |queue| subscribers.claims(queue)));
    let upkeep = Upkeep::new(evictions.clone());
    tasks.spawn(start(upkeep, context, shutdown, |queue| subscribers.claims(queue)));
    // Whether repair is on or not: one that has begun is brought to its end.
    let reboot = Reboot::new(evictions.clone());
    tasks.spawn(start(reboot, context, shutdown, |queue| subscribers.claims(queue)));

    let (events, queue) = PodEvents::new();
    {
        let (events, context) = (events.clone(), context.clone());
        subscribers.pods(move |seen| events.note(&context, seen.into()));
    }
    let writer = podevents::Writer { events, evictions: evictions.clone() };
    tasks.spawn(run_queue(writer, queue, context.clone(), shutdown.clone()));
}

fn spawn_for_nodes(
    tasks: &mut JoinSet<()>,
    context: &Context,
    evictions: &Evictions,
    shutdown: &CancellationToken,
) {
    let subscribers = context.view.subscribers();
    let termination = Termination { evictions: evictions.clone() };
    tasks.spawn(start(termination, context, shutdown, |queue| subscribers.nodes(queue)));
    let hydration = Hydration { evictions: evictions.clone() };
    tasks.spawn(start(hydration, context, shutdown, |queue| subscribers.nodes(queue)));
    let together = Together { evictions: evictions.clone() };
    tasks.spawn(start(together, context, shutdown, |queue| subscribers.nodes(queue)));
    if repair::enabled(context) {
        let health = Health::new(context, evictions.clone());
        tasks.spawn(start(health, context, shutdown, |queue| subscribers.nodes(queue)));
    }
}

fn spawn_for_pools(tasks: &mut JoinSet<()>, context: &Context, shutdown: &CancellationToken) {
    let subscribers = context.view.subscribers();
    tasks.spawn(start(pool::hash::Hash, context, shutdown, |queue| subscribers.pools(queue)));
    tasks.spawn(start(pool::conditions::Readiness, context, shutdown, |queue| subscribers.pools(queue)));
    tasks.spawn(pool::counter::run(context.clone(), shutdown.clone()));
    static_capacity::spawn(tasks, context, shutdown);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_early_or_panics_stops_the_others_and_is_the_error() {
        for panics in [false, true] {
            let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
            let stopped = shutdown.clone();
            tasks.spawn(async move { stopped.cancelled().await });
            tasks.spawn(async move { assert!(!panics, "meant to fail") });
            match joined(tasks, &shutdown, || {}).await {
                Err(RunError::Panicked(_)) => assert!(panics),
                Err(RunError::Ended) => assert!(!panics),
                Ok(()) => panic!("it ended early"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_abandoned_before_the_process_is_killed() {
        let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(std::future::pending());
        let stopped = shutdown.clone();
        tasks.spawn(async move { stopped.cancelled().await });
        shutdown.cancel();
        let told = Instant::now();
        joined(tasks, &shutdown, || {}).await.unwrap();
        assert_eq!(told.elapsed(), LAST_WORK);
    }

    #[tokio::test]
    async fn tasks_that_end_when_told_to_are_no_error() {
        let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        shutdown.cancel();
        tasks.spawn(async {});
        joined(tasks, &shutdown, || {}).await.unwrap();
    }
}
