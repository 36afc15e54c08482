//! Surroundings of every controller of Kubernetes, independent of what is controlled.
//!
//! [`watch`] brings every change of a kind, [`queue`] runs passes object by object, [`write`] is the one way to change
//! an object, [`client`] limits and measures the calls of all three,
//! [`compute`] keeps long work out of their way. [`leader`] lets one replica act, [`server`] answers
//! probes and scrapes, [`watchdog`] and [`memory`] say what goes wrong before the kubelet acts.

pub mod client;
pub mod compute;
mod error;
#[cfg(test)]
mod fixture;
pub mod leader;
pub mod memory;
pub mod queue;
pub mod server;
pub mod watch;
pub mod watchdog;
pub mod write;

pub use error::{ApiFailure, Error};
