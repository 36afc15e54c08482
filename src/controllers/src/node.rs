//! Nodes: what each offers and is asked for, what they lack, and what ends them.

pub(super) mod amounts;
pub(super) mod hydration;
pub mod interruption;
pub(super) mod repair;
pub(super) mod termination;
pub(super) mod together;
