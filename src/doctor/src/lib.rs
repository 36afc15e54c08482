//! Faults of an account and a cluster, their causes and fixes: the troubleshooting pages of the reference as checks (spec
//! aws-operations 1.14, 7.2, 7.3).
//!
//! [`gather`] asks AWS and the API server, [`Facts`] holds the answers, [`diagnose`](diagnose::diagnose) is pure:
//! the same facts give the same findings, from a live cluster or from exported files. [`repair`] carries out the
//! few fixes that are safe.
//!
//! Invariants:
//! * what could not be asked is [unseen](facts::Answer::Unseen), and a check that needs it says so: it is never
//!   "ok", and an empty list is never made of a refusal;
//! * an object that this release cannot decode hides no other, and is a finding;
//! * nothing here needs the controller to run, and nothing but [`repair`] writes;
//! * every check of the registry has a test that breaks exactly what it looks for.

pub mod check;
mod checks;
pub mod diagnose;
pub mod facts;
pub mod gather;
pub mod page;
pub mod repair;
pub mod show;

pub use check::{Check, Evidence, Severity};
pub use checks::all as checks;
pub use facts::Facts;
