//! A rough hourly price from the size of a type, for the time before AWS has told the real one.
//!
//! The coefficients are a fit of three general families (compute, general and memory optimised) in the largest
//! region; accelerators dominate where present. The numbers only have to put types into a sensible order.

use karpenter_aws_client::ec2::{Architecture, InstanceTypeInfo};
use karpenter_model::Price;

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

/// An estimate; never zero.
pub fn estimate(info: &InstanceTypeInfo) -> Price {
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
