//! The end-to-end harness: everything a scenario needs that is not Karpenter itself.
//!
//! A run is `cluster × account × controller`. [`cluster`] gives a real Kubernetes API with scheduler and controller
//! manager (processes on this machine, kind, or a cluster that exists); [`account`] gives an AWS account (the moto
//! launcher of `localstack/`, the `LocalStack` container, or an endpoint that exists); [`controller`] is the program under
//! test, as a process or as the chart installs it. [`prepare`] makes the machine ready: it finds or builds every program
//! once and remembers it in the cache folder.
//!
//! Invariants: every listener is on loopback, but for an account that pods of a kind cluster reach, which is on the bridge
//! of that cluster; nothing this crate starts outlives it (see [`process`]); a program that is missing costs one line that
//! names it and the way to get it.
#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are handed over")]

pub mod account;
pub mod cluster;
pub mod command_line;
pub mod controller;
pub mod driver;
pub mod engine;
pub mod machines;
pub mod manifests;
pub mod play;
pub mod prepare;
pub mod process;
pub mod report;
pub mod rights;
pub mod scenario;
pub mod storage;
pub mod wait;
pub mod world;
