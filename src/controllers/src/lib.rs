//! Reconcilers common to every cloud: the only place where decisions meet the API server and the provider.
//!
//! Watches feed one [`View`]. Reconcilers gather from it, call a pure crate, have plans audited, carry out what was
//! decided through [`write`] and the provider, and report. None of them decides: a branch on a fact about pods,
//! prices or nodes belongs in a pure crate. Each works object by object on its own [`queue`], so what goes wrong
//! with one object delays no other.

mod buffers;
pub mod claim;
mod cloud;
mod context;
pub mod definitions;
mod disruption;
mod error;
pub mod explain;
#[cfg(test)]
mod fixture;
pub mod node;
mod pass;
mod pods;
mod pool;
mod provisioner;
pub mod publish;
mod rbac;
mod reconciler;
mod run;
pub mod settings;
mod triggers;
pub mod view;

pub use context::Context;
pub use error::Error;
pub use explain::Explanations;
pub use node::repair::repair_policies;
pub use pass::conditions;
pub use rbac::{deletion_cost_rbac, lease_rbac, optional_rbac, rbac, rule};
pub use run::watching::Watching;
pub use run::{RunError, joined, lead, run};
pub use settings::Settings;
pub use view::{Following, View};
