//! Leader election by Lease: of all replicas exactly one acts.
//!
//! Compatible with client-go's `LeaseLock`, so replicas of the reference and of this controller exclude each other
//! during a swap of images. Safety rests on durations only, never on comparing clocks of machines: a candidate
//! waits a whole lease after it *saw* the record change, and a leader stops before its lease could have run out
//! for any candidate that saw the last renewal. Unlike the reference, the lease is given back on a graceful
//! stop.

mod record;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use karpenter_model::Clock;
use karpenter_telemetry::metrics::Metrics;
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::error::ApiFailure;

pub use record::Holder;

/// Longest time that the leader may take to act on a stop before the lease is given back under it.
const LEASE: Duration = Duration::from_secs(15);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

/// Candidate of an election, and its Lease.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Unique to the process: host name and a random part.
    pub identity: String,
    /// Time for which others must leave the leader alone after seeing its last renewal.
    pub lease: Duration,
    /// Time for which the leader tries to renew before it gives up; shorter than `lease`.
    pub renew_deadline: Duration,
    /// Pause between tries.
    pub retry: Duration,
}

impl Candidate {
    /// A candidate with the durations of the reference: 15 s, 10 s and 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease: LEASE,
            renew_deadline: RENEW_DEADLINE,
            retry: RETRY,
        }
    }
}

/// Reason why the process no longer leads. Either way it has to exit with an error.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The lease could not be renewed in time; another replica may act from now on.
    #[error(
        "lost lease `{namespace}/{name}`: not renewed for {after:?}; the process restarts as a candidate"
    )]
    Lost { namespace: String, name: String, after: Duration },
}

/// Waits to be elected, then runs `lead` until it returns or the lease is lost.
///
/// `lead` gets a token that is cancelled when `shutdown` is; it should drain and return, while the lease is still
/// being renewed, and the lease is given back afterwards. When the lease is lost `lead` is dropped at once. Renewing
/// is a task of its own: whatever keeps the leader busy does not delay it.
pub async fn run<F: Future<Output = ()>>(
    client: kube::Client,
    candidate: Candidate,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    lead: impl FnOnce(CancellationToken) -> F,
) -> Result<(), LeaderError> {
    let mut election = Election {
        leases: Api::namespaced(client, &candidate.namespace),
        candidate,
        clock,
        seen: None,
        metrics,
    };
    let acquired = tokio::select! {
        biased;
        () = shutdown.cancelled() => return Ok(()),
        acquired = election.acquire() => acquired,
    };
    let mut renewing = election.clone();
    let mut keeping = AbortOnDropHandle::new(tokio::spawn(async move { renewing.keep(acquired).await }));
    let ended = tokio::select! {
        biased;
        // Looked at first: once the lease is lost, the leader does not get to do another thing.
        after = &mut keeping => Err(after.expect("invariant: renewing never panics, only a drop aborts it")),
        () = lead(shutdown.child_token()) => Ok(()),
    };
    drop(keeping);
    election.metrics.operator.leader.set([&election.candidate.name], 0.0);
    match ended {
        Ok(()) => {
            election.release().await;
            Ok(())
        }
        Err(after) => {
            let Candidate { namespace, name, .. } = election.candidate;
            tracing::error!(lease = name, "lost leadership");
            Err(LeaderError::Lost { namespace, name, after })
        }
    }
}

#[derive(Clone)]
struct Election {
    leases: Api<Lease>,
    candidate: Candidate,
    clock: Arc<dyn Clock>,
    /// The record as last seen and when it was seen to change.
    seen: Option<(Lease, Instant)>,
    metrics: Arc<Metrics>,
}

impl Election {
    /// Returns when the lease is ours, with the instant before which no other replica can have seen that.
    async fn acquire(&mut self) -> Instant {
        tracing::info!(lease = self.candidate.name, identity = self.candidate.identity, "waiting to lead");
        self.metrics.operator.leader.set([&self.candidate.name], 0.0);
        let acquired = loop {
            let started = Instant::now();
            // As with renewals: a replica that learns late that it leads would have no time left to renew.
            match timeout(self.candidate.renew_deadline / 2, self.try_hold()).await {
                Ok(Ok(true)) => break started,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot acquire lease, trying again"),
                Err(_elapsed) => tracing::warn!("acquiring the lease takes too long, trying again"),
            }
            sleep(self.candidate.retry).await;
        };
        tracing::info!(lease = self.candidate.name, identity = self.candidate.identity, "leading");
        self.metrics.operator.leader.set([&self.candidate.name], 1.0);
        acquired
    }

