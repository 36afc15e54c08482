//! The cluster index: objects in, consistent snapshots out.
//!
//! [`Cluster`] keeps the newest version of every object it received and, derived from them, one merged view
//! per machine. Three properties carry the rest:
//!
//! - **The answer does not depend on the order of events.** Every object carries its version; older versions,
//!   repetitions and late events about deleted objects change nothing. A claim we have just created is put in with
//!   the version the API server answered, so the watch can only confirm it.
//! - **Nothing waits for everything.** A claim that has not been launched delays nothing: it counts as a
//!   machine of the least capacity it can turn out to have, holding the pods it was created for.
//! - **A snapshot shares.** Objects and machines are behind `Arc`; a snapshot copies pointers, and only machines
//!   touched since the last one are built again.
//!
//! The index never guesses: what no object says is not there. It holds no lock and does no I/O; its owner
//! serialises access.

mod brought;
mod cluster;
mod machine;
mod promise;
mod reservation;
mod room;
mod store;
mod usage;

pub use brought::Contradiction;
pub use cluster::{AttachLimits, Cluster, Kind, Shown, UsedClaim, VolumeClaimKey};
pub use reservation::Reservations;
pub use store::{Epoch, Known, Put, Stamp, Store, Version};
