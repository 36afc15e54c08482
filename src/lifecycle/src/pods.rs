//! What becomes known of pods: when one came or left, which must not be disturbed, which were promised a place,
//! which were refused theirs.

pub mod batch;

pub mod events;
pub mod nomination;
pub mod promise;
pub mod protection;
pub mod refusal;
