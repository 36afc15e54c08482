//! One family of rules per file.

pub(crate) mod budgets;
pub(crate) mod candidates;
pub(crate) mod capacity;
pub(crate) mod commands;
pub(crate) mod devices;
pub(crate) mod evictions;
pub(crate) mod existing;
pub(crate) mod homes;
pub(crate) mod instance_types;
pub(crate) mod limits;
pub(crate) mod placement;
pub(crate) mod ports;
pub(crate) mod requirements;
pub(crate) mod reservations;
pub(crate) mod savings;
pub(crate) mod scores;
pub(crate) mod taints;
pub(crate) mod template;
pub(super) mod topology;
pub(crate) mod volumes;
