//! Scenario files: a cluster with its manifests, what happens to it and when, and what has to be true of it
//! (docs/scenarios.md). They are played in virtual time on the world of the simulation, whose rules are checked too.
//!
//! `read` makes a [`format::File`] into something that can be played, `player` plays it and keeps a
//! [`record::Recording`], `judge` compares that with what was expected, `command` is what `karpenter test` does.

mod act;
mod command;
mod format;
mod judge;
mod player;
mod read;
mod record;
mod report;
mod value;

pub(crate) use act::apply;
pub use command::{Arguments, run};
pub(crate) use read::Manifest;
