//! Knowledge about pods: arrivals and ends, pods that must not be disturbed, promises of a place, and refusals.

pub mod batch;

pub mod events;
pub mod nomination;
pub mod promise;
pub mod protection;
pub mod refusal;
