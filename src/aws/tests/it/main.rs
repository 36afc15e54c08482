//! The provider on an AWS account in memory.

mod conformance;
mod knowledge;
mod launching;
mod placement;
mod reserved;
mod world;
