//! What an `EC2NodeClass` means: what it selects, and how its nodes get their role.

pub mod instance_profiles;
pub mod store;
pub mod view;
