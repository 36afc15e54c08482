//! What tests of the pure crates share: a terse text form of snapshots, generated worlds, and a stable text
//! form of plans and reports.
//!
//! A development dependency only. It panics on malformed fixtures, with the line in the message: a fixture is
//! source code of a test.

#![expect(clippy::panic, reason = "a malformed fixture is a bug of the test that holds it")]

pub mod disruptable;
pub mod fixture;
pub mod manifest;
pub mod render;
pub mod scenario;
pub mod small;
pub mod world;

pub use fixture::snapshot;
pub use render::render;
