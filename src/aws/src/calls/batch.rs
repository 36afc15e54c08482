//! Many questions, one call: questions asked within a moment of each other are sent to AWS together (spec aws-provider 5.8).
//!
//! A batch is open from the first question until none has come for [`IDLE`], for [`LONGEST`] at most, or until it is
//! full. A batch that is not full also waits for its turn in the [`Pace`] of its kind of call, and goes on collecting
//! meanwhile: the more is asked, the more is answered by one call, and the number of calls stays what it is.
//!
//! - Every question gets the answer to itself; [`apart`] finds out which one a refusal is about.
//! - An answer is never older than the question: what is asked after the call has begun is in the next batch.
//! - Waiting callers drive the call, so it goes on as long as one of them is left. A question that is dropped while the
//!   batch is open is not asked: nothing is ended for a caller that has given up.

pub(crate) mod apart;
mod pace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use karpenter_aws_api::{Error, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

pub(crate) use pace::{Pace, Rate, Turns};

use crate::calls::observer::Observer;

/// A batch is closed when nothing more has been asked for this long,
const IDLE: Duration = Duration::from_millis(100);
/// and this long after the first question at the latest, if it is its turn.
const LONGEST: Duration = Duration::from_secs(1);

/// The answer to each question of a batch.
pub(crate) type Answers<Q, A> = BTreeMap<Q, Result<A>>;

/// The answers that all callers of a batch wait for.
type Coming<Q, A> = Shared<BoxFuture<'static, Arc<Answers<Q, A>>>>;

/// Answers every question it is given.
type Call<Q, A> = dyn Fn(BTreeSet<Q>) -> BoxFuture<'static, Answers<Q, A>> + Send + Sync;

/// One kind of call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Its name in metrics.
    pub(crate) name: &'static str,
    /// The AWS operation.
    pub(crate) operation: &'static str,
    /// Most questions in one call.
    pub(crate) most: usize,
    /// Rate at which the call is made, unless `plenty` questions wait.
    pub(crate) rate: Rate,
    /// Number of waiting questions that are asked at once, whatever the rate: those that ask may be all that can ask at
    /// once, and would not become more.
    pub(crate) plenty: usize,
}

/// Puts questions of one kind together.
pub(crate) struct Batcher<Q: Ord, A> {
    shared: Arc<Batching<Q, A>>,
}

struct Batching<Q: Ord, A> {
    kind: Kind,
    observer: Arc<dyn Observer>,
    call: Box<Call<Q, A>>,
    queue: Mutex<Queue<Q, A>>,
}

struct Queue<Q: Ord, A> {
    pace: Pace,
    last: u64,
    /// The one questions are put into, if any.
    open: Option<u64>,
    /// Batches that have not been asked yet: the open one, and full ones about to be.
    waiting: BTreeMap<u64, Batch<Q, A>>,
}

struct Batch<Q: Ord, A> {
    /// Questions with the number of callers of each.
    questions: BTreeMap<Q, usize>,
    first: Instant,
    latest: Instant,
    full: Arc<Notify>,
    answers: Coming<Q, A>,
}

