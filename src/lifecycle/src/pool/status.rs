//! The small decisions about a pool itself: what it counts and costs, whether its class is ready, its template hash, and how
//! well its machines register (spec disruption 1.7, 1.8 and 1.14).

pub mod cost;
pub mod counter;
pub mod hash;
pub mod health;
pub mod readiness;
