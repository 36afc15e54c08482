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

/// A duration of at least one minute.
pub(crate) fn duration_from_one_minute(text: &str) -> Result<Duration, String> {
    let parsed = karpenter_api::parse_go_duration(text).ok().and_then(|span| Duration::try_from(span).ok());
    parsed
        .filter(|duration| *duration >= Duration::from_secs(60))
        .ok_or_else(|| "expected a duration of at least `1m`, such as `5m` or `1h30m`".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refresh_intervals_have_a_floor() {
        assert_eq!(duration_from_one_minute("1m30s"), Ok(Duration::from_secs(90)));
        for text in ["59s", "", "10", "-2m"] {
            assert!(duration_from_one_minute(text).is_err(), "{text:?}");
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
