//! The life of one claim and its Node, as step functions: facts in, effects out.
//!
//! Every function here is pure. It is given what is true (slim objects, answers of the cloud, the instant) and
//! returns a [`step::Step`]: what to do, in order, what to write into the conditions, and when to look again. The
//! caller gathers the facts, carries the effects out and reports failures by calling again; it never decides.
//! Because each step starts from what is true and not from what was done before, a crash between any two effects
//! is repaired by the next pass.
//!
//! [`claim::entry`] picks the path of an object. A claim passes through [`claim::launch`], [`claim::registration`],
//! [`claim::initialization`] and [`claim::liveness`] in every pass, in this order; a deleted one through
//! [`claim::finalize`]. A deleted Node passes through [`node::termination`], which drains it. Several machines that go
//! together, and what takes their place, are a [`command`].

pub mod buffer;
pub mod claim;
pub mod command;
#[cfg(test)]
mod fixture;
pub mod node;
pub mod pods;
pub mod pool;
pub mod step;
