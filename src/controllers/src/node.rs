//! Controllers of Nodes: their amounts, labels that older versions did not set, the taint of nodes that wait together, and
//! their end by a notice, by repair or by deletion.

pub(super) mod amounts;
pub(super) mod hydration;
pub mod interruption;
pub(super) mod repair;
pub(super) mod termination;
pub(super) mod together;