    /// Renews until that fails for the renew deadline, counted from `renewed`; returns how long it had failed.
    async fn keep(&mut self, mut renewed: Instant) -> Duration {
        loop {
            sleep(self.candidate.retry).await;
            let left = self.candidate.renew_deadline.saturating_sub(renewed.elapsed());
            let started = Instant::now();
            // Half of it at most, so that a connection that hangs leaves time for another one.
            match timeout(left.min(self.candidate.renew_deadline / 2), self.try_hold()).await {
                // Others count from when they see the renewal, which is not before the call started.
                Ok(Ok(true)) => renewed = started,
                Ok(Ok(false)) if self.somebody_else_holds() => return renewed.elapsed(),
                Ok(Ok(false)) => {
                    tracing::warn!("another client changed the lease during renewal, trying again");
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew lease, trying again"),
                Err(_elapsed) => tracing::warn!("renewing the lease takes too long, trying again"),
            }
            if renewed.elapsed() >= self.candidate.renew_deadline {
                return renewed.elapsed();
            }
        }
    }

    /// One try to take or renew the lease; false when another replica holds it. A lease that is ours is
    /// renewed as it was left; only if it is not like that any more it is read first.
    async fn try_hold(&mut self) -> Result<bool, ApiFailure> {
        if let Some((ours, _)) = self.seen.clone().filter(|(seen, _)| self.is_ours(seen)) {
            let lease = record::held(ours, &self.candidate, self.clock.now());
            match self.leases.replace(&self.candidate.name, &PostParams::default(), &lease).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    self.metrics.operator.leader_slowpath_total.inc([&self.candidate.name]);
                }
                answer => return self.taken(answer),
            }
        }
        let Some(present) = self.leases.get_opt(&self.candidate.name).await? else {
            let lease = record::first(&self.candidate, self.clock.now());
            let created = self.leases.create(&PostParams::default(), &lease).await;
            return self.taken(created);
        };
        self.observe(&present);
        if !self.may_take(&present) {
            return Ok(false);
        }
        let lease = record::held(present, &self.candidate, self.clock.now());
        let replaced = self.leases.replace(&self.candidate.name, &PostParams::default(), &lease).await;
        self.taken(replaced)
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        matches!(Holder::of(lease), Holder::Somebody { identity, .. } if identity == self.candidate.identity)
    }

    /// That another client was quicker is not an error.
    fn taken(&mut self, written: Result<Lease, kube::Error>) -> Result<bool, ApiFailure> {
        match written {
            Ok(lease) => {
                self.observe(&lease);
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Notes when the record changed, by our own time.
    fn observe(&mut self, lease: &Lease) {
        let changed = self.seen.as_ref().is_none_or(|(seen, _)| seen.spec != lease.spec);
        let since = self.seen.as_ref().filter(|_| !changed).map_or_else(Instant::now, |(_, since)| *since);
        self.seen = Some((lease.clone(), since));
    }

    /// Returns whether another process holds the lease as it was seen last.
    fn somebody_else_holds(&self) -> bool {
        let seen = self.seen.as_ref().map(|(seen, _)| Holder::of(seen));
        matches!(seen, Some(Holder::Somebody { identity, .. }) if identity != self.candidate.identity)
    }

    fn may_take(&self, present: &Lease) -> bool {
        match Holder::of(present) {
            Holder::Nobody => true,
            Holder::Somebody { identity, .. } if identity == self.candidate.identity => true,
            Holder::Somebody { lease, .. } => {
                self.seen.as_ref().is_some_and(|(_, since)| since.elapsed() >= lease)
            }
        }
    }

    /// Gives the lease back so that a successor need not wait; best effort.
    async fn release(&mut self) {
        let released = async {
            let Some(present) = self.leases.get_opt(&self.candidate.name).await? else { return Ok(()) };
            if self.is_ours(&present) {
                let lease = record::released(present, self.clock.now());
                self.leases.replace(&self.candidate.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, ApiFailure>(())
        };
        match timeout(self.candidate.retry, released).await {
            Ok(Ok(())) => tracing::info!(lease = self.candidate.name, "released lease"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot release lease; a successor waits for it to run out");
            }
            Err(_elapsed) => {
                tracing::warn!("releasing the lease takes too long; a successor waits for it to run out");
            }
        }
    }
}
