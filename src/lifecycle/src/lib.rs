//! The life of one claim and its Node, as step functions: facts in, effects out.
//!
//! Every function here is pure. It is given what is true (slim objects, answers of the cloud, the instant) and
//! returns a [`step::Step`]: what to do, in order, what to write into the conditions, and when to look again. The
//! caller gathers the facts, carries the effects out and reports failures by calling again; it never decides.
//! Because each step starts from what is true and not from what was done before, a crash between any two effects
//! is repaired by the next pass.
//!
//! [`entry`] says which way an object goes. A claim passes through [`launch`], [`registration`], [`initialization`] and [`liveness`] in every pass, in this
//! order; a deleted one through [`finalize`]. A deleted Node passes through [`termination`], which drains it. Several
//! machines that go together, and what takes their place, are a [`command`].

pub mod batch;
pub mod buffer;
pub mod command;
pub mod consistency;
pub mod consolidatable;
pub mod contradiction;
pub mod drain;
pub mod drift;
mod elapsed;
pub mod entry;
pub mod eviction;
pub mod expiration;
pub mod finalize;
#[cfg(test)]
mod fixture;
pub mod garbage;
pub mod hydration;
pub mod initialization;
pub mod interruption;
pub mod launch;
pub mod liveness;
pub mod nodepool;
pub mod podevents;
pub mod protection;
pub mod refusal;
pub mod registration;
pub mod repair;
pub mod static_capacity;
pub mod step;
pub mod termination;
pub mod volumes;
