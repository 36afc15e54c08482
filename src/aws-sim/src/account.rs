//! The account itself: one state behind one lock, and the one way every operation goes through it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_model::{Clock, ManualClock};

use super::calls::CallRecord;
use super::faults::Effect;
use super::faults::lost;
use super::options::Options;
use super::state::State;
use karpenter_aws_api::{Clients, Error, Partition, Result};

/// An AWS account in memory. Clones share the account.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Woken when a message reaches a queue, so that long polls end early.
    pub(super) delivered: tokio::sync::Notify,
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

    /// What the account was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    /// The account's time.
    pub fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(super) fn partition(&self) -> Partition {
        Partition::of_region(&self.inner.options.region)
    }

    /// Looks at, or changes, the truth: not a call, not logged, never faulty. Time is settled before and
    /// after, so that what it started is announced at once.
    pub(super) fn truth<T>(&self, look: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
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
    pub(super) async fn call<T>(
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
            let mut state = self.lock();
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
        self.lock().calls.0.push(CallRecord { operation, subject, at, failure });
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
