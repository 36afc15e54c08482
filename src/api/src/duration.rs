//! Durations as users write them in `expireAfter`, `consolidateAfter`, `terminationGracePeriod` and budgets.
//!
//! The text is kept byte for byte (`90m` stays `90m`, not `1h30m0s`), because tools that compare a Git
//! repository with the cluster would otherwise see a difference for ever (spec scheduling 3.1).
//! Decoding never fails: one odd object must not make a whole list unreadable. The value is read, and
//! refused, where it is used.

use std::fmt;
use std::time::Duration as Span;

use serde::{Deserialize, Serialize};

const NEVER: &str = "Never";

/// A duration in Go syntax, for example `30s` or `1h30m`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration(String);

/// A duration in Go syntax, or `Never`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NillableDuration(String);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("duration `{text}` is not of the form `1h30m`; use whole numbers followed by `s`, `m` or `h`")]
pub struct InvalidDuration {
    /// The text as written.
    pub text: String,
}

impl Duration {
    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value; longer than about 292 years is cut to that, as it means the same.
    pub fn span(&self) -> Result<Span, InvalidDuration> {
        parse_go_duration(&self.0)
    }
}

impl NillableDuration {
    /// The word for "no value".
    pub fn never() -> Self {
        Self(NEVER.to_owned())
    }

    /// The text as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value, `None` for `Never`.
    pub fn span(&self) -> Result<Option<Span>, InvalidDuration> {
        if self.0 == NEVER { Ok(None) } else { parse_go_duration(&self.0).map(Some) }
    }
}

macro_rules! from_text {
    ($($name:ident),*) => {$(
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

from_text!(Duration, NillableDuration);

/// Text of a duration as Kubernetes writes it: from the greatest unit down to seconds, `10m0s`.
impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        let units = units(span).into_iter().skip_while(|(count, unit)| *count == 0 && *unit != "s");
        Self(units.map(|(count, unit)| format!("{count}{unit}")).collect())
    }
}

/// The shortest form, which is how people write it: `720h`, not `720h0m0s`.
impl From<Span> for NillableDuration {
    fn from(span: Span) -> Self {
        if span.as_secs() == 0 {
            return Self("0s".to_owned());
        }
        let units = units(span).into_iter().filter(|(count, _)| *count > 0);
        Self(units.map(|(count, unit)| format!("{count}{unit}")).collect())
    }
}

/// Fractions of a second, which the schema cannot express, are dropped.
fn units(span: Span) -> [(u64, &'static str); 3] {
    let seconds = span.as_secs();
    [(seconds / 3600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")]
}

/// Reads Go duration syntax without sign: one or more of number (with optional fraction) and unit, or `0`.
///
/// The schema only lets `s`, `m` and `h` in, but objects may be older than the schema and pod annotations
/// never had one, so every Go unit is understood.
pub fn parse_go_duration(text: &str) -> Result<Span, InvalidDuration> {
    let invalid = || InvalidDuration { text: text.to_owned() };
    if text == "0" {
        return Ok(Span::ZERO);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit = nanoseconds_per(unit).ok_or_else(invalid)?;
        total = total.saturating_add(scaled(number, unit).ok_or_else(invalid)?);
        rest = tail;
    }
    if text.is_empty() {
        return Err(invalid());
    }
    let nanoseconds = i64::try_from(total).unwrap_or(i64::MAX);
    Ok(Span::from_nanos(nanoseconds.unsigned_abs()))
}

fn nanoseconds_per(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number` times `unit`, fraction digits below a nanosecond dropped; `None` if `number` has no digit.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| {
        text.bytes().try_fold(0u128, |sum, b| sum.checked_mul(10)?.checked_add(u128::from(b - b'0')))
    };
    // More digits than fit mean "longer than any process lives"; the caller cuts the sum.
    let whole = if whole.is_empty() { 0 } else { digits(whole).unwrap_or(u128::MAX) };
    let fraction = &fraction[..fraction.len().min(18)];
    let part = digits(fraction).unwrap_or(0) * unit / 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    Some(whole.saturating_mul(unit).saturating_add(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_go_syntax() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("0s", Some(0)),
            ("30s", Some(30_000)),
            ("1h30m5s", Some(5_405_000)),
            ("720h", Some(2_592_000_000)),
            ("1.5h", Some(5_400_000)),
            (".5s", Some(500)),
            ("1500ms", Some(1_500)),
            ("", None),
            ("s", None),
            (".s", None),
            ("1", None),
            ("-1s", None),
            ("1hr", None),
            ("1.2.3s", None),
            ("FooNever", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_go_duration(text).ok(), millis.map(Span::from_millis), "`{text}`");
        }
    }

    #[test]
    fn cuts_what_does_not_fit() {
        let longest = Span::from_nanos(i64::MAX.unsigned_abs());
        assert_eq!(parse_go_duration("99999999999h"), Ok(longest));
        assert_eq!(parse_go_duration(&format!("{}h", "9".repeat(60))), Ok(longest));
    }

    #[test]
    fn never_is_a_value_of_its_own() {
        assert_eq!(NillableDuration::never().span(), Ok(None));
        assert_eq!(NillableDuration::from("1h").span(), Ok(Some(Span::from_hours(1))));
        assert!(Duration::from("Never").span().is_err());
    }

    #[test]
    fn writes_what_it_reads_back() {
        for (seconds, shortest, full) in [
            (0, "0s", "0s"),
            (59, "59s", "59s"),
            (60, "1m", "1m0s"),
            (5_405, "1h30m5s", "1h30m5s"),
            (2_592_000, "720h", "720h0m0s"),
        ] {
            let span = Span::from_secs(seconds);
            let (or_never, always) = (NillableDuration::from(span), Duration::from(span));
            assert_eq!((or_never.as_str(), always.as_str()), (shortest, full));
            assert_eq!((or_never.span(), always.span()), (Ok(Some(span)), Ok(span)));
        }
    }

    #[test]
    fn keeps_the_text_as_written() {
        for text in ["\"90m\"", "\"Never\"", "\"1h0m0s\"", "\"0720h\""] {
            let duration: NillableDuration = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&duration).unwrap(), text);
        }
    }
}
