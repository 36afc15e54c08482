//! The harness held to its promises: a control plane and an account that work, and go away.

mod account;
mod chart;
mod conformance;
mod control_plane;
mod crds;
mod failures;
mod newcomer;
mod prerequisites;
mod scenarios;
mod wire;
