//! Probable price of a type that no source has: its price elsewhere, or the one its size suggests, in proportion to the
//! prices that are known here.
//!
//! An estimate puts types into a sensible order. It is marked as one wherever it goes, because next to a real price
//! it proves nothing.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::{Architecture, InstanceTypeInfo};
use karpenter_model::{InstanceTypeName, Price};

/// Prices of an hour by type.
pub(crate) type PerType = BTreeMap<InstanceTypeName, Price>;

/// One, in parts per million.
const MILLION: i128 = 1_000_000;

/// Nano-dollars per vCPU and hour.
const PER_VCPU: i64 = 35_500_000;
/// Nano-dollars per GiB of memory and hour.
const PER_GIB: i64 = 3_400_000;
/// Nano-dollars per GiB of GPU memory and hour.
const PER_GPU_GIB: i64 = 30_000_000;
/// Nano-dollars per inference or training device and hour.
const PER_DEVICE: i64 = 600_000_000;
/// Nano-dollars per TB of local disk and hour.
const PER_LOCAL_TB: i64 = 60_000_000;

/// A price for each type of `by_size`, after `elsewhere` where that has the type. `known` shows how expensive
/// this region is.
pub fn estimates(known: &PerType, elsewhere: &PerType, by_size: &PerType) -> PerType {
    let here = ratio(known, elsewhere).unwrap_or(MILLION);
    let priced = |name: &InstanceTypeName| Some((name.clone(), scaled(*elsewhere.get(name)?, here)));
    let listed: PerType = by_size.keys().filter_map(priced).collect();
    // The price that a size suggests is in dollars; the known price, in whatever currency, shows how far off that is.
    let off = ratio(&listed, by_size).or_else(|| ratio(known, by_size)).unwrap_or(MILLION);
    let mut all: PerType = by_size.iter().map(|(name, price)| (name.clone(), scaled(*price, off))).collect();
    all.extend(listed);
    all
}

/// The middle of how much more expensive types are in `here` than in `there`, in parts per million.
fn ratio(here: &PerType, there: &PerType) -> Option<i128> {
    let shared = here.iter().filter_map(|(name, price)| {
        let other = there.get(name).filter(|other| **other > Price::ZERO)?;
        Some(i128::from(price.nanos()) * MILLION / i128::from(other.nanos()))
    });
    let mut ratios: Vec<i128> = shared.collect();
    ratios.sort_unstable();
    ratios.get(ratios.len() / 2).copied()
}

fn scaled(price: Price, ratio: i128) -> Price {
    let nanos = i128::from(price.nanos()) * ratio / MILLION;
    Price::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX).max(1))
}

/// Price that its size suggests; never zero. The coefficients are a fit of three general families (compute, general and
/// memory optimised) in the largest region; accelerators dominate where present.
pub(crate) fn by_size(info: &InstanceTypeInfo) -> Price {
    let mib = |mib: u64, per_gib: i64| amount(mib).saturating_mul(per_gib) / 1_024;
    let cpu = i64::from(info.vcpus) * PER_VCPU;
    // Graviton is about a fifth cheaper than the rest.
    let cpu = if info.architectures.first() == Some(&Architecture::Arm64) { cpu * 4 / 5 } else { cpu };
    let gpus: i64 = info.gpus.iter().map(|gpu| i64::from(gpu.count) * mib(gpu.memory_mib, PER_GPU_GIB)).sum();
    let neuron = info.neuron_devices.iter().map(|device| device.count);
    let inference = info.inference_accelerators.iter().map(|device| device.count);
    let devices: i64 = neuron.chain(inference).map(|count| i64::from(count) * PER_DEVICE).sum();
    let disks =
        info.instance_storage.as_ref().map_or(0, |disks| amount(disks.total_gb) * PER_LOCAL_TB / 1_000);
    Price::from_nanos((cpu + mib(info.memory_mib, PER_GIB) + gpus + devices + disks).max(1))
}

fn amount(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX / PER_DEVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(prices: &[(&str, i64)]) -> PerType {
        prices.iter().map(|(name, nanos)| ((*name).into(), Price::from_nanos(*nanos))).collect()
    }

    #[test]
    fn prices_of_another_region_are_taken_in_proportion_to_what_is_known_here() {
        let elsewhere = prices(&[("a.1", 100), ("a.2", 200), ("b.1", 50), ("c.1", 1_000)]);
        let by_size = prices(&[("a.1", 1), ("a.2", 1), ("b.1", 1), ("new.1", 3)]);
        let known = prices(&[("a.1", 120), ("a.2", 240), ("c.1", 9_000)]);
        let found = estimates(&known, &elsewhere, &by_size);
        // 1.2 is the middle of 1.2, 1.2 and 9. Sizes are off by 120, the middle of 120, 240 and 60.
        assert_eq!(found, prices(&[("a.1", 120), ("a.2", 240), ("b.1", 60), ("new.1", 360)]));
    }

    #[test]
    fn without_anything_known_here_prices_are_those_of_elsewhere() {
        let elsewhere = prices(&[("a.1", 100)]);
        let found = estimates(&PerType::new(), &elsewhere, &prices(&[("a.1", 10), ("new.1", 3)]));
        assert_eq!(found, prices(&[("a.1", 100), ("new.1", 30)]));
        let found = estimates(&PerType::new(), &PerType::new(), &prices(&[("new.1", 3)]));
        assert_eq!(found, prices(&[("new.1", 3)]));
    }
}
