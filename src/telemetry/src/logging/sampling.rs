//! Keeps one repeated message from filling the disk: the first hundred of a second are written, then every
//! hundredth.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

const FIRST: u64 = 100;
const THEREAFTER: u64 = 100;

/// Counts messages per second. Holds only the messages of the current second.
#[derive(Debug, Default)]
pub(super) struct Sampler(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    number: u64,
    seen: BTreeMap<String, u64>,
}

impl Sampler {
    /// True when this occurrence of `message` is to be written.
    pub(super) fn admit(&self, message: &str, now: SystemTime) -> bool {
        let number = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut second = self.0.lock();
        if second.number != number {
            *second = Second { number, seen: BTreeMap::new() };
        }
        let Some(count) = second.seen.get_mut(message) else {
            second.seen.insert(message.to_owned(), 1);
            return true;
        };
        *count += 1;
        *count <= FIRST || (*count - FIRST).is_multiple_of(THEREAFTER)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::Sampler;

    #[test]
    fn a_flood_is_thinned_and_other_messages_are_not_affected() {
        let sampler = Sampler::default();
        let written = (0..1000).filter(|_| sampler.admit("flood", UNIX_EPOCH)).count();
        assert_eq!(written, 109);
        assert!(sampler.admit("other", UNIX_EPOCH));
        assert!(sampler.admit("flood", UNIX_EPOCH + Duration::from_secs(1)));
    }
}
