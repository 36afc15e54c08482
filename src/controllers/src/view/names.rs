//! Names of claims to be created.
//!
//! They look as if the API server had chosen them, `<pool>-<five characters>`, but are chosen here: a creation whose
//! answer is lost can then be looked up. One process uses no name twice, and each begins elsewhere.

use jiff::Timestamp;
use karpenter_model::{Claim, ClaimName, PoolName};

use super::View;

/// Characters that the API server makes suffixes of: no vowels, so no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const LETTERS: u32 = 5;
/// Suffixes there are.
const SUFFIXES: u64 = 27_u64.pow(LETTERS);
/// Step from one suffix to the next: coprime to their number, so that every one has its turn, and far enough for names made
/// one after the other to differ at a glance.
const STEP: u64 = 8_867_929;
/// Longest part of a pool's name in a name of at most 63 characters.
const PREFIX_MAX: usize = 63 - LETTERS as usize - 1;

/// Suffix that was used last; `None` before the first.
#[derive(Debug, Default)]
pub(super) struct Suffixes(Option<u64>);

impl Suffixes {
    fn next(&mut self, now: Timestamp) -> String {
        let nanos = u64::try_from(now.as_nanosecond().rem_euclid(i128::from(SUFFIXES))).unwrap_or_default();
        let number = self.0.map_or(nanos, |last| (last + STEP) % SUFFIXES);
        self.0 = Some(number);
        let letter = |place| ALPHABET[usize::try_from(number / 27_u64.pow(place) % 27).unwrap_or_default()];
        (0..LETTERS).map(|place| char::from(letter(place))).collect()
    }
}

impl View {
    /// A name for a new claim of `pool` that no known claim has. Begins at a place that depends on `now`.
    pub(crate) fn new_claim_name(&self, pool: &PoolName, now: Timestamp) -> String {
        let mut inner = self.lock();
        let prefix = &pool.as_str()[..pool.as_str().floor_char_boundary(PREFIX_MAX)];
        // A cut at a dot would give `.-`, which no name may contain.
        let prefix = prefix.trim_end_matches(['.', '-']);
        loop {
            let name = format!("{prefix}-{}", inner.suffixes.next(now));
            if inner.cluster.get::<Claim>(&ClaimName::from(name.as_str())).is_none() {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::World;

    #[test]
    fn no_suffix_comes_twice_and_each_process_begins_elsewhere() {
        let at = |nanosecond| Timestamp::from_nanosecond(nanosecond).unwrap();
        let mut suffixes = Suffixes::default();
        let many: BTreeSet<String> = (0..100_000).map(|_| suffixes.next(at(5))).collect();
        assert_eq!(many.len(), 100_000);
        assert!(many.iter().all(|suffix| suffix.len() == 5));
        let other = Suffixes::default().next(at(1_000_000_006));
        assert_ne!(Suffixes::default().next(at(5)), other);
    }

    #[tokio::test]
    async fn a_long_name_of_a_pool_is_cut() {
        let view = World::new().context.view;
        let name = view.new_claim_name(&"p".repeat(63).as_str().into(), Timestamp::UNIX_EPOCH);
        assert_eq!(name.len(), 63);
        for end in [".", "-", ".-"] {
            let pool = format!("{}{end}tail-of-the-name", "p".repeat(PREFIX_MAX - end.len()));
            let name = view.new_claim_name(&pool.as_str().into(), Timestamp::UNIX_EPOCH);
            let (prefix, _) = name.split_once('-').unwrap();
            assert_eq!(prefix, "p".repeat(PREFIX_MAX - end.len()), "{name}");
        }
        let short = view.new_claim_name(&"web".into(), Timestamp::UNIX_EPOCH);
        assert!(short.starts_with("web-") && short.len() == 9, "{short}");
    }
}
