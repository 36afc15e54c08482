//! Exactly one of all replicas leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use karpenter_kube_harness::leader::{self, Candidate, LeaderError};
use karpenter_kube_sim::apiserver::{Fault, Rule};
use karpenter_model::Clock;
use karpenter_telemetry::metrics::Metrics;
use kube::api::Api;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::world::{MINUTE, SECOND, World};

struct Replica {
    leading: Arc<AtomicUsize>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), LeaderError>>,
}

/// Starts a replica that counts in `leading` while it leads and takes two seconds to drain.
fn replica(world: &World, identity: &str, leading: &Arc<AtomicUsize>) -> Replica {
    let (shutdown, leading) = (CancellationToken::new(), Arc::clone(leading));
    let candidate = Candidate::new("default", "karpenter-leader-election", identity);
    let clock: Arc<dyn Clock> = world.clock.clone();
    let (client, stop, counted) = (world.client.clone(), shutdown.clone(), Arc::clone(&leading));
    let task = tokio::spawn(async move {
        leader::run(client, candidate, clock, Arc::new(Metrics::new()), stop, |stop| async move {
            let _leads = Leads::new(&counted);
            stop.cancelled().await;
            sleep(2 * SECOND).await;
        })
        .await
    });
    Replica { leading, shutdown, task }
}

/// Counts one leader while it lives, however it ends.
struct Leads<'a>(&'a AtomicUsize);

impl<'a> Leads<'a> {
    fn new(leading: &'a AtomicUsize) -> Self {
        assert_eq!(leading.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
        Self(leading)
    }
}

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Two replicas, of which the first leads.
async fn two() -> (World, Replica, Replica) {
    let world = World::new().await;
    let leading = Arc::new(AtomicUsize::new(0));
    let first = replica(&world, "first", &leading);
    sleep(SECOND).await;
    let second = replica(&world, "second", &leading);
    sleep(30 * SECOND).await;
    (world, first, second)
}

impl Replica {
    /// Stops it, and waits until it has.
    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn lease(world: &World) -> Lease {
    Api::namespaced(world.client.clone(), "default").get("karpenter-leader-election").await.unwrap()
}

async fn holder(world: &World) -> String {
    lease(world).await.spec.unwrap().holder_identity.unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_hands_over_within_a_retry() {
    let (world, first, second) = two().await;
    assert_eq!(holder(&world).await, "first");
    first.end().await;
    assert_eq!(holder(&world).await, "", "released, not left to run out");
    sleep(3 * SECOND).await;
    assert_eq!(holder(&world).await, "second");
    assert_eq!(second.leading.load(Ordering::SeqCst), 1);
    assert_eq!(lease(&world).await.spec.unwrap().lease_transitions, Some(1));
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_when_its_lease_has_run_out() {
    let (world, first, second) = two().await;
    first.task.abort();
    let died = Instant::now();
    while holder(&world).await != "second" {
        sleep(Duration::from_millis(500)).await;
        assert!(died.elapsed() < 20 * SECOND, "no replica followed");
    }
    assert!(died.elapsed() > 10 * SECOND, "followed before the lease had run out");
    second.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_may_act() {
    let world = World::new().await;
    let leading = Arc::new(AtomicUsize::new(0));
    let first = replica(&world, "first", &leading);
    sleep(5 * SECOND).await;
    assert_eq!(leading.load(Ordering::SeqCst), 1);
    world.server.faults().inject(Rule::any().resource("leases"), Fault::InternalError);
    let cut_off = Instant::now();
    let lost = first.task.await.unwrap().unwrap_err();
    assert!(lost.to_string().starts_with("lost lease `default/karpenter-leader-election`"), "{lost}");
    assert!(cut_off.elapsed() <= 12 * SECOND, "{:?}", cut_off.elapsed());
    assert_eq!(leading.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn who_learns_late_that_it_leads_stops_before_another_may_act_all_the_same() {
    let world = World::new().await;
    let leading = Arc::new(AtomicUsize::new(0));
    let answered = Duration::from_millis(4500);
    world.server.faults().inject(Rule::on("create").resource("leases").times(1), Fault::LateAnswer(answered));
    // Nothing else of it arrives: it stands in the lease from the beginning, and knows only when it is answered.
    world.server.faults().inject(Rule::on("update").resource("leases"), Fault::InternalError);
    let written = Instant::now();
    let first = replica(&world, "first", &leading);
    sleep(answered + Duration::from_millis(100)).await;
    assert_eq!(leading.load(Ordering::SeqCst), 1, "it leads");
    first.task.await.unwrap().unwrap_err();
    assert!(written.elapsed() <= 12 * SECOND, "{:?}", written.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_renewal_that_hangs_or_meets_a_conflict_does_not_cost_the_leadership() {
    let world = World::new().await;
    let leading = Arc::new(AtomicUsize::new(0));
    let first = replica(&world, "first", &leading);
    sleep(5 * SECOND).await;
    for fault in [Fault::Conflict, Fault::Delay(60 * MINUTE), Fault::LostAnswer] {
        world.server.faults().inject(Rule::on("update").resource("leases").times(1), fault);
        sleep(30 * SECOND).await;
        assert_eq!((leading.load(Ordering::SeqCst), holder(&world).await.as_str()), (1, "first"));
    }
    first.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_busy_renews_all_the_same() {
    let world = World::new().await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
    let candidate = Candidate {
        retry: Duration::from_millis(1),
        ..Candidate::new("default", "karpenter-leader-election", "busy")
    };
    let (renewed, renewals) = std::sync::mpsc::channel();
    let clock: Arc<dyn Clock> = world.clock.clone();
    let looks = tokio::spawn(async move {
        let mut versions = std::collections::BTreeSet::new();
        while versions.len() < 5 {
            let lease = leases.get_opt("karpenter-leader-election").await.unwrap();
            versions.extend(lease.and_then(|lease| lease.metadata.resource_version));
            tokio::task::yield_now().await;
        }
        renewed.send(()).unwrap();
    });
    // The leader does not give its thread back until its lease was renewed four times.
    let busy = |_| async move { renewals.recv_timeout(10 * MINUTE).expect("it is renewed") };
    let metrics = Arc::new(Metrics::new());
    leader::run(world.client.clone(), candidate, clock, metrics, CancellationToken::new(), busy)
        .await
        .unwrap();
    looks.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_read_for_a_renewal_only_if_it_is_not_as_it_was_left() {
    let world = World::new().await;
    let clock: Arc<dyn Clock> = world.clock.clone();
    let candidate = Candidate::new("default", "karpenter-leader-election", "first");
    let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
    let slow = || metrics.operator.leader_slowpath_total.value(["karpenter-leader-election"]);
    let lead = |stop: CancellationToken| async move { stop.cancelled().await };
    let (client, counted, stop) = (world.client.clone(), Arc::clone(&metrics), shutdown.clone());
    let task = tokio::spawn(leader::run(client, candidate, clock, counted, stop, lead));
    sleep(5 * SECOND).await;
    world.server.faults().inject(Rule::on("get").resource("leases"), Fault::InternalError);
    sleep(MINUTE).await;
    assert!(!task.is_finished(), "renewed without reading");
    assert_eq!(slow(), 0);
    world.server.faults().clear();
    let label = serde_json::json!({"metadata": {"labels": {"another": "client"}}});
    world.patch::<Lease>("karpenter-leader-election", label).await;
    sleep(MINUTE).await;
    assert_eq!(slow(), 1);
    assert!(lease(&world).await.metadata.labels.is_some(), "what another client has written stays");
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
