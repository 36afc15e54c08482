//! Reports of the provider while it works: counters live with the owner of the metrics, not here.

use std::fmt::Debug;
use std::time::Duration;

use karpenter_cloud::OfferingKey;

/// Receiver of countable facts.
pub trait Observer: Send + Sync + Debug {
    /// One offering of a launch failed.
    fn launch_failed(&self, failure: &LaunchFailed<'_>);
    /// An instance could not be terminated.
    fn termination_failed(&self, zone: &str, zone_id: &str);
    /// Size of the user data a `NodeClass` renders to, in bytes.
    fn user_data(&self, class: &str, bytes: usize);
    /// This number of calls became one after the first had waited this long.
    fn batched(&self, batcher: &'static str, size: usize, waited: Duration);
}

/// One failed offering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailed<'a> {
    /// Offering, as far as EC2 named it: empty texts where it did not.
    pub offering: OfferingKey,
    /// Zone id of a chosen subnet; empty when unknown.
    pub zone_id: &'a str,
    /// Classified reason.
    pub reason: &'static str,
}

/// Reports nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn launch_failed(&self, _: &LaunchFailed<'_>) {}
    fn termination_failed(&self, _: &str, _: &str) {}
    fn user_data(&self, _: &str, _: usize) {}
    fn batched(&self, _: &'static str, _: usize, _: Duration) {}
}
