//! Meaning of an `EC2NodeClass`: the resources it selects, and the role of its nodes.

pub mod expressions;
mod faults;
pub mod instance_profiles;
pub mod kubelet;
pub mod store;
pub mod view;

pub use faults::faults;
