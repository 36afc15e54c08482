//! What the simulation promises: runs repeat, what the product does breaks no rule, and a product with a defect is found out.

#![allow(clippy::unwrap_used, reason = "tests stop where something is missing")]

mod defects;
mod repeat;
mod swarm;
