//! Output of the programs: metrics, Kubernetes events, logs, reports, and the wrapper every pass of the controller runs in.
//!
//! Metric names, event reasons and log fields are a contract with dashboards and alerts written for the
//! reference; each is declared once, in a table that the generated reference pages are made from. The crate
//! depends on no other crate of the workspace, so everything that does I/O may use it.

pub mod events;
pub mod logging;
pub mod metrics;
pub mod observe;
pub mod progress;
pub mod stdout;
