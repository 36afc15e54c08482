//! The provider on an AWS account in memory.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod conformance;
mod devices;
mod ending;
mod knowledge;
mod launching;
mod network;
mod placement;
mod prices;
mod reserved;
mod sharing;
mod templates;
mod world;
