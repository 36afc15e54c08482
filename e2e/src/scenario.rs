//! Behaviours that are proven end to end. One behaviour per file; each is a function over a [`World`](crate::world::World), run
//! by the tests and by `karpenter-e2e run`.

mod behaviour;
pub mod bootstrap;
pub mod classes;
pub mod devices;
pub mod disruption;
mod explained;
mod facts;
pub mod faults;
pub mod launch;
pub mod restart;
pub mod scale;
pub mod scheduling;
mod scraped;
mod suite;
mod test_namespace;
mod watch;
mod worker;

pub use behaviour::Only;
pub use suite::{Chosen, Outcome, Suite, end, run};
