//! What becomes known of pods: when one came or left, which must not be disturbed, which were refused their place.

pub mod batch;
pub mod contradiction;
pub mod events;
pub mod protection;
pub mod refusal;
