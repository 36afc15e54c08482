//! Asks AWS and the API server everything the checks may look at. Each question fails on its own.

mod account;
mod cluster;
mod permissions;
mod rights;
mod selection;
mod surroundings;

pub use account::account;
pub use cluster::cluster;
pub(crate) use permissions::PERMISSIONS;
