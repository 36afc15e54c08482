//! The end of a Node: which pods go when, what is waited for, and who may end it early; and its reboot instead.

pub mod drain;
pub mod eviction;
pub mod interruption;
pub mod reboot;
pub mod repair;
pub mod termination;
pub mod together;
pub mod volumes;
