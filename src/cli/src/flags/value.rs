//! Parsers for values that clap does not know: Go durations, Go booleans, URLs.

use std::time::Duration;

/// Reads what Go's `strconv.ParseBool` reads.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected `true` or `false`".to_owned()),
    }
}

/// Reads a non-negative Go duration such as `10s`, `1m30s`, `1.5h`, `100ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as `10s` or `1m30s`".to_owned())
}

/// A duration of at least one minute.
pub(crate) fn duration_from_one_minute(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration < Duration::from_secs(60) {
        return Err("expected a duration of at least `1m`".to_owned());
    }
    Ok(duration)
}

/// Parts per million from a decimal such as `0.075`: exact, no floats.
pub(crate) fn fraction_ppm(text: &str) -> Result<u64, String> {
    let wrong = || "expected a decimal number of at least 0, such as `0.075`".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || fraction.len() > 6
    {
        return Err(wrong());
    }
    let padded = format!("{whole}{fraction:0<6}");
    padded.parse().map_err(|_| wrong())
}

/// An absolute URL with a host, or nothing.
pub(crate) fn url(text: &str) -> Result<String, String> {
    let host = text.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    match host {
        _ if text.is_empty() => Ok(String::new()),
        Some(host) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err("expected an absolute URL such as `https://ABC.gr7.eu-west-1.eks.amazonaws.com`".to_owned()),
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, next) = tail.split_at(unit_end);
        nanos = nanos.checked_add(scaled(number, unit_nanos(unit)?)?)?;
        rest = next;
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    let subsecond = u32::try_from(nanos % 1_000_000_000).ok()?;
    Some(Duration::new(seconds, subsecond))
}

fn unit_nanos(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number` (decimal text) times `unit`, cut at whole nanoseconds.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanos += u128::from(digit.checked_sub(b'0')?) * place;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in
            [("10s", 10_000), ("1m30s", 90_000), ("1.5h", 5_400_000), ("100ms", 100), ("0", 0), (".5s", 500)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1d", "1s ", "1..5s"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn fractions_are_exact() {
        for (text, ppm) in [("0.075", 75_000), ("0", 0), ("1", 1_000_000), (".5", 500_000), ("0.000001", 1)] {
            assert_eq!(fraction_ppm(text), Ok(ppm), "{text}");
        }
        for text in ["", ".", "-0.1", "7.5%", "0.0000001", "1e-2"] {
            assert!(fraction_ppm(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn urls_need_scheme_and_host() {
        assert!(url("https://host/path").is_ok() && url("").is_ok());
        assert!(url("host").is_err() && url("https:///path").is_err());
    }

    #[test]
    fn booleans_are_gos() {
        assert_eq!(boolean("T"), Ok(true));
        assert_eq!(boolean("0"), Ok(false));
        assert!(boolean("yes").is_err());
    }
}
