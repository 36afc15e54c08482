//! Kubernetes quantities, exact: an integer number of nano units, no floats anywhere.
//!
//! Parsing, rounding (anything below a nano unit is rounded away from zero) and the canonical text follow
//! `k8s.io/apimachinery/pkg/api/resource`, because users compare what we print with what they wrote; what that library
//! says of some hundred texts is recorded in `recorded/quantities.tsv`. Amounts are capped at 2^63-1 units, and a text
//! without a digit is refused. Order, equality and hash look at the value only, never at the notation.

mod text;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter::Sum;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use text::QuantityError;

/// Nano units in one unit.
const UNIT: i128 = 1_000_000_000;
/// Nano units in one milli unit.
const MILLI: i128 = 1_000_000;
/// Largest magnitude a parsed quantity may have, in units; larger ones are capped.
const MAX_UNITS: i128 = i64::MAX as i128;

/// The family of suffixes a quantity is written with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `n u m k M G T P E`
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`
    Binary,
    /// `e3`, `E-6`
    Exponent,
}

/// An exact amount of a resource.
#[derive(Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, notation: Notation::Decimal };
    /// One unit.
    pub const ONE: Self = Self { nanos: UNIT, notation: Notation::Decimal };

    /// `millis` thousandths of a unit, written in decimal.
    pub const fn from_millis(millis: i64) -> Self {
        Self { nanos: millis as i128 * MILLI, notation: Notation::Decimal }
    }

    /// `units` whole units, written in decimal.
    pub const fn from_units(units: i64) -> Self {
        Self { nanos: units as i128 * UNIT, notation: Notation::Decimal }
    }

    /// `nanos` billionths of a unit, written in decimal.
    pub const fn from_nanos(nanos: i128) -> Self {
        Self { nanos, notation: Notation::Decimal }
    }

    /// `bytes` bytes, written in powers of 1024.
    pub const fn from_bytes(bytes: i64) -> Self {
        Self { nanos: bytes as i128 * UNIT, notation: Notation::Binary }
    }

    /// The value in nano units.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The value in milli units, rounded up.
    pub fn as_millis_ceil(self) -> i64 {
        ceil(self.nanos, MILLI)
    }

    /// The value in whole units, rounded up.
    pub fn as_units_ceil(self) -> i64 {
        ceil(self.nanos, UNIT)
    }

    /// Sum, or `None` when it cannot be represented.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        Some(Self { nanos: self.nanos.checked_add(other.nanos)?, notation: self.notation_with(other) })
    }

    /// Difference, or `None` when it cannot be represented.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        Some(Self { nanos: self.nanos.checked_sub(other.nanos)?, notation: self.notation_with(other) })
    }

    /// Sum, capped at what can be represented.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos), notation: self.notation_with(other) }
    }

    /// Difference, capped at what can be represented.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), notation: self.notation_with(other) }
    }

    /// Product with a count, capped at what can be represented.
    #[must_use]
    pub fn saturating_mul(self, count: i64) -> Self {
        Self { nanos: self.nanos.saturating_mul(i128::from(count)), ..self }
    }

    /// Returns whether the value is below zero.
    pub const fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Returns whether the value is zero.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The notation of a result: that of the left side unless it is zero, as Kubernetes does.
    fn notation_with(self, other: Self) -> Notation {
        if self.nanos == 0 { other.notation } else { self.notation }
    }
}

/// `nanos / unit` rounded towards positive infinity, capped to 64 bits.
fn ceil(nanos: i128, unit: i128) -> i64 {
    let rounded = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) != 0);
    i64::try_from(rounded).unwrap_or(if rounded < 0 { i64::MIN } else { i64::MAX })
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
