//! Instants at which each object of a watch was seen first, reached the given moments, and was gone. The instants are those at
//! which the watch showed it here, so they are later than the truth by what the API server and this process take.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::wait::PATIENCE;

/// The lives of everything that a watch selects. Ends with its owner.
pub(super) struct Moments {
    lives: Arc<Mutex<BTreeMap<String, Life>>>,
    task: AbortHandle,
}

/// Instants of one object.
#[derive(Clone, Debug)]
struct Life {
    seen: Instant,
    reached: Vec<Option<Instant>>,
    gone: Option<Instant>,
}

impl Moments {
    /// Begins to watch; returns with the first list.
    pub(super) async fn begin<K>(
        api: Api<K>,
        config: Config,
        moments: &'static [fn(&K) -> bool],
    ) -> Result<Self>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let lives: Arc<Mutex<BTreeMap<String, Life>>> = Arc::default();
        let (listed, first_list) = oneshot::channel();
        let told = Arc::clone(&lives);
        let task = tokio::spawn(async move {
            let mut changes = watcher(api, config).default_backoff().boxed();
            let mut listed = Some(listed);
            while let Some(change) = changes.next().await {
                // A watch that breaks begins again by itself, with a list. What has gone meanwhile stays as it was: none
                // of the figures is about objects that outlive a workload.
                let mut lives = told.lock();
                match change {
                    Ok(Event::Apply(object) | Event::InitApply(object)) => note(&mut lives, &object, moments),
                    Ok(Event::Delete(object)) => {
                        note(&mut lives, &object, moments);
                        if let Some(life) = object.meta().uid.as_ref().and_then(|uid| lives.get_mut(uid)) {
                            life.gone = Some(Instant::now());
                        }
                    }
                    Ok(Event::InitDone) => {
                        let _ended = listed.take().map(|listed| listed.send(()));
                    }
                    Ok(Event::Init) | Err(_) => {}
                }
            }
        });
        let moments = Self { lives, task: task.abort_handle() };
        let begun = tokio::time::timeout(PATIENCE, first_list).await.context("wait for a watch to begin")?;
        begun.context("a watch ended before it began")?;
        Ok(moments)
    }

    /// Returns the number of objects ever seen.
    pub(super) fn ever(&self) -> usize {
        self.lives.lock().len()
    }

    /// Returns the number of objects that are there.
    pub(super) fn alive(&self) -> usize {
        self.lives.lock().values().filter(|life| life.gone.is_none()).count()
    }

    /// Returns the number of objects that are there and have reached a moment.
    pub(super) fn alive_at(&self, moment: usize) -> usize {
        self.lives
            .lock()
            .values()
            .filter(|life| life.gone.is_none() && life.reached[moment].is_some())
            .count()
    }

    /// The last instant at which one came or went.
    pub(super) fn last_change(&self) -> Option<Instant> {
        self.lives.lock().values().flat_map(|life| [Some(life.seen), life.gone]).flatten().max()
    }

    /// Times from first seen to a moment, of all that reached it, the shortest first.
    pub(super) fn until(&self, moment: usize) -> Vec<Duration> {
        self.sorted(|life| Some(life.reached[moment]? - life.seen))
    }

    /// Times from `start` to a moment, of all that were first seen after it.
    pub(super) fn since(&self, start: Instant, moment: usize) -> Vec<Duration> {
        self.sorted(|life| (life.seen > start).then_some(life.reached[moment]? - start))
    }

    /// Times from `start` to their end, of all that were there then.
    pub(super) fn gone_since(&self, start: Instant) -> Vec<Duration> {
        self.sorted(|life| (life.seen <= start).then_some(life.gone?.checked_duration_since(start)?))
    }

    fn sorted(&self, of: impl Fn(&Life) -> Option<Duration>) -> Vec<Duration> {
        let mut all: Vec<Duration> = self.lives.lock().values().filter_map(of).collect();
        all.sort_unstable();
        all
    }
}

impl Drop for Moments {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn note<K: Resource>(lives: &mut BTreeMap<String, Life>, object: &K, moments: &[fn(&K) -> bool]) {
    let Some(uid) = object.meta().uid.clone() else { return };
    let now = Instant::now();
    let life = lives.entry(uid).or_insert_with(|| Life {
        seen: now,
        reached: vec![None; moments.len()],
        gone: None,
    });
    for (reached, holds) in life.reached.iter_mut().zip(moments) {
        if reached.is_none() && holds(object) {
            *reached = Some(now);
        }
    }
}

/// The least of `sorted` that is not exceeded by this many percent of them; zero for none.
pub(super) fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|index| sorted.get(index)).map_or(0.0, Duration::as_secs_f64)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let seconds: Vec<Duration> = (1..=200).map(Duration::from_secs).collect();
        for (percent, expected) in [(50, 100.0), (99, 198.0), (100, 200.0)] {
            assert!((percentile(&seconds, percent) - expected).abs() < f64::EPSILON, "{percent}");
        }
        assert!((percentile(&seconds[..1], 50) - 1.0).abs() < f64::EPSILON);
        assert!(percentile(&[], 99).abs() < f64::EPSILON);
    }

    #[test]
    fn a_moment_is_the_first_at_which_it_holds() {
        let pod = |phase: &str| -> Pod {
            serde_json::from_value(serde_json::json!({"metadata": {"uid": "1"}, "status": {"phase": phase}}))
                .unwrap()
        };
        let running: [fn(&Pod) -> bool; 1] = [|pod| crate::scenario::facts::phase(pod) == "Running"];
        let mut lives = BTreeMap::new();
        note(&mut lives, &pod("Pending"), &running);
        assert!(lives["1"].reached[0].is_none());
        note(&mut lives, &pod("Running"), &running);
        let first = lives["1"].reached[0].unwrap();
        assert!(first >= lives["1"].seen);
        note(&mut lives, &pod("Pending"), &running);
        note(&mut lives, &pod("Running"), &running);
        assert_eq!(lives["1"].reached[0], Some(first));
    }
}
