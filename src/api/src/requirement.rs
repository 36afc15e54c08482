//! Requirements, the part of a node template that NodePool and NodeClaim share.

use karpenter_model::Operator;
use serde::{Deserialize, Serialize};

/// One condition on a node label; a list of them is a conjunction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label key.
    pub key: String,
    pub operator: Operator,
    /// The label values the operator compares with; one integer for the bound operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Least number of different values the chosen instance types must offer, 1 to 50 [alpha].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

impl Requirement {
    /// A requirement without minimum.
    pub fn new<const N: usize>(key: &str, operator: Operator, values: [&str; N]) -> Self {
        let values = (N > 0).then(|| values.map(str::to_owned).to_vec());
        Self { key: key.to_owned(), operator, values, min_values: None }
    }

    /// The values, empty when the field is absent.
    pub fn values(&self) -> &[String] {
        self.values.as_deref().unwrap_or_default()
    }
}
