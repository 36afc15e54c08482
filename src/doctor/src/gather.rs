//! Asks AWS and the API server everything the checks may look at. Each question fails on its own.

mod account;
mod cluster;
mod rights;
mod selection;
mod surroundings;

pub(crate) use account::PERMISSIONS;
pub use account::account;
pub use cluster::cluster;
