//! Tables over the specification, and a comparison with trying everything.

mod brute_force;
mod claims;
mod pools;
mod sharing;
mod types;
mod world;
