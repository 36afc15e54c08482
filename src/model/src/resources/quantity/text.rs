//! Text form of quantities: the grammar `<sign><digits>[.<digits>][<suffix>]` and its canonical rendering.

use std::fmt;
use std::str::FromStr;

use super::{MAX_UNITS, Notation, Quantity, UNIT};

/// Reason why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing there.
    #[error("quantity is empty, write a number such as `100m` or `2Gi`")]
    Empty,
    /// No digits, or more than one dot.
    #[error("quantity `{text}` has no valid number, write digits with at most one dot")]
    Number { text: String },
    /// An unknown suffix.
    #[error(
        "quantity `{text}` has unknown suffix `{suffix}`, use one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or e<n>"
    )]
    Suffix {
        text: String,
        /// The part after the number.
        suffix: String,
    },
}

/// Decimal suffixes by power of ten.
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
/// Binary suffixes by power of 1024, starting with 1.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Factor of a suffix.
#[derive(Clone, Copy)]
struct Scale {
    notation: Notation,
    /// Power of ten.
    ten: i32,
    /// Power of two.
    two: u32,
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let number_error = || QuantityError::Number { text: text.to_owned() };
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(number_error());
        }
        let scale = scale_of(suffix)
            .ok_or_else(|| QuantityError::Suffix { text: text.to_owned(), suffix: suffix.to_owned() })?;
        let magnitude = magnitude(whole, fraction, scale).min(MAX_UNITS * UNIT);
        Ok(Self { nanos: if negative { -magnitude } else { magnitude }, notation: scale.notation })
    }
}

fn scale_of(suffix: &str) -> Option<Scale> {
    if let Some((_, ten)) = DECIMAL.iter().find(|(text, _)| *text == suffix) {
        return Some(Scale { notation: Notation::Decimal, ten: *ten, two: 0 });
    }
    if let Some(power) = (1u32..).zip(BINARY).find_map(|(power, text)| (text == suffix).then_some(power)) {
        return Some(Scale { notation: Notation::Binary, ten: 0, two: 10 * power });
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // An exponent beyond 32 bits is rejected by Kubernetes too.
    let ten = exponent.parse().ok()?;
    Some(Scale { notation: Notation::Exponent, ten, two: 0 })
}

/// The value in nano units, rounded up, saturating well above the cap.
fn magnitude(whole: &str, fraction: &str, scale: Scale) -> i128 {
    // Digits after which everything is either capped or a fraction of a nano unit.
    const DIGITS: usize = 60;
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    let Some(first) = digits.iter().position(|digit| *digit != 0) else { return 0 };
    let significant = &digits[first..];
    let point = i64::try_from(whole.len()).unwrap_or(i64::MAX) - i64::try_from(first).unwrap_or(i64::MAX);
    // value = 0.d1d2d3... * 10^point * 10^ten * 2^two units; nano units need nine more powers of ten.
    let exponent = point.saturating_add(i64::from(scale.ten)).saturating_add(9);
    let Ok(taken) = usize::try_from(exponent.max(0)) else { return i128::MAX };
    if taken > DIGITS {
        return i128::MAX;
    }
    // Multiply by the binary factor before anything is cut off: work with `extra` more digits.
    scaled(significant, exponent, scale.two)
}

/// `0.digits * 10^exponent * 2^two`, rounded up, saturating.
fn scaled(digits: &[u8], exponent: i64, two: u32) -> i128 {
    // Schoolbook: the digits times 2^two as a decimal big number, then cut at the point.
    let mut product: Vec<u8> = digits.iter().rev().copied().collect();
    for _ in 0..two {
        let mut carry = 0;
        for digit in &mut product {
            let doubled = *digit * 2 + carry;
            *digit = doubled % 10;
            carry = doubled / 10;
        }
        if carry > 0 {
            product.push(carry);
        }
    }
    // The product counts units of 10^(exponent - digits.len()).
    let shift = exponent - i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let (kept, rounded_up) = if shift >= 0 {
        (product.as_slice(), false)
    } else {
        let cut = usize::try_from(-shift).unwrap_or(usize::MAX).min(product.len());
        (&product[cut..], product[..cut].iter().any(|digit| *digit != 0))
    };
    let mut value: i128 = 0;
    for digit in kept.iter().rev() {
        value = value.saturating_mul(10).saturating_add(i128::from(*digit));
    }
    for _ in 0..shift.max(0) {
        value = value.saturating_mul(10);
    }
    value.saturating_add(i128::from(rounded_up))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.pad("0");
        }
        // Binary notation has no fractions: small amounts and fractions of a unit are written in decimal.
        let whole = self.nanos.abs() >= 1024 * UNIT && self.nanos % UNIT == 0;
        let text = match self.notation {
            Notation::Binary if whole => binary(self.nanos / UNIT),
            Notation::Exponent => decimal(self.nanos, |power| match power {
                0 => String::new(),
                power => format!("e{power}"),
            }),
            Notation::Binary | Notation::Decimal => decimal(self.nanos, decimal_suffix),
        };
        f.pad(&text)
    }
}

fn decimal_suffix(power: i32) -> String {
    match DECIMAL.iter().find(|(_, known)| *known == power) {
        Some((suffix, _)) => (*suffix).to_owned(),
        None => format!("e{power}"),
    }
}

/// The largest power of 1000 that leaves no fraction.
fn decimal(nanos: i128, suffix: impl Fn(i32) -> String) -> String {
    let (mut value, mut power) = (nanos, -9);
    while value % 1000 == 0 {
        value /= 1000;
        power += 3;
    }
    format!("{value}{}", suffix(power))
}

/// The largest power of 1024 that leaves no fraction.
fn binary(units: i128) -> String {
    let (mut value, mut suffix) = (units, "");
    for next in BINARY {
        if value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = next;
    }
    format!("{value}{suffix}")
}
