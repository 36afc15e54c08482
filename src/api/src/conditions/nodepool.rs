//! Condition types and reasons of NodePools (spec scheduling 3.3).

use super::Dependents;

pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// Stands alone: an unhealthy pool still schedules.
pub const NODE_REGISTRATION_HEALTHY: &str = "NodeRegistrationHealthy";

/// What `Ready` follows from.
pub const DEPENDENTS: Dependents = Dependents(&[VALIDATION_SUCCEEDED, NODE_CLASS_READY]);

pub const REASON_VALIDATION_FAILED: &str = "NodePoolValidationFailed";
pub const REASON_NODE_CLASS_NOT_FOUND: &str = "NodeClassNotFound";
pub const REASON_NODE_CLASS_TERMINATING: &str = "NodeClassTerminating";
pub const REASON_NODE_CLASS_READINESS_UNKNOWN: &str = "NodeClassReadinessUnknown";
pub const REASON_REGISTRATION_FAILED: &str = "RegistrationFailed";
