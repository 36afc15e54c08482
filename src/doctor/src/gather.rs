//! Asks AWS and the API server everything the checks may look at. Each question fails on its own.

mod account;
mod cluster;

pub use account::account;
pub use cluster::cluster;
