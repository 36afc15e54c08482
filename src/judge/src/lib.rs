//! The scheduler of Kubernetes as the judge of plans (development only).
//!
//! A [`world`] is drawn by seed, as objects of Kubernetes. The scheduler binds what present nodes take, the engine plans for
//! the pods it refuses, the nodes of the plan join exactly as promised, and the scheduler binds again ([`trial`]). It has to
//! bind every pod that has a place in the plan, and none that has none. What differs is cut down to the few objects that
//! still show it ([`shrink`]).
//!
//! The scheduler is that of the release that `e2e/control-plane/go.mod` pins, linked into a small Go program
//! ([`scheduler`]). There is no other model of it here: a rule that is misunderstood in the engine would be misunderstood in
//! a second statement of it as well.

pub mod catalogue;
pub mod corpus;
pub mod objects;
mod promise;
pub mod scheduler;
pub mod shrink;
pub mod trial;
pub mod world;
