//! What an `EC2NodeClass` means: what it selects, and how its nodes get their role.

pub mod expressions;
mod faults;
pub mod instance_profiles;
pub mod kubelet;
pub mod store;
pub mod view;

pub use faults::faults;
