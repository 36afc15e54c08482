//! What a pool says of itself, and pools with a fixed number of nodes.

pub mod static_capacity;
pub mod status;
