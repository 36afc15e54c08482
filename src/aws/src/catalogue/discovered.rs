//! Memory real nodes reported, per type and set of images (spec aws-provider 3.7).
//!
//! The estimate of what the hypervisor keeps is cautious; once a node of a type has registered, its real memory
//! is used. Images are part of the key, because another image may reserve differently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karpenter_api::ec2nodeclass::Ami;
use karpenter_model::{Clock, Quantity};

use crate::calls::cache::TtlCache;

/// Time for which an observation counts, 60 days as in the reference (spec aws-provider 2.3).
const KEEP: Duration = Duration::from_hours(1440);

/// The observations.
#[derive(Debug)]
pub struct DiscoveredMemory {
    seen: TtlCache<(String, String), Quantity>,
    revision: AtomicU64,
}

impl DiscoveredMemory {
    /// Creates it with nothing observed.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { seen: TtlCache::new(clock, KEEP), revision: AtomicU64::new(0) }
    }

    /// Records a node's memory. A larger value than known is ignored: the smallest node decides what a pod
    /// may count on.
    pub fn record(&self, instance_type: &str, amis: &[Ami], memory: Quantity) {
        let key = (instance_type.to_owned(), images(amis));
        let known = self.seen.get(&key);
        if known.is_none_or(|known| memory <= known) {
            self.seen.put(key, memory);
            if known != Some(memory) {
                self.revision.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns whether recording a node's memory would change anything. A known value is worth recording again when half of
    /// its time is over, so that it lasts as long as there are such nodes.
    pub fn is_news(&self, instance_type: &str, amis: &[Ami], memory: Quantity) -> bool {
        let key = (instance_type.to_owned(), images(amis));
        match self.seen.get(&key) {
            Some(known) if known == memory => !self.seen.is_young(&key),
            Some(known) => memory < known,
            None => true,
        }
    }

    /// Memory of a node of this type, if one was seen.
    pub fn get(&self, instance_type: &str, amis: &[Ami]) -> Option<Quantity> {
        self.seen.get(&(instance_type.to_owned(), images(amis)))
    }

    /// Changes whenever an answer does.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }
}

fn images(amis: &[Ami]) -> String {
    let mut ids: Vec<&str> = amis.iter().map(|ami| ami.id.as_str()).collect();
    ids.sort_unstable();
    ids.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::ManualClock;

    #[test]
    fn the_smallest_node_decides_and_other_images_start_over() {
        let discovered = DiscoveredMemory::new(Arc::new(ManualClock::default()));
        let amis = [Ami { id: "ami-1".into(), ..Ami::default() }];
        let units = Quantity::from_units;
        discovered.record("m5.large", &amis, units(100));
        discovered.record("m5.large", &amis, units(110));
        assert_eq!(discovered.get("m5.large", &amis), Some(units(100)));
        discovered.record("m5.large", &amis, units(90));
        assert_eq!(discovered.get("m5.large", &amis), Some(units(90)));
        assert_eq!(discovered.revision(), 2);
        assert_eq!(discovered.get("m5.large", &[]), None);
    }

    #[test]
    fn a_node_like_those_before_is_no_news_until_half_the_time_is_over() {
        let clock = Arc::new(ManualClock::default());
        let discovered = DiscoveredMemory::new(Arc::clone(&clock) as _);
        let units = Quantity::from_units;
        let is_news = |memory| discovered.is_news("m5.large", &[], units(memory));
        assert!(is_news(100));
        discovered.record("m5.large", &[], units(100));
        assert_eq!([90, 100, 110].map(is_news), [true, false, false]);
        clock.advance(KEEP / 2);
        assert_eq!([90, 100, 110].map(is_news), [true, true, false]);
        discovered.record("m5.large", &[], units(100));
        clock.advance(KEEP / 2);
        assert_eq!(discovered.get("m5.large", &[]), Some(units(100)));
    }
}
