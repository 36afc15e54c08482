//! One seed, split by name: every part of a run that needs chance has a stream of its own.
//!
//! Streams are independent, so that leaving one fault out of a history does not shift what happens to the rest of it; that
//! is what makes shrinking work.

use fastrand::Rng;

/// A seed of a run, or of one part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(pub(crate) u64);

impl Seed {
    /// The stream of the part called `name`.
    pub(crate) fn stream(self, name: &str) -> Rng {
        // Spread over all bits first: the name must not undo what tells two seeds apart.
        let mut mixed = Rng::with_seed(self.0).u64(..);
        for byte in name.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Rng::with_seed(Rng::with_seed(mixed).u64(..))
    }
}

/// True about once in `n` times; never for 0.
pub(crate) fn one_in(random: &mut Rng, n: u32) -> bool {
    // Drawn in any case: whether a fault is possible must not shift the other draws.
    let drawn = random.u32(..n.max(1));
    n > 0 && drawn == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_name_and_seed() {
        let first = |seed, name| Seed(seed).stream(name).u64(..);
        assert_eq!(first(1, "a"), first(1, "a"));
        let others = [first(1, "b"), first(2, "a"), first(2, "b")];
        assert!(others.iter().all(|other| *other != first(1, "a")), "{others:?}");
    }

    #[test]
    fn what_cannot_happen_uses_up_a_draw() {
        let (mut with, mut without) = (Seed(7).stream("x"), Seed(7).stream("x"));
        assert!(!one_in(&mut without, 0));
        let _drawn = one_in(&mut with, 1);
        assert_eq!(with.u64(..), without.u64(..));
    }
}
