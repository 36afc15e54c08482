//! Changes of a price by an overlay: it sets the price, adds to it or scales it (spec scheduling 5, 24). Exact integers;
//! fractions below a billionth of a dollar or of a percent are rounded to the nearest.

use crate::money::Price;

/// Billionths in one.
const UNIT: i64 = 1_000_000_000;
/// Decimals that are kept.
const DECIMALS: usize = 9;

/// A change of a price. No price falls below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceChange {
    /// This price instead.
    To(Price),
    /// So much more, or less if negative.
    By(Price),
    /// So many billionths of a percent more, or less if negative.
    ByPercent(i64),
}

/// Reason why a text is no price or no change of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceChangeError {
    /// Not a price.
    #[error("`{0}` is not a price; write dollars per hour, for example `0.0960`")]
    Price(String),
    /// Not a change.
    #[error("`{0}` is not a change of a price; write for example `+0.01`, `-0.01`, `+10%` or `-10%`")]
    Adjustment(String),
}

impl PriceChange {
    /// Reads `spec.price`: dollars per hour.
    ///
    /// # Errors
    /// When the text is not a decimal number without sign.
    pub fn price(text: &str) -> Result<Self, PriceChangeError> {
        let nanos = billionths(text).ok_or_else(|| PriceChangeError::Price(text.to_owned()))?;
        Ok(Self::To(Price::from_nanos(nanos)))
    }

    /// Reads `spec.priceAdjustment`: a sign, a decimal number, and `%` if it is relative.
    ///
    /// # Errors
    /// When the text is something else, or more than everything is to be taken off.
    pub fn adjustment(text: &str) -> Result<Self, PriceChangeError> {
        let refused = || PriceChangeError::Adjustment(text.to_owned());
        let (sign, unsigned) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(refused()),
        };
        if let Some(percent) = unsigned.strip_suffix('%') {
            let percent = sign * billionths(percent).ok_or_else(refused)?;
            if percent < -100 * UNIT { Err(refused()) } else { Ok(Self::ByPercent(percent)) }
        } else {
            let nanos = billionths(unsigned).ok_or_else(refused)?;
            Ok(Self::By(Price::from_nanos(sign * nanos)))
        }
    }

    /// The price after the change.
    #[must_use]
    pub fn apply(self, price: Price) -> Price {
        match self {
            Self::To(price) => price,
            Self::By(difference) => price.saturating_add(difference).max(Price::ZERO),
            Self::ByPercent(percent) => scaled(price, percent),
        }
    }
}

/// `price` and `percent` billionths of a percent of it more, rounded to the nearest billionth of a dollar.
fn scaled(price: Price, percent: i64) -> Price {
    let whole = 100 * i128::from(UNIT);
    let factor = (whole + i128::from(percent)).max(0);
    let nanos = (i128::from(price.nanos()) * factor + whole / 2).div_euclid(whole);
    Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)).max(Price::ZERO)
}

/// A decimal number without sign in billionths, rounded to the nearest, at most the largest that fits.
fn billionths(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut digits = whole.bytes().chain(fraction.bytes());
    if (whole.is_empty() && fraction.is_empty()) || !digits.all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = fraction.bytes().chain(std::iter::repeat(b'0')).take(DECIMALS);
    let append = |sum: i64, digit: u8| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
    let cut = whole.bytes().chain(kept).fold(0, append);
    let up = fraction.as_bytes().get(DECIMALS).is_some_and(|digit| *digit >= b'5');
    Some(cut.saturating_add(i64::from(up)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dollars(text: &str) -> Price {
        text.parse().unwrap()
    }

    #[test]
    fn absolute_replaces_a_sum_adds_a_percentage_scales_and_nothing_falls_below_zero() {
        let price = |text: &str| PriceChange::price(text).unwrap();
        let change = |text: &str| PriceChange::adjustment(text).unwrap();
        let table = [
            (price("0.5"), "0.096", "0.5"),
            (price("0"), "0.096", "0"),
            (price("5"), "0", "5"),
            (change("+0.004"), "0.096", "0.1"),
            (change("-0.006"), "0.096", "0.09"),
            (change("-.006"), "0.096", "0.09"),
            (change("-1"), "0.096", "0"),
            (change("+10%"), "0.1", "0.11"),
            (change("-10%"), "0.1", "0.09"),
            (change("-100%"), "0.1", "0"),
            (change("+1000%"), "0.1", "1.1"),
            (change("-33.3%"), "1", "0.667"),
            (change("-99.9999999%"), "1", "0.000000001"),
            // A third of a billionth of a dollar is nearer to none.
            (change("-66.6%"), "0.000000001", "0"),
            (change("-50%"), "0.000000001", "0.000000001"),
        ];
        for (change, before, after) in table {
            assert_eq!(change.apply(dollars(before)), dollars(after), "{change:?} of {before}");
        }
    }

    #[test]
    fn what_is_finer_than_a_billionth_is_rounded() {
        let table =
            [("0.0000000232", 23), ("0.0000000235", 24), ("0.00000000049", 0), ("1.9999999999", 2 * UNIT)];
        for (text, nanos) in table {
            assert_eq!(PriceChange::price(text), Ok(PriceChange::To(Price::from_nanos(nanos))), "{text}");
        }
        assert_eq!(PriceChange::adjustment("-99.99999999999%"), Ok(PriceChange::ByPercent(-100 * UNIT)));
    }

    #[test]
    fn texts_that_are_neither_are_refused() {
        for text in ["", ".", "-1", "+1", "1e3", "$1", "1.2.3", " 1", "1%"] {
            assert!(PriceChange::price(text).is_err(), "{text:?}");
        }
        for text in ["", "1", "10%", "+", "-", "+%", "-101%", "-100.1%", "++1", "+1%%", "µ"] {
            assert!(PriceChange::adjustment(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        /// Whatever the numbers, a price stays a price.
        #[test]
        fn no_change_overflows_or_falls_below_zero(price in 0..=i64::MAX, by in any::<i64>()) {
            let price = Price::from_nanos(price);
            for change in [PriceChange::By(Price::from_nanos(by)), PriceChange::ByPercent(by)] {
                prop_assert!(change.apply(price) >= Price::ZERO);
            }
        }

        /// A higher price stays higher, or becomes equal.
        #[test]
        fn changes_keep_the_order_of_prices(a in 0..1_i64 << 40, b in 0..1_i64 << 40, percent in -100..1000_i64) {
            let (less, more) = (Price::from_nanos(a.min(b)), Price::from_nanos(a.max(b)));
            let change = PriceChange::ByPercent(percent * UNIT);
            prop_assert!(change.apply(less) <= change.apply(more));
        }

        #[test]
        fn every_text_the_schema_accepts_can_be_read(
            price in r"[0-9]{1,30}(\.[0-9]{1,30})?",
            change in r"(([+-][0-9]{0,30}\.?[0-9]{1,30})|(\+[0-9]{0,30}\.?[0-9]{1,30}%)|(-[0-9]{1,2}(\.[0-9]{1,20})?%)|(-100%))",
        ) {
            prop_assert!(PriceChange::price(&price).is_ok());
            prop_assert!(PriceChange::adjustment(&change).is_ok(), "{}", change);
        }
    }
}
