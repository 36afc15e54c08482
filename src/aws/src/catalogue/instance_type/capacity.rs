//! Capacity of a node of a type, before anything is reserved (spec aws-provider 3.3).

use karpenter_api::ec2nodeclass::KubeletConfiguration;
use karpenter_aws_api::ec2::{Architecture, InstanceTypeInfo};
use karpenter_model::resources;
use karpenter_model::{Quantity, Resources};

use super::storage::ephemeral_storage;
use crate::catalogue::adapters;
use crate::catalogue::density::{self, Interfaces};
use crate::catalogue::vpc_limits::vpc_limits;
use crate::class::view::ClassView;
use crate::image::family::FamilyTraits;
use crate::settings::Settings;

/// Branch interfaces, for pods with their own security groups.
pub(crate) const POD_ENI: &str = "vpc.amazonaws.com/pod-eni";
/// Addresses for Windows pods.
pub(crate) const PRIVATE_IPV4: &str = "vpc.amazonaws.com/PrivateIPv4Address";
/// Elastic fabric adapters.
pub const EFA: &str = "vpc.amazonaws.com/efa";
/// NVIDIA GPUs.
pub(crate) const NVIDIA_GPU: &str = "nvidia.com/gpu";
/// AMD GPUs.
pub(crate) const AMD_GPU: &str = "amd.com/gpu";
/// Gaudi accelerators.
pub(crate) const GAUDI: &str = "habana.ai/gaudi";
/// Neuron devices.
pub(crate) const NEURON: &str = "aws.amazon.com/neuron";
/// Cores of Neuron devices.
pub(crate) const NEURON_CORE: &str = "aws.amazon.com/neuroncore";

/// Memory the firmware of arm64 machines keeps, in MiB.
const ARM64_FIRMWARE_MIB: u64 = 64;

/// Capacity of a node; resources the type lacks are present with amount zero.
pub fn capacity(
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    kubelet: &KubeletConfiguration,
    settings: &Settings,
) -> Resources {
    let limits = vpc_limits(info.name.as_str());
    let spec = &view.class.spec;
    let pods =
        density::pods(view.family, Some(kubelet), info.vcpus, interfaces(info, view), settings.reserved_enis);
    // EC2 reports accelerators of several makers in one list; the resource of a device plugin counts those of
    // its own.
    let gpus = |manufacturer| {
        count(info.gpus.iter().filter(|gpu| gpu.manufacturer == manufacturer).map(|gpu| gpu.count))
    };
    let efa = if spec.network_interfaces.is_some() {
        view.efa_only().1
    } else if adapters::excludes_public_address(info) && spec.associate_public_ip_address == Some(true) {
        // EC2 refuses every such launch, and the class's status has the reason.
        0
    } else {
        info.maximum_efa_interfaces
    };
    let mut capacity = Resources::new()
        .with(resources::CPU, count([info.vcpus]))
        .with(resources::MEMORY, mib(memory_mib(info, settings.vm_memory_overhead_ppm)))
        .with(resources::EPHEMERAL_STORAGE, ephemeral_storage(info, view))
        .with(resources::PODS, count([pods]))
        .with(POD_ENI, count([limits.branch_interfaces]))
        .with(NVIDIA_GPU, gpus("NVIDIA"))
        .with(AMD_GPU, gpus("AMD"))
        .with(GAUDI, gpus("Habana"))
        .with(NEURON, count(info.neuron_devices.iter().map(|device| device.count)))
        .with(NEURON_CORE, count(info.neuron_devices.iter().map(|device| device.count * device.cores)))
        .with(EFA, count([efa]));
    if view.family.windows() {
        capacity.set(PRIVATE_IPV4, count([limits.ipv4_per_interface.saturating_sub(1)]));
    }
    capacity
}

/// The network facts pod density is computed from: those of the default card.
pub fn interfaces(info: &InstanceTypeInfo, view: &ClassView<'_>) -> Interfaces {
    let card =
        usize::try_from(info.default_network_card).ok().and_then(|position| info.network_cards.get(position));
    Interfaces {
        count: card.map_or(info.maximum_network_interfaces, |card| card.maximum_network_interfaces),
        ipv4_each: info.ipv4_addresses_per_interface,
        efa_only_on_card_0: view.efa_only().0,
    }
}

/// Memory a node is expected to report. The hypervisor's share is rounded up to whole MiB: promising a pod
/// memory that is not there costs a machine, promising a little less costs nothing.
fn memory_mib(info: &InstanceTypeInfo, overhead_ppm: u32) -> u64 {
    // The first entry decides, as in the reference (spec aws-provider 3.3).
    let arm64 = info.architectures.first() == Some(&Architecture::Arm64);
    let firmware = if arm64 { ARM64_FIRMWARE_MIB } else { 0 };
    let advertised = info.memory_mib.saturating_sub(firmware);
    let overhead = (advertised.saturating_mul(u64::from(overhead_ppm))).div_ceil(1_000_000);
    advertised.saturating_sub(overhead)
}

fn count(counts: impl IntoIterator<Item = u32>) -> Quantity {
    Quantity::from_units(counts.into_iter().map(i64::from).sum())
}

/// A quantity of MiB.
pub fn mib(size: u64) -> Quantity {
    Quantity::from_bytes(i64::try_from(size).unwrap_or(i64::MAX).saturating_mul(1 << 20))
}
