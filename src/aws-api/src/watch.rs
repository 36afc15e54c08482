//! Costs of calls of AWS: duration, outcome, and number of repetitions.

use std::fmt::Debug;
use std::time::Duration;

/// Call of AWS, and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Service as the SDK names it: `EC2`, `SQS`.
    pub service: &'a str,
    /// Operation: `CreateFleet`.
    pub action: &'a str,
    /// HTTP status; `None` when no answer came.
    pub status: Option<u16>,
}

/// Receiver of what calls cost.
pub trait Watch: Send + Sync + Debug {
    /// One attempt ended.
    fn attempted(&self, call: Call<'_>, took: Duration);

    /// The call ended, after `retries` attempts more than the first.
    fn called(&self, call: Call<'_>, retries: u32, took: Duration);
}

/// Receives nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn attempted(&self, _: Call<'_>, _: Duration) {}
    fn called(&self, _: Call<'_>, _: u32, _: Duration) {}
}
