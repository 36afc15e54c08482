//! Scenario files: a cluster with its manifests, what happens to it and when, and what has to be true of it
//! (docs/scenarios.md). `karpenter test` plays them in virtual time on the world of the simulation, whose rules are checked
//! too; the end-to-end harness plays them in real time on real parts.
//!
//! [`read`] makes a [`format::File`] into something that can be played, [`follow`] lets its timeline happen on a
//! [`follow::Stage`], [`record`] makes a recording of what is seen, [`judge`] compares that with what was expected, and
//! [`report`] says it, with `figures` that two runs are compared by. These know nothing of the simulation. `player`, `act` and `observe` are its stage, `command` is what
//! `karpenter test` does.

mod act;
mod command;
mod figures;
pub mod follow;
pub mod format;
pub mod judge;
pub mod machines;
mod observe;
mod obstacles;
mod one_plan;
pub mod pace;
mod player;
pub mod read;
pub mod record;
pub mod report;
pub mod value;

pub(crate) use act::{apply, delete};
pub use command::{Arguments, Output, run};
pub use player::{failures_with, play};
pub(crate) use read::Manifest;

pub use crate::world::price;
