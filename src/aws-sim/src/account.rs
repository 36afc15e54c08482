//! The account itself: one state behind one lock, and the one way every operation goes through it.
//!
//! Each service owns its tables and the trait over them, in a module of its own below this one; this file only composes
//! the tables and settles time across them, because an instance that ends gives addresses back to EC2 and sends a
//! notice through `EventBridge` to SQS.

mod cloudformation;
mod controls;
mod ec2;
mod eks;
mod events;
mod iam;
mod leaks;
mod notices;
mod pricing;
mod shift;
mod sqs;
mod ssm;
mod sts;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_aws_api::id::Zone;
use karpenter_aws_api::shift::Shift;
use karpenter_aws_api::{Clients, Error, Partition, Result};
use karpenter_model::{Clock, ManualClock};
use parking_lot::Mutex;

use self::cloudformation::Stacks;
pub use self::controls::Impairment;
use self::ec2::Compute;
pub use self::ec2::OfferingSelector;
use self::eks::Clusters;
use self::events::Bus;
use self::iam::Directory;
pub use self::leaks::Remains;
use self::sqs::Queues;
use self::survey::Surroundings;
use super::calls::{CallLog, CallRecord};
use super::catalogue::{Catalogue, published_images};
use super::faults::{Bucket, Effect, Fault, Faults, lost};
use super::options::Options;

/// An AWS account in memory. Clones share the account.
#[derive(Clone, Debug)]
pub struct Account {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: Options,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Woken when a message reaches a queue, so that long polls end early.
    delivered: tokio::sync::Notify,
}

impl Account {
    /// A new account whose clock stands still; see [`Account::with_clock`].
    pub fn new(options: Options) -> Self {
        Self::with_clock(options, Arc::new(ManualClock::default()))
    }

