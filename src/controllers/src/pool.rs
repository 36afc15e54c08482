//! NodePools: their hash, their conditions, what their nodes add up to, and how well those register.

pub(crate) mod conditions;
pub(crate) mod counter;
mod departed;
pub(crate) mod hash;
pub(super) mod instance_types;
pub(super) mod overlays;
pub(super) mod static_capacity;
