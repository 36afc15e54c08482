//! Deterministic simulation: the controller of the program, unmodified, in a world that fails by seed.
//!
//! One thread, one paused clock and one seed make a run: the composition that `karpenter controller` starts, once or twice,
//! on an API server, kubelets and an AWS account in memory. Everything it asks for passes one of two ports, [`kube_port`]
//! and [`aws_port`], where it may be late, refused, carried out without an answer, or the last thing the process ever did.
//! A [`History`] says what happens and which faults are possible; [`check`] reads the truth and says what was wrong.
//!
//! [`foresee`] holds plans against what the controller does, [`change`] returns what it does about a change of manifests; [`scenario`] plays the same world, and the same controller, from files with expectations instead of from a seed.
//!
//! The same seed gives the same [`Outcome::hash`]; docs/simulation.md says how to use that.

mod aws_port;
mod check;
mod defect;
mod fault_injector;
mod foresight;
mod history;
mod kube_port;
mod life;
mod machines;
mod play;
mod process;
mod run;
pub mod scenario;
mod seed;
mod shrink;
mod target;
mod timed_fault;
mod trace;
mod week;
mod world;

pub use check::Violation;
pub use defect::Defect;
pub use foresight::{Change, Changed, Foreseen, change, foresee};
pub use history::{Fault, History};
pub use run::{Outcome, run};
pub use shrink::shrink;
pub use week::{Hour, Shape, Week, week};
