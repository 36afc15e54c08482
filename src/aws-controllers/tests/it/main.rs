//! The AWS controllers, unmodified, on an API server and an AWS account in memory, in virtual time.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod cluster;
mod drift;
mod endings;
mod incidents;
mod interruption;
mod kubelet;
mod labels;
mod nodeclass;
mod placement;
mod prices;
mod repair;
mod reserved;
mod sharing;
mod take_over;
mod undecoded;
mod workload;
mod world;
mod zonal_shift;
