//! The harness held to its promises: a control plane and an account that work, and go away.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod account;
mod admitted;
mod behaviours;
mod borrowed;
mod chart;
mod conformance;
mod containers;
mod control_plane;
mod crds;
mod demo;
mod failures;
mod judged;
mod kubelet;
mod newcomer;
mod objects;
mod older;
mod play;
mod prerequisites;
mod release;
mod reports;
mod scripts;
mod skipped;
mod terminal;
mod wire;
