//! Reconcilers common to every cloud.
pub mod leader;
pub mod queue;
pub mod server;
pub mod settings;

pub use settings::Settings;
