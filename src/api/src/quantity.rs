//! Resource quantities exactly as users wrote them: `1`, `"1"`, `1000m` and `1Gi` stay what they are.
//!
//! The API server stores custom resources untouched, so an integer stays an integer; a client that turned it
//! into text would fight with the client that applies the manifest. The value is computed where it is needed.

use std::collections::BTreeMap;
use std::fmt;

use karpenter_model::resources::quantity::QuantityError;
use karpenter_model::{Quantity, Resources};
use serde::{Deserialize, Serialize};

/// A quantity as written, integer or text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RawQuantity {
    /// A bare JSON integer, for example `cpu: 1000`.
    Integer(i64),
    /// A text with optional suffix, for example `cpu: 1000m`.
    Text(String),
}

/// Resource name to quantity, ordered by name.
pub type ResourceMap = BTreeMap<String, RawQuantity>;

/// Returns `resources` as the API has them, each in its canonical text.
pub fn resource_map(resources: &Resources) -> ResourceMap {
    let written = |quantity: &Quantity| RawQuantity::Text(quantity.to_string());
    resources.iter().map(|(name, quantity)| (name.to_string(), written(quantity))).collect()
}

impl From<&str> for RawQuantity {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for RawQuantity {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl fmt::Display for RawQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Reads an amount as built-in kinds have it: blanks around it do not count, and without a digit it is nothing, whatever its
/// unit. Kubernetes reads those leniently; the definitions of our own kinds refuse them.
pub(crate) fn amount(text: &str) -> Result<Quantity, QuantityError> {
    let text = text.trim();
    let read = text.parse();
    let is_bare = read.is_err() && !text.is_empty() && !text.contains(|letter: char| letter.is_ascii_digit());
    let unit = text.strip_prefix(['+', '-']).unwrap_or(text);
    let unit = unit.strip_prefix('.').unwrap_or(unit);
    let bare = is_bare.then(|| format!("0{unit}").parse().ok()).flatten();
    bare.map_or(read, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_integers_and_texts_apart() {
        for text in ["1", "\"1\"", "\"1000m\"", "\"1.50Gi\"", "-3"] {
            let quantity: RawQuantity = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), text);
        }
    }
}
