//! Reconcilers common to every cloud: the only place where decisions meet the API server and the provider.
//!
//! Watches feed one [`View`]. Reconcilers gather from it, call a pure crate, have plans audited, carry out what was
//! decided through [`write`] and the provider, and report. None of them decides: a branch on a fact about pods,
//! prices or nodes belongs in a pure crate. Each works object by object on its own [`queue`], so what goes wrong
//! with one object delays no other.

mod buffers;
pub mod claim;
pub mod client;
mod cloud;
mod context;
pub mod definitions;
mod disruption;
mod error;
mod evict;
pub mod explain;
#[cfg(test)]
mod fixture;
mod garbage;
mod hydration;
mod instance_types;
pub mod interruption;
pub mod leader;
pub mod memory;
mod nodes;
mod overlays;
mod pass;
mod pods;
mod pool;
mod provisioner;
pub mod queue;
mod rbac;
mod read;
mod reconciler;
mod repair;
mod report;
mod run;
pub mod server;
pub mod settings;
mod static_capacity;
mod status;
mod store;
mod termination;
pub mod view;
pub mod watch;
pub mod watchdog;
mod watching;
pub mod write;

pub use context::Context;
pub use error::{ApiFailure, Error};
pub use explain::Explanations;
pub use rbac::{lease_rbac, optional_rbac, rbac};
pub use run::{RunError, joined, lead, run};
pub use settings::Settings;
pub use store::Known;
pub use view::View;
pub use watching::Watching;
