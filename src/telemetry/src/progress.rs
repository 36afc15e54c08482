//! Work of the process, and the time since it last made progress.
//!
//! Every piece of work is begun here and ends when its guard is dropped. Whatever it waits for and gets, an answer or
//! an error, is reported with [`advanced`]: work that lasts long while its attempts end is slow and not stuck. Work
//! in which nothing has ended for longer than [`PATIENCE`] is stuck, and so is its caller. A process with
//! nothing to do has no work here, so idling is never stuck.
//!
//! All time is `tokio::time`, which is monotonic, so a clock that is set is no stuck work either.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which a piece of work may make no progress. Single calls of the API server and of the cloud end within a quarter
/// of it, one way or the other.
pub const PATIENCE: Duration = Duration::from_mins(10);

tokio::task_local! {
    /// The piece of work this task is in.
    static CURRENT: (Progress, u64);
}

/// The work under way in one process. Cheap to clone, shared.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Ledger>>);

impl Progress {
    /// Notes that `controller` works on `subject` until the guard is dropped.
    pub fn begin(&self, controller: &'static str, subject: impl Into<Cow<'static, str>>) -> Work {
        let id = self.0.lock().begin(controller, subject.into(), Instant::now());
        Work { progress: self.clone(), id }
    }

    /// Awaits `work` as work of `controller` on `subject`, within which [`advanced`] counts for it.
    pub async fn during<T>(
        &self,
        controller: &'static str,
        subject: impl Into<Cow<'static, str>>,
        work: impl Future<Output = T>,
    ) -> T {
        let guard = self.begin(controller, subject);
        CURRENT.scope((self.clone(), guard.id), work).await
    }

    /// Work that has been stuck for longer than [`PATIENCE`], oldest first.
    pub fn stuck(&self) -> Vec<Stuck> {
        self.0.lock().stuck(Instant::now(), PATIENCE)
    }

    /// Ages of the work under way, for each controller that has some.
    pub fn ages(&self) -> BTreeMap<&'static str, Ages> {
        self.0.lock().ages(Instant::now())
    }
}

/// Records that something the current piece of work waited for has ended, well or badly. Outside of work it does nothing.
pub fn advanced() {
    let _outside = CURRENT.try_with(|(progress, id)| progress.0.lock().advanced(*id, Instant::now()));
}

/// A piece of work under way; dropping it ends it.
#[derive(Debug)]
#[must_use = "work that is dropped has ended"]
pub struct Work {
    progress: Progress,
    id: u64,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.progress.0.lock().end(self.id);
    }
}

/// Ages of the work of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    /// The oldest piece of it.
    pub longest: Duration,
    /// All of it together.
    pub total: Duration,
}

/// A piece of work that has made no progress for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Unique within the process.
    pub id: u64,
    pub controller: &'static str,
    /// The object worked on, empty where there is only one.
    pub subject: Cow<'static, str>,
    /// Time for which it has waited.
    pub waiting: Duration,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.controller)?;
        if !self.subject.is_empty() {
            write!(f, " `{}`", self.subject)?;
        }
        write!(f, ": no progress for {}s", self.waiting.as_secs())
    }
}

/// The books behind [`Progress`]. Has no clock: times are passed in.
#[derive(Debug, Default)]
struct Ledger {
    next: u64,
    works: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    controller: &'static str,
    subject: Cow<'static, str>,
    began: Instant,
    /// Time of the last progress.
    advanced: Instant,
}

impl Ledger {
    fn begin(&mut self, controller: &'static str, subject: Cow<'static, str>, now: Instant) -> u64 {
        let id = self.next;
        self.next += 1;
        self.works.insert(id, Entry { controller, subject, began: now, advanced: now });
        id
    }

    fn advanced(&mut self, id: u64, now: Instant) {
        if let Some(entry) = self.works.get_mut(&id) {
            entry.advanced = now;
        }
    }

    fn end(&mut self, id: u64) {
        self.works.remove(&id);
    }

    fn stuck(&self, now: Instant, patience: Duration) -> Vec<Stuck> {
        let each = self.works.iter().map(|(id, entry)| Stuck {
            id: *id,
            controller: entry.controller,
            subject: entry.subject.clone(),
            waiting: now.saturating_duration_since(entry.advanced),
        });
        let mut stuck: Vec<Stuck> = each.filter(|work| work.waiting > patience).collect();
        stuck.sort_by_key(|work| (std::cmp::Reverse(work.waiting), work.id));
        stuck
    }

    fn ages(&self, now: Instant) -> BTreeMap<&'static str, Ages> {
        let mut ages: BTreeMap<&'static str, Ages> = BTreeMap::new();
        for entry in self.works.values() {
            let lasted = now.saturating_duration_since(entry.began);
            let known = ages.entry(entry.controller).or_default();
            known.longest = lasted.max(known.longest);
            known.total = known.total.saturating_add(lasted);
        }
        ages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn work_is_stuck_when_nothing_has_come_of_it_for_longer_than_the_patience() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        let slow = ledger.begin("provisioner", "".into(), start);
        let hanging = ledger.begin("nodeclaim.lifecycle", "a".into(), start);
        let stuck = |ledger: &Ledger, minutes: u32| -> Vec<u64> {
            ledger.stuck(start + minutes * MINUTE, PATIENCE).iter().map(|work| work.id).collect()
        };
        ledger.advanced(slow, start + 5 * MINUTE);
        assert!(stuck(&ledger, 10).is_empty());
        assert_eq!(stuck(&ledger, 11), [hanging]);
        assert_eq!(stuck(&ledger, 16), [hanging, slow], "oldest first");
        ledger.advanced(slow, start + 16 * MINUTE);
        ledger.end(hanging);
        assert!(stuck(&ledger, 17).is_empty(), "what goes on or ends is not stuck any more");
        ledger.begin("provisioner", "".into(), start + 15 * MINUTE);
        let ages = Ages { longest: 17 * MINUTE, total: 19 * MINUTE };
        assert_eq!(ledger.ages(start + 17 * MINUTE), BTreeMap::from([("provisioner", ages)]));
    }

    #[test]
    fn a_stuck_piece_is_named_by_controller_and_object() {
        let stuck = |subject: &'static str| Stuck {
            id: 0,
            controller: "disruption",
            subject: subject.into(),
            waiting: 11 * MINUTE,
        };
        assert_eq!(stuck("").to_string(), "disruption: no progress for 660s");
        assert_eq!(stuck("a").to_string(), "disruption `a`: no progress for 660s");
    }

    #[tokio::test(start_paused = true)]
    async fn idling_is_never_stuck_and_neither_is_work_whose_attempts_end() {
        let progress = Progress::default();
        let trying = progress.during("provisioner", "", async {
            for _ in 0..5 {
                tokio::time::sleep(9 * MINUTE).await;
                assert_eq!(progress.stuck(), []);
                advanced();
            }
        });
        trying.await;
        tokio::time::sleep(60 * MINUTE).await;
        advanced();
        assert_eq!(progress.stuck(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_stuck_until_it_ends_or_is_dropped() {
        let progress = Progress::default();
        let hanging = progress.during("interruption", "queue", std::future::pending::<()>());
        let looking = async {
            tokio::time::sleep(10 * MINUTE).await;
            assert_eq!(progress.stuck(), []);
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.stuck()
        };
        let stuck = tokio::select! {
            () = hanging => unreachable!(),
            stuck = looking => stuck,
        };
        assert_eq!(stuck.len(), 1, "{stuck:?}");
        assert_eq!(progress.stuck(), [], "dropped by the race above");
    }
}
