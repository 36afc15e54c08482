//! The log of every call: what a test asserts on when it says "not more than this".

use std::collections::BTreeMap;

use jiff::Timestamp;

use karpenter_aws_api::Kind;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// AWS operation, `CreateFleet`.
    pub operation: &'static str,
    /// Subject of the call.
    pub subject: String,
    /// Time of the call.
    pub at: Timestamp,
    /// Kind of failure, or `None` when the call worked.
    pub failure: Option<Kind>,
}

/// Calls in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLog(pub Vec<CallRecord>);

impl CallLog {
    /// Number of calls of an operation, failed ones included.
    pub fn count(&self, operation: &str) -> usize {
        self.0.iter().filter(|call| call.operation == operation).count()
    }

    /// Number of calls by operation.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for call in &self.0 {
            *counts.entry(call.operation).or_insert(0) += 1;
        }
        counts
    }
}