impl<Q, A> Batcher<Q, A>
where
    Q: Ord + Clone + ToString + Send + Sync + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// `call` answers every question it is given.
    pub(crate) fn new<F>(
        kind: Kind,
        observer: Arc<dyn Observer>,
        call: impl Fn(BTreeSet<Q>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Answers<Q, A>> + Send + 'static,
    {
        let queue = Queue { pace: Pace::new(kind.rate), last: 0, open: None, waiting: BTreeMap::new() };
        let call = Box::new(move |questions| call(questions).boxed());
        Self { shared: Arc::new(Batching { kind, observer, call, queue: Mutex::new(queue) }) }
    }

    /// The answer to a question, together with the questions of others.
    pub(crate) async fn ask(&self, question: Q) -> Result<A> {
        let (_place, answers) = self.join(&question);
        let answers = answers.await;
        answers.get(&question).cloned().unwrap_or_else(|| {
            let message = "the answer does not mention it";
            Err(Error::transient(self.shared.kind.operation, question.to_string(), message))
        })
    }

    fn join(&self, question: &Q) -> (Place<Q, A>, Coming<Q, A>) {
        let now = Instant::now();
        let mut queue = self.shared.queue.lock();
        let number = match queue.open {
            Some(open) => open,
            None => self.open(&mut queue, now),
        };
        let batch = queue.waiting.get_mut(&number).expect("invariant: the open batch has not been asked");
        *batch.questions.entry(question.clone()).or_default() += 1;
        batch.latest = now;
        let answers = batch.answers.clone();
        // Full: the next question opens another batch, although this one may not have been asked yet.
        if batch.questions.len() >= self.shared.kind.most {
            batch.full.notify_one();
            queue.open = None;
        }
        drop(queue);
        (Place { shared: Arc::clone(&self.shared), number, question: question.clone() }, answers)
    }

    fn open(&self, queue: &mut Queue<Q, A>, now: Instant) -> u64 {
        queue.last += 1;
        let number = queue.last;
        let full = Arc::new(Notify::new());
        let answers = Arc::clone(&self.shared).answer(number, Arc::clone(&full)).boxed().shared();
        let batch = Batch { questions: BTreeMap::new(), first: now, latest: now, full, answers };
        queue.waiting.insert(number, batch);
        queue.open = Some(number);
        number
    }
}

impl<Q, A> Batching<Q, A>
where
    Q: Ord + Clone + ToString + Send + Sync + 'static,
    A: Clone + Send + Sync + 'static,
{
    /// Waits until the batch is to be asked, and asks it.
    async fn answer(self: Arc<Self>, number: u64, full: Arc<Notify>) -> Arc<Answers<Q, A>> {
        while let Some(until) = self.due(number) {
            tokio::select! {
                // The order in which branches are tried is written down, so that a simulation repeats itself
                // (docs/simulation.md).
                biased;
                () = sleep_until(until) => {}
                () = full.notified() => {}
            }
        }
        // All callers have given up meanwhile, so none is left to read an answer.
        let Some((questions, waited)) = self.close(number) else { return Arc::default() };
        self.observer.batched(self.kind.name, questions.len(), waited);
        Arc::new((self.call)(questions).await)
    }

    /// Until when the batch stays open; `None` when it is to be asked now.
    fn due(&self, number: u64) -> Option<Instant> {
        let now = Instant::now();
        let queue = &mut *self.queue.lock();
        let batch = queue.waiting.get(&number)?;
        if batch.questions.len() >= self.kind.most {
            return None;
        }
        let gathered = (batch.latest + IDLE).min(batch.first + LONGEST);
        if gathered > now {
            return Some(gathered);
        }
        if batch.questions.len() >= self.kind.plenty {
            return None;
        }
        // The batch is gathered but the operation may have to wait its turn: until then it stays open and goes on collecting.
        queue.pace.take(now).err()
    }

    /// The questions of a batch and how long they have waited; from here on others are put into the next one.
    fn close(&self, number: u64) -> Option<(BTreeSet<Q>, Duration)> {
        let mut queue = self.queue.lock();
        if queue.open == Some(number) {
            queue.open = None;
        }
        // The answers must not go along: the call would keep itself alive when none waits for it any more.
        let Batch { questions, first, .. } = queue.waiting.remove(&number)?;
        Some((questions.into_keys().collect(), first.elapsed()))
    }
}

/// A question's place in a batch, given up when its caller goes away.
struct Place<Q: Ord, A> {
    shared: Arc<Batching<Q, A>>,
    number: u64,
    question: Q,
}

impl<Q: Ord, A> Drop for Place<Q, A> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        let Some(batch) = queue.waiting.get_mut(&self.number) else { return };
        if let Some(askers) = batch.questions.get_mut(&self.question) {
            *askers -= 1;
            if *askers == 0 {
                batch.questions.remove(&self.question);
            }
        }
        if batch.questions.is_empty() {
            let abandoned = queue.waiting.remove(&self.number);
            if queue.open == Some(self.number) {
                queue.open = None;
            }
            // It holds the queue by a handle of its own, so it goes when the lock is free.
            drop(queue);
            drop(abandoned);
        }
    }
}

impl<Q: Ord, A> std::fmt::Debug for Batcher<Q, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batcher").field("kind", &self.shared.kind).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
