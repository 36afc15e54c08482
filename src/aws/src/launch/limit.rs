//! Number of fleets requested at once: as many as EC2 takes, in the order of the requests.
//!
//! A thousand claims made at once would otherwise be a thousand calls, most of them refused, and which ones are served
//! would be chance. Every refusal for being too many halves the number; every full round without one adds one.

use std::sync::Arc;

use karpenter_aws_api::{Error, Kind, Result};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Calls at once while EC2 refuses none: a call takes a second or two, and EC2 allows tens in a second.
const MOST: usize = 100;

/// The limit. Calls wait in line for it.
#[derive(Debug)]
pub struct Limit {
    /// Hands out permits in the order they were asked for.
    permits: Arc<Semaphore>,
    size: Mutex<Size>,
}

#[derive(Debug)]
struct Size {
    /// Calls that may be under way.
    allowed: usize,
    /// Permits to take out of circulation when they come back.
    surplus: usize,
    /// Calls that went well since it grew.
    well: usize,
    /// Calls begun before this have been counted: those that fail together are one refusal.
    shrunk_at: Option<Instant>,
}

impl Default for Limit {
    fn default() -> Self {
        let size = Size { allowed: MOST, surplus: 0, well: 0, shrunk_at: None };
        Self { permits: Arc::new(Semaphore::new(MOST)), size: Mutex::new(size) }
    }
}

impl Limit {
    /// Makes a call when it is its turn. `is_throttled` returns whether an answer is a refusal for being too many, too.
    pub async fn within<T>(
        &self,
        call: impl Future<Output = Result<T>>,
        is_throttled: impl FnOnce(&T) -> bool,
    ) -> Result<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Error::transient("CreateFleet", "fleet", "the limit is closed"))?;
        let began = Instant::now();
        let answer = call.await;
        let failure = match &answer {
            // CreateFleet answers with success when the launches inside of it were throttled.
            Ok(answer) => is_throttled(answer).then_some(Kind::Throttled),
            Err(error) => Some(error.kind),
        };
        self.learn(began, failure, permit);
        answer
    }

    fn learn(&self, began: Instant, failure: Option<Kind>, permit: OwnedSemaphorePermit) {
        let mut size = self.size.lock();
        if failure == Some(Kind::Throttled) {
            size.well = 0;
            if size.shrunk_at.is_none_or(|at| began >= at) {
                size.shrunk_at = Some(Instant::now());
                // Half of one is none, so a single call is always allowed.
                let fewer = size.allowed / 2;
                size.allowed -= fewer;
                size.surplus += fewer - self.permits.forget_permits(fewer);
                tracing::debug!(at_once = size.allowed, "EC2 throttles fleets, fewer are asked for at once");
            }
        } else if failure.is_none() && size.allowed < MOST {
            // Successes alone count: any failure but throttling is no evidence about the rate.
            size.well += 1;
            if size.well >= size.allowed {
                size.well = 0;
                size.allowed += 1;
                match size.surplus.checked_sub(1) {
                    Some(less) => size.surplus = less,
                    None => self.permits.add_permits(1),
                }
            }
        }
        if size.surplus > 0 {
            size.surplus -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::task::unconstrained;
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Calls under way, the most of them at once, and the order in which they began.
    #[derive(Default)]
    struct Ec2 {
        under_way: AtomicUsize,
        most: AtomicUsize,
        began: Mutex<Vec<usize>>,
    }

    impl Ec2 {
        async fn call(&self, number: usize, answer: Result<bool>) -> Result<bool> {
            let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(now, Ordering::Relaxed);
            self.began.lock().push(number);
            sleep(SECOND).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            answer
        }
    }

    fn throttled() -> Error {
        Error::answered("CreateFleet", "fleet", "RequestLimitExceeded", "slow down")
    }

    /// Makes this number of calls at once, each with an answer that is true for a refusal; returns the most that were under way
    /// together.
    async fn at_once(limit: &Limit, count: usize, answer: &Result<bool>) -> usize {
        let ec2 = Ec2::default();
        let call = |number| limit.within(ec2.call(number, answer.clone()), |throttled| *throttled);
        // As tasks of their own would: one that polls this many futures would yield between them.
        join_all((0..count).map(call).map(unconstrained)).await;
        let began = ec2.began.lock().clone();
        assert_eq!(began, (0..count).collect::<Vec<_>>(), "in the order they were asked for");
        ec2.most.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_wait_in_line_while_too_many_are_under_way() {
        assert_eq!(at_once(&Limit::default(), 350, &Ok(false)).await, MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_that_come_together_halve_it_once_and_calm_brings_it_back() {
        let limit = Limit::default();
        at_once(&limit, MOST, &Err(throttled())).await;
        assert_eq!(at_once(&limit, 50, &Ok(false)).await, 50, "all that were allowed");
        let few = at_once(&limit, 60, &Ok(false)).await;
        assert!((51..=52).contains(&few), "one more for each full round: {few}");
        at_once(&limit, 10_000, &Ok(false)).await;
        assert_eq!(at_once(&limit, 200, &Ok(false)).await, MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_a_refusal_halves_it_too() {
        let limit = Limit::default();
        at_once(&limit, MOST, &Ok(true)).await;
        let few = at_once(&limit, 60, &Ok(false)).await;
        assert!((50..=52).contains(&few), "{few}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_is_always_let_through() {
        let limit = Limit::default();
        for _ in 0..20 {
            at_once(&limit, 1, &Err(throttled())).await;
        }
        assert_eq!(at_once(&limit, 1, &Ok(false)).await, 1);
        let after = at_once(&limit, 3, &Ok(false)).await;
        assert!(after <= 2, "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn other_failures_say_nothing_about_the_number_and_one_that_is_dropped_gives_way() {
        let limit = Limit::default();
        let lost = Error::transient("CreateFleet", "fleet", "lost");
        at_once(&limit, MOST, &Err(lost)).await;
        let ec2 = Ec2::default();
        let dropped = join_all(
            (0..MOST).map(|number| limit.within(ec2.call(number, Ok(false)), |throttled| *throttled)),
        );
        assert!(tokio::time::timeout(SECOND / 2, dropped).await.is_err());
        assert_eq!(at_once(&limit, 200, &Ok(false)).await, MOST);
    }
}
