//! Savings of a consolidation move in relation to its disturbance (spec disruption 3.13). Exact: a fraction
//! of integers, never a float.

use std::cmp::Ordering;
use std::fmt;

/// The score of a move: the share of the pool's cost it saves over the share of the pool's pods it disturbs.
#[derive(Debug, Clone, Copy)]
pub struct Score {
    /// Numerator, not negative.
    numerator: i128,
    /// Denominator, not negative; zero is an infinite score.
    denominator: i128,
}

impl Score {
    /// Score of a move that gains nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    /// Something for nothing.
    pub(crate) const INFINITE: Self = Self { numerator: 1, denominator: 0 };
    /// Score from which on a move is approved: one half.
    pub const THRESHOLD: Self = Self { numerator: 1, denominator: 2 };

    /// `numerator / denominator`; negative amounts count as zero, and a zero over zero is a zero.
    pub const fn new(numerator: i128, denominator: i128) -> Self {
        match (numerator <= 0, denominator <= 0) {
            (true, _) => Self::ZERO,
            (false, true) => Self::INFINITE,
            (false, false) => Self { numerator, denominator },
        }
    }

    /// Returns whether a move of this score is worth it: at the threshold it is.
    pub(crate) fn approves(&self) -> bool {
        *self >= Self::THRESHOLD
    }

    /// The score in hundredths, rounded to the nearest; `None` when infinite.
    pub const fn hundredths(&self) -> Option<i128> {
        if self.denominator == 0 {
            return None;
        }
        // Far beyond any real score the last digits no longer matter, and the product must not overflow.
        let (numerator, denominator) = (self.numerator, self.denominator);
        let scaled = numerator.saturating_mul(100).saturating_add(denominator / 2);
        Some(scaled / denominator)
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.denominator == 0, other.denominator == 0) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare(self, other),
        }
    }
}

/// Compares two finite fractions without overflow: whole parts first, then the reciprocals of what remains.
fn compare(left: &Score, right: &Score) -> Ordering {
    let (mut a, mut b) = ((left.numerator, left.denominator), (right.numerator, right.denominator));
    let mut swapped = false;
    loop {
        let wholes = (a.0 / a.1).cmp(&(b.0 / b.1));
        if wholes != Ordering::Equal {
            return if swapped { wholes.reverse() } else { wholes };
        }
        let (rest_a, rest_b) = (a.0 % a.1, b.0 % b.1);
        let ends = match (rest_a == 0, rest_b == 0) {
            (true, true) => Some(Ordering::Equal),
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            (false, false) => None,
        };
        if let Some(order) = ends {
            return if swapped { order.reverse() } else { order };
        }
        (a, b) = ((a.1, rest_a), (b.1, rest_b));
        swapped = !swapped;
    }
}

impl fmt::Display for Score {
    /// Two decimals, or `+Inf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hundredths() {
            None => f.pad("+Inf"),
            Some(hundredths) => f.pad(&format!("{}.{:02}", hundredths / 100, hundredths % 100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_exact_and_totally_ordered() {
        let parts = [-1, 0, 1, 2, 3, 7, 100, i128::MAX / 200];
        let scores = || parts.iter().flat_map(|n| parts.iter().map(move |d| Score::new(*n, *d)));
        for a in scores() {
            for b in scores() {
                assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
                // Small fractions are compared the obvious way.
                if [a, b].iter().all(|score| {
                    score.denominator > 0 && score.numerator < 1_000 && score.denominator < 1_000
                }) {
                    let obvious = (a.numerator * b.denominator).cmp(&(b.numerator * a.denominator));
                    assert_eq!(a.cmp(&b), obvious, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn the_threshold_itself_is_enough() {
        assert!(Score::new(1, 2).approves());
        assert!(!Score::new(499_999, 1_000_000).approves());
        assert!(Score::new(1, 0).approves(), "savings for nothing");
        assert!(!Score::new(0, 0).approves(), "nothing for nothing");
        assert!(!Score::new(-5, 1).approves());
    }

    #[test]
    fn texts_have_two_decimals() {
        let table =
            [((1, 2), "0.50"), ((2, 3), "0.67"), ((7, 1), "7.00"), ((1, 0), "+Inf"), ((0, 9), "0.00")];
        for ((numerator, denominator), text) in table {
            assert_eq!(Score::new(numerator, denominator).to_string(), text);
        }
    }
}
