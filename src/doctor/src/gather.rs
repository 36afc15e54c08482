//! Asks AWS and the API server everything the checks may look at. Each question fails on its own.

mod account;
mod cluster;
mod rights;
mod selection;
mod surroundings;

pub use account::{PERMISSIONS, account};
pub use cluster::cluster;
