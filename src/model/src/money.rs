//! Money: integer nano-dollars per hour. Total order, no rounding, no floats.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Nano-dollars in a dollar.
const DOLLAR: i64 = 1_000_000_000;

/// A price per hour, in nano-dollars.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Price(i64);

/// Reason why a text is not a price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// Not a plain decimal number.
    #[error("price `{0}` is not a decimal number, write it as `0.0960`")]
    Syntax(String),
    /// More than nine decimals, or larger than about nine billion dollars.
    #[error("price `{0}` cannot be represented exactly in billionths of a dollar")]
    Range(String),
}

impl Price {
    /// Free of charge.
    pub const ZERO: Self = Self(0);
    /// Larger than any real price; sorts last.
    pub const MAX: Self = Self(i64::MAX);

    /// A price of `nanos` billionths of a dollar per hour.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The price in billionths of a dollar per hour.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Sum, capped at [`Price::MAX`].
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, capped.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl std::iter::Sum for Price {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let syntax = || PriceError::Syntax(text.to_owned());
        let range = || PriceError::Range(text.to_owned());
        let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
        if !all_digits || (whole.is_empty() && fraction.is_empty()) {
            return Err(syntax());
        }
        let significant = fraction.trim_end_matches('0');
        if significant.len() > 9 {
            return Err(range());
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| range())? };
        let nanos: i64 = format!("{significant:0<9}").parse().map_err(|_| syntax())?;
        let total =
            whole.checked_mul(DOLLAR).and_then(|dollars| dollars.checked_add(nanos)).ok_or_else(range)?;
        Ok(Self(if negative { -total } else { total }))
    }
}

impl fmt::Display for Price {
    /// Dollars with at least four decimals: `$0.0960`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (dollars, nanos) = (self.0.unsigned_abs() / 1_000_000_000, self.0.unsigned_abs() % 1_000_000_000);
        let decimals = format!("{nanos:09}");
        let kept = decimals.trim_end_matches('0').len().max(4);
        f.pad(&format!("{sign}${dollars}.{}", &decimals[..kept]))
    }
}

impl fmt::Debug for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string().replacen('$', "", 1))
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_exactly_and_shows_at_least_four_decimals() {
        let table = [
            ("0.096", 96_000_000, "$0.0960"),
            ("0.0960000000", 96_000_000, "$0.0960"),
            ("0.000000001", 1, "$0.000000001"),
            ("12", 12_000_000_000, "$12.0000"),
            (".5", 500_000_000, "$0.5000"),
            ("-0.5", -500_000_000, "-$0.5000"),
            ("0.01234", 12_340_000, "$0.01234"),
        ];
        for (text, nanos, shown) in table {
            let price: Price = text.parse().unwrap();
            assert_eq!(price.nanos(), nanos, "{text}");
            assert_eq!(price.to_string(), shown);
        }
    }

    #[test]
    fn refuses_what_it_cannot_hold_exactly() {
        for text in ["", ".", "-", "1e3", "$1", "0.0000000001", "99999999999", "1.2.3", " 1"] {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn serialized_text_round_trips(nanos in 0..i64::MAX) {
            let price = Price::from_nanos(nanos);
            let json = serde_json::to_string(&price).unwrap();
            prop_assert_eq!(serde_json::from_str::<Price>(&json).unwrap(), price);
        }
    }
}
