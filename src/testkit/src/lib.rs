//! Helpers shared by the tests of the pure crates: a terse text form of snapshots, generated worlds, and a stable text form of
//! plans and reports. Tests of the controllers load the Kubernetes [`objects`] of it.
//!
//! A development dependency only. It panics on malformed fixtures, with the line in the message: a fixture is
//! source code of a test.

#![expect(clippy::panic, reason = "a malformed fixture is a bug of the test that holds it")]

pub mod bought;
pub mod bound;
pub mod crowd;
pub mod disruptable;
pub mod fixture;
pub mod manifest;
pub mod objects;
pub mod render;
pub mod scenario;
pub mod small;
pub mod world;

pub use fixture::snapshot;
pub use render::render;

/// Returns the number of seeds that a property is tried on: `usual` in the edit loop, `PROPERTY_SEEDS` where the environment
/// sets it.
pub fn seeds(usual: u64) -> u64 {
    number("PROPERTY_SEEDS").unwrap_or(usual)
}

/// The number in a variable of the environment, if it is set. One that is no number is an error, so that a short run is not
/// taken for a long one.
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable} `{text}`: {error}")))
}
