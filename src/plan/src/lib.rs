//! Plan of what the controller would do with a cluster now, and why, without doing it.
//!
//! Objects come in as JSON, from files or from an API server; what pools can launch comes from the caller or from an
//! export. [`World`] makes the controller's own snapshot of them, [`forecast`] asks the controller's own engine and audit,
//! and an export writes the objects so that another process plans the same. Nothing here does I/O or reads a clock.

mod buffers;
mod export;
#[cfg(test)]
mod fixture;
mod forecast;
mod help;
mod html;
mod lint;
mod money;
mod objects;
mod offerings;
mod overlays;
mod picture;
mod settle;
mod stand_in;
mod static_pools;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod what_if;
mod workloads;
mod world;
mod yaml;

pub use buffers::template_of;
pub use export::{About, is_export, settings_of};
pub use forecast::{Difference, Forecast, Launched, Removal, Verdict, forecast};
pub use lint::{
    ClassFaults, LintFinding, LintReport, LintSeverity, lint, lint_annotations, lint_sarif, lint_text, near,
    refused_lines,
};
pub use objects::Objects;
pub use offerings::{Offerings, offered, offered_text};
pub use settle::MayDrift;
pub use stand_in::{region_of, resolve, zones_named, zones_of_nodes};
pub use stream::{Fault, Manifest, Origin, Reading, Unreadable, read_stream, read_streams};
pub use text::{FailOn, Look, NotACondition, named};
pub use what_if::{NoMatch, PriceChange, WhatIf};
pub use workloads::{TooMany, too_many};
pub use world::{PlanInputs, RefusedPod, World, WorldError};
pub use yaml::{Misread, misread};
