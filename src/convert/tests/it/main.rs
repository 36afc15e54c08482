//! Conversion from the outside: manifests in, manifests and report out.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod coverage;
mod goldens;
mod properties;