    /// A new account that lives by `clock`.
    pub fn with_clock(options: Options, clock: Arc<dyn Clock>) -> Self {
        let state = State::new(&options, clock.now());
        let inner = Inner { options, clock, state: Mutex::new(state), delivered: tokio::sync::Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Clients of this account.
    pub fn clients(&self) -> Clients {
        Clients {
            ec2: Arc::new(self.clone()),
            iam: Arc::new(self.clone()),
            sqs: Arc::new(self.clone()),
            events: Arc::new(self.clone()),
            ssm: Arc::new(self.clone()),
            pricing: Arc::new(self.clone()),
            eks: Arc::new(self.clone()),
            cloudformation: Arc::new(self.clone()),
            shifts: Arc::new(self.clone()),
            sts: Arc::new(self.clone()),
            survey: Arc::new(self.clone()),
            region: self.inner.options.region.clone(),
            partition: self.partition(),
        }
    }

    /// Returns the options that the account was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The account's time.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn partition(&self) -> Partition {
        Partition::of_region(&self.inner.options.region)
    }

    /// Looks at, or changes, the truth: not a call, not logged, never faulty. Time is settled before and
    /// after, so that what it started is announced at once.
    fn truth<T>(&self, look: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = self.now();
        let mut state = self.inner.state.lock();
        state.settle(&self.inner.options, now);
        let result = look(&mut state, now);
        state.settle(&self.inner.options, now);
        let woken = state.take_deliveries();
        drop(state);
        if woken {
            self.inner.delivered.notify_waiters();
        }
        result
    }

    /// One AWS call: yields, suffers faults and throttling, settles time, acts, and is logged.
    async fn call<T>(
        &self,
        operation: &'static str,
        subject: impl Into<String>,
        act: impl FnOnce(&mut State, Timestamp) -> Result<T> + Send,
    ) -> Result<T> {
        let subject = subject.into();
        // Other tasks get their turn here, as they would during a network round trip.
        tokio::task::yield_now().await;
        let effect = {
            let now = self.now();
            let mut state = self.inner.state.lock();
            state.strike(operation, &subject, now)
        };
        let outcome = match effect {
            Some(Effect::Fail { code, message }) => Err(Error::answered(operation, &subject, code, message)),
            Some(Effect::LoseAnswer) => self.truth(act).and_then(|_| Err(lost(operation, &subject))),
            Some(Effect::Delay(by)) => {
                tokio::time::sleep(by).await;
                self.truth(act)
            }
            None => self.truth(act),
        };
        let failure = outcome.as_ref().err().map(|error| error.kind);
        let at = self.now();
        self.inner.state.lock().calls.0.push(CallRecord { operation, subject, at, failure });
        outcome
    }
}

/// The account's tables.
#[derive(Debug)]
struct State {
    region: String,
    account: String,
    partition: Partition,
    catalogue: Catalogue,
    compute: Compute,
    directory: Directory,
    queues: Queues,
    bus: Bus,
    clusters: Clusters,
    stacks: Stacks,
    parameters: BTreeMap<String, String>,
    surroundings: Surroundings,
    /// Away from which zones, for every registered cluster.
    shifts: Vec<Shift>,
    calls: CallLog,
    faults: Faults,
    buckets: BTreeMap<String, Bucket>,
    ids: Ids,
}

/// Gives new resources their ids: counted, so that a run can be repeated.
#[derive(Debug, Default)]
struct Ids(u64);

impl Ids {
    /// `<prefix>-<17 hex digits>`, never given before.
    fn next(&mut self, prefix: &str) -> String {
        self.0 += 1;
        format!("{prefix}-{:017x}", self.0)
    }
}

impl State {
    fn new(options: &Options, now: Timestamp) -> Self {
        let zones: Vec<Zone> = (b'a'..)
            .take(usize::from(options.zones.clamp(1, 6)))
            .map(|letter| Zone::from(format!("{}{}", options.region, char::from(letter))))
            .collect();
        let (images, parameters) = published_images(&options.kubernetes_version, now);
        let partition = Partition::of_region(&options.region);
        let compute = Compute::new(options, &zones, images);
        let clusters = Clusters::new(options, partition, compute.network.subnets.keys().cloned().collect());
        let surroundings = Surroundings::new(compute.network.vpcs.keys().cloned());
        Self {
            region: options.region.clone(),
            account: options.account.clone(),
            partition,
            catalogue: Catalogue::generate(&zones, &options.instance_types),
            compute,
            directory: Directory::new(options, partition, now),
            queues: Queues::default(),
            bus: Bus::default(),
            clusters,
            stacks: Stacks::default(),
            parameters,
            surroundings,
            shifts: Vec::new(),
            calls: CallLog::default(),
            faults: Faults::default(),
            buckets: BTreeMap::new(),
            ids: Ids::default(),
        }
    }

    /// Brings the account up to `now`: instances boot and end, reclaimed spot instances go, addresses and
    /// capacity come back, state changes are announced.
    fn settle(&mut self, options: &Options, now: Timestamp) {
        for (id, state, at) in self.compute.settle(options, now) {
            notices::state_changed(self, &id, state, at);
        }
        self.queues.expire(now);
    }

    /// True once after messages were delivered.
    fn take_deliveries(&mut self) -> bool {
        std::mem::take(&mut self.queues.delivered)
    }

    fn arn(&self, service: &str, resource: &str) -> String {
        let (partition, region, account) = (self.partition.arn_prefix(), &self.region, &self.account);
        format!("arn:{partition}:{service}:{region}:{account}:{resource}")
    }

    /// The fault or throttling that hits this call.
    fn strike(&mut self, operation: &str, subject: &str, now: Timestamp) -> Option<Effect> {
        if let Some(effect) = self.faults.strike(operation, subject, now) {
            return Some(effect);
        }
        let bucket = self.buckets.get_mut(operation)?;
        let message = "Request limit exceeded.".to_owned();
        (!bucket.take(now)).then(|| Effect::Fail { code: "RequestLimitExceeded".to_owned(), message })
    }

    fn inject(&mut self, fault: Fault) {
        self.faults.add(fault);
    }

    fn clear_faults(&mut self) {
        self.faults.clear();
        self.buckets.clear();
    }

    fn throttle(&mut self, operation: &str, burst: u32, per_second: u32, now: Timestamp) {
        self.buckets.insert(operation.to_owned(), Bucket::full(burst, per_second, now));
    }
}
