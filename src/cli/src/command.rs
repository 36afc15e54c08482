//! One file per subcommand.

pub(crate) mod about;
pub(crate) mod bootstrap;
pub(crate) mod controller;
pub(crate) mod convert;
pub(crate) mod crds;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod lint;
pub(crate) mod plan;
pub(crate) mod render;
pub(crate) mod schema;
pub(crate) mod view;

#[cfg(all(test, feature = "demo"))]
mod wrong_inputs;
