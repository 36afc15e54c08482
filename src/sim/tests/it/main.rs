//! What the simulation promises: runs repeat, and what the product does breaks no rule.

#![allow(clippy::unwrap_used, reason = "tests stop where something is missing")]

mod defects;
mod foresight;
mod repeat;
mod swarm;
mod week;
