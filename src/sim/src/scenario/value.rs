//! Durations, amounts of money and instance types as people write them: `90s`, `1h30m`, `0.25`, `m5.*`.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use karpenter_kube_sim::kubelet::Change;
use karpenter_model::Price;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A length of virtual time, or the time since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    /// `1h5m`, `90s` as `1m30s`; less than a second is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let mut text = String::new();
        for (amount, unit) in [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')] {
            if amount > 0 {
                text.push_str(&format!("{amount}{unit}"));
            }
        }
        f.pad(if text.is_empty() { "0s" } else { &text })
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_str(Text("a duration such as 90s, 5m or 1h30m"))?;
        let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
        let wrong = || de::Error::custom(format!("`{text}` is no duration; write it as 90s, 5m or 1h30m"));
        parsed.map(Self).ok_or_else(wrong)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([0-9]+(h|m|s))+$",
            "description": "Hours, minutes and seconds: 90s, 5m, 1h30m",
        })
    }
}

/// Dollars, or dollars per hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dollars(pub(crate) Price);

impl<'de> Deserialize<'de> for Dollars {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Asked for as text, so that 0.10 is read as it is written.
        let text = deserializer.deserialize_str(Text("dollars such as 0.25"))?;
        let price = text.trim_start_matches('$').parse::<Price>();
        price.map(Self).map_err(|error| de::Error::custom(format!("{error}")))
    }
}

impl JsonSchema for Dollars {
    fn schema_name() -> Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "Dollars as a decimal number: 0.25",
        })
    }
}

/// More or less of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount(pub(crate) Change);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_str(Text("a change such as -10%, -500m or 2Gi"))?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "So much more, or less: -10%, -500m, 2Gi",
        })
    }
}

/// Reads a scalar as it is written.
struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.trim().to_owned())
    }
}

/// Returns whether a type is meant by a name or a family with a star.
pub(crate) fn is_of_type(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds, written) in
            [("90s", 90, "1m30s"), ("5m", 300, "5m"), ("1h30m", 5_400, "1h30m"), ("0s", 0, "0s")]
        {
            let span: Span = serde_saphyr::from_str(text).unwrap();
            assert_eq!(span.0, Duration::from_secs(seconds), "{text}");
            assert_eq!(span.to_string(), written);
        }
        for wrong in ["five minutes", "5", "-5m", ""] {
            assert!(serde_saphyr::from_str::<Span>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn money_is_read_as_it_is_written() {
        for text in ["0.10", "\"0.10\"", "$0.1"] {
            let dollars: Dollars = serde_saphyr::from_str(text).unwrap();
            assert_eq!(dollars.0, Price::from_nanos(100_000_000), "{text}");
        }
        assert_eq!(serde_saphyr::from_str::<Dollars>("3").unwrap().0.to_string(), "$3.0000");
        assert!(serde_saphyr::from_str::<Dollars>("much").is_err());
    }
}
