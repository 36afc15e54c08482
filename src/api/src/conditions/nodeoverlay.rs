//! Condition types and reasons of NodeOverlays (spec scheduling 5).

use super::Dependents;

pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";

/// What `Ready` follows from.
pub const DEPENDENTS: Dependents = Dependents(&[VALIDATION_SUCCEEDED]);

pub const REASON_RUNTIME_VALIDATION: &str = "RuntimeValidation";
pub const REASON_CONFLICT: &str = "Conflict";
