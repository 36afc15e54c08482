//! The controllers, unmodified, on an API server and a cloud in memory, in virtual time.
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unchecked_time_subtraction,
    clippy::unwrap_used,
    reason = "a helper that meets the unexpected says so and fails its test"
)]

mod buffers;
mod coldstart;
mod crash;
mod daemons;
mod default_spread;
mod deletion;
mod devices;
mod disruption;
mod drift;
mod election;
mod events;
mod faults;
mod incidents;
mod launch;
mod loads;
mod logging;
mod lost_nodes;
mod overlays;
mod permissions;
mod pools;
mod promises;
mod registration;
mod repair;
mod scale;
mod scrape;
mod settled;
mod standalone;
mod static_capacity;
mod termination;
mod undecoded;
mod volumes;
mod watchdog;
mod world;
