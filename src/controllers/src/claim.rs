//! NodeClaims: the working copy of one during a pass, and the passes over them.

pub mod create;
mod drift;
pub(crate) mod expiration;
pub(super) mod garbage;
pub(crate) mod lifecycle;
mod object;
pub(crate) mod podevents;
pub(crate) mod reboot;
pub(crate) mod upkeep;
