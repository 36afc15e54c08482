//! Status of a pool, and pools with a fixed number of nodes.

pub mod static_capacity;
pub mod status;
