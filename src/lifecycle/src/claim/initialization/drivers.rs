//! Readiness of the DRA drivers a claim was planned with: they have published their devices.
//!
//! A pool of a driver is complete when the slices of its highest generation are as many as each of them declares,
//! and that is more than none; slices of older generations do not count.

use std::collections::BTreeMap;

use karpenter_model::Claim;
use karpenter_model::names::annotation;

/// One `ResourceSlice` of the Node. Cluster-wide slices are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSlice {
    /// `spec.driver`.
    pub driver: String,
    /// `spec.pool.name`.
    pub pool: String,
    /// `spec.pool.generation`.
    pub generation: i64,
    /// `spec.pool.resourceSliceCount`.
    pub slices: i64,
}

/// The first requested driver without a complete pool among the slices.
pub(super) fn unpublished<'a>(claim: &'a Claim, slices: &[ResourceSlice]) -> Option<&'a str> {
    let requested = claim.annotations.get(annotation::REQUESTED_DRIVERS)?;
    requested.split(',').map(str::trim).find(|driver| !driver.is_empty() && !published(driver, slices))
}

fn published(driver: &str, slices: &[ResourceSlice]) -> bool {
    let mut pools: BTreeMap<&str, Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.driver == driver) {
        pools.entry(&slice.pool).or_default().push(slice);
    }
    pools.values().any(|slices| complete(slices))
}

fn complete(slices: &[&ResourceSlice]) -> bool {
    // Slices of older generations are being replaced by their driver.
    let newest = slices.iter().map(|slice| slice.generation).max();
    let current: Vec<_> = slices.iter().filter(|slice| Some(slice.generation) == newest).collect();
    let declared = current.first().map_or(0, |slice| slice.slices);
    declared > 0 && usize::try_from(declared).is_ok_and(|declared| declared == current.len())
}
