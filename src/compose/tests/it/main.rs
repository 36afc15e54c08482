//! The controller as it is put together, on a cluster and an account in memory.
#![allow(clippy::unwrap_used, reason = "a helper that meets the unexpected fails its test")]

mod converted;
mod crowd;
mod film;
mod reserved;
mod thousand_pods;
