//! The simulations of one pass, shared by its methods: each gets an equal share of what is left, so what one does not
//! use goes to those after it, and none starves because another is never done. What a pass could not ask, the next
//! one asks.

/// Simulations left in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    left: u32,
}

impl Allowance {
    /// `simulations` for the whole pass.
    pub(crate) const fn new(simulations: u32) -> Self {
        Self { left: simulations }
    }

    /// Returns the simulations for a method that has `others` after it; at least one, or it would make no progress.
    pub(crate) fn share(self, others: u32) -> u32 {
        (self.left / others.saturating_add(1)).max(1)
    }

    /// Records that a method has run this number of `simulations`.
    pub(crate) fn spend(&mut self, simulations: u32) {
        self.left = self.left.saturating_sub(simulations);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_a_share_and_what_is_left_over_goes_on() {
        let mut allowance = Allowance::new(100);
        assert_eq!(allowance.share(3), 25);
        allowance.spend(25);
        assert_eq!(allowance.share(2), 25);
        allowance.spend(5);
        assert_eq!(allowance.share(1), 35, "twenty more for two");
        allowance.spend(0);
        assert_eq!(allowance.share(0), 70, "the last one may have all of it");
    }

    #[test]
    fn however_little_there_is_everybody_may_ask_once() {
        let mut allowance = Allowance::new(1);
        assert_eq!(allowance.share(3), 1);
        allowance.spend(1);
        assert_eq!(allowance.share(2), 1);
        allowance.spend(7);
        assert_eq!(allowance.share(0), 1);
    }

    #[test]
    fn no_method_gets_less_than_an_equal_share_whatever_those_before_it_use() {
        for total in 0..200_u32 {
            for methods in 1..=4_u32 {
                let mut allowance = Allowance::new(total);
                for method in 0..methods {
                    let share = allowance.share(methods - 1 - method);
                    assert!(share >= total / methods, "{total} for {methods}");
                    allowance.spend(share);
                }
            }
        }
    }
}
