//! The provider port: everything the rest of the program may ask of a cloud.
//!
//! Controllers hold an `Arc<dyn Provider>` and use nothing else of the source of machines. The port is
//! small on purpose: a dozen questions, one closed error enum, a handful of notices. Every implementation
//! also runs [`conformance`], so every cloud behaves the same in the cases that lose machines or money:
//!
//! - a launch adopts before it creates and is idempotent per (claim uid, attempt);
//! - terminating twice is not an error, and "gone" is only ever returned after a consistent read;
//! - a list is complete or it is an error, never a part;
//! - lack of capacity excludes only the offering that lacks it.
//!
//! [`overlay`] is what users lay over the answers: other prices, more resources. [`SharedTypes`] keeps lists of instance
//! types from being held once for every node class and pool.
//!
//! [`memory`] is a cloud held in memory, with faults, on an explicit clock.

mod class_fault;
pub mod conformance;
mod error;
mod hook;
mod instance;
mod launch;
pub mod memory;
mod notice;
pub mod overlay;
mod provider;
mod repair;
mod sharing;

pub use class_fault::ClassFault;
pub use error::{Error, Kind, Retry};
pub use hook::{HookState, RegistrationHook};
pub use instance::{Instance, InstanceId, InstanceState, Read, Termination};
pub use launch::{LaunchRequest, LaunchToken};
pub use notice::{Notice, OfferingKey};
pub use provider::{DriftReason, NodeClassKind, Provider};
pub use repair::{InvalidPolicies, RepairPolicy, repair_policies};
pub use sharing::SharedTypes;

/// The result of asking a cloud something.
pub type Result<T> = std::result::Result<T, Error>;
