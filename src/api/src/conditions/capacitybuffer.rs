//! Condition types of `CapacityBuffer` (spec scheduling 6). The kind is shared with Cluster Autoscaler and has no
//! root; its types and reasons belong to the rules that decide them.

pub const READY_FOR_PROVISIONING: &str = "ReadyForProvisioning";
pub const PROVISIONING: &str = "Provisioning";
