//! Bootstrap against the in-memory account: repeated, damaged, interrupted, refused, undone.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod account;
mod destroy;
mod half_created;
mod interrupted;
mod leftovers;
mod network;
mod others;
mod permissions;
mod ready;
mod refused;
mod regions;
mod repeated;
mod rights;
mod stack;
mod tags;
mod variants;
