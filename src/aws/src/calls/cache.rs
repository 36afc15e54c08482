//! A small cache whose entries expire by an injected clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::Clock;
use karpenter_model::clock::later;
use parking_lot::Mutex;

/// Key to value with one time to live for all entries.
///
/// Expired entries are dropped when they are met and whenever something is inserted, so the cache is never
/// larger than what was asked for within one time to live.
pub struct TtlCache<K, V> {
    clock: Arc<dyn Clock>,
    ttl: Duration,
    entries: Mutex<BTreeMap<K, Entry<V>>>,
}

struct Entry<V> {
    value: V,
    expires: Timestamp,
}

impl<K: Ord + Clone, V: Clone> TtlCache<K, V> {
    /// An empty cache.
    pub fn new(clock: Arc<dyn Clock>, ttl: Duration) -> Self {
        Self { clock, ttl, entries: Mutex::new(BTreeMap::new()) }
    }

    /// The value, if it has not expired.
    pub fn get(&self, key: &K) -> Option<V> {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        match entries.get(key) {
            Some(entry) if entry.expires > now => Some(entry.value.clone()),
            Some(_) => {
                entries.remove(key);
                None
            }
            None => None,
        }
    }

    /// The value, or else what `ask` answers, which is kept; an error is not. Callers that ask at the same time each do.
    pub(crate) async fn get_or_ask<E>(
        &self,
        key: K,
        ask: impl Future<Output = Result<V, E>>,
    ) -> Result<V, E> {
        if let Some(known) = self.get(&key) {
            return Ok(known);
        }
        let answer = ask.await?;
        self.put(key, answer.clone());
        Ok(answer)
    }

    /// Returns whether there is an entry with more than half of the usual time to live left.
    pub(crate) fn is_young(&self, key: &K) -> bool {
        let half = later(self.clock.now(), self.ttl / 2);
        let entries = self.entries.lock();
        entries.get(key).is_some_and(|entry| entry.expires > half)
    }

    /// Inserts or replaces a value with the usual time to live.
    pub fn put(&self, key: K, value: V) {
        self.put_for(key, value, self.ttl);
    }

    /// Inserts or replaces a value with its own time to live.
    pub(crate) fn put_for(&self, key: K, value: V, ttl: Duration) {
        let now = self.clock.now();
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| entry.expires > now);
        entries.insert(key, Entry { value, expires: later(now, ttl) });
    }

    /// Forgets one entry.
    pub fn remove(&self, key: &K) {
        self.entries.lock().remove(key);
    }

    /// Forgets everything that does not pass.
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        let mut entries = self.entries.lock();
        entries.retain(|key, entry| keep(key, &entry.value));
    }

    /// Every entry that has not expired, by key.
    pub fn entries(&self) -> Vec<(K, V)> {
        let now = self.clock.now();
        let entries = self.entries.lock();
        entries
            .iter()
            .filter(|(_, entry)| entry.expires > now)
            .map(|(key, entry)| (key.clone(), entry.value.clone()))
            .collect()
    }
}

impl<K, V> std::fmt::Debug for TtlCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TtlCache").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::ManualClock;

    #[tokio::test]
    async fn an_answer_is_kept_and_an_error_is_not() {
        let cache = TtlCache::new(Arc::new(ManualClock::default()), Duration::from_mins(1));
        assert_eq!(cache.get_or_ask("a", async { Err("busy") }).await, Err("busy"));
        assert_eq!(cache.get_or_ask("a", async { Ok::<_, &str>(1) }).await, Ok(1));
        assert_eq!(cache.get_or_ask("a", async { Err("never asked") }).await, Ok(1));
    }

    #[test]
    fn entries_expire_by_the_given_clock() {
        let clock = Arc::new(ManualClock::default());
        let cache = TtlCache::new(Arc::clone(&clock) as Arc<dyn Clock>, Duration::from_mins(1));
        cache.put("a", 1);
        cache.put_for("b", 2, Duration::from_secs(5));
        clock.advance(Duration::from_secs(10));
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), None));
        assert_eq!(cache.entries(), [("a", 1)]);
        assert!(cache.is_young(&"a") && !cache.is_young(&"b"));
        clock.advance(Duration::from_secs(20));
        assert!(!cache.is_young(&"a"));
        clock.advance(Duration::from_secs(30));
        assert_eq!(cache.get(&"a"), None);
    }
}
