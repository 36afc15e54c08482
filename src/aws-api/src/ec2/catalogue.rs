//! Goods of EC2: instance types, the zones that offer them, spot prices (spec aws-provider 1.9, 3.1, 3.3, 4).

use jiff::Timestamp;

use crate::Filter;
use crate::id::{InstanceType, Zone};

/// Types to describe; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceTypeQuery {
    /// Exactly these types. An unknown one is `InvalidInstanceType`.
    pub types: Vec<InstanceType>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// One instance type, as far as scheduling and launching need it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts about a type, named and answered so by EC2")]
pub struct InstanceTypeInfo {
    /// `m5.large`
    pub name: InstanceType,
    /// Architectures in AWS's order; the first is the one the memory rules look at.
    pub architectures: Vec<Architecture>,
    /// Ways to buy it.
    pub usage_classes: Vec<UsageClass>,
    /// Default number of vCPUs.
    pub vcpus: u32,
    /// Memory in MiB, before anything is taken off.
    pub memory_mib: u64,
    /// `nitro`, `xen`, or empty for bare metal.
    pub hypervisor: String,
    /// No hypervisor at all.
    pub bare_metal: bool,
    /// Newest generation of its family.
    pub current_generation: bool,
    /// CPU credits instead of sustained performance.
    pub burstable: bool,
    /// CPU vendor as AWS writes it: `Intel`, `AMD`, `AWS`.
    pub processor_manufacturer: Option<String>,
    /// Sustained clock in MHz, rounded.
    pub sustained_clock_mhz: Option<u32>,
    /// Processor features such as `amd-sev-snp` or `nested-virtualization`.
    pub processor_features: Vec<String>,
    /// Network cards in AWS's order.
    pub network_cards: Vec<NetworkCard>,
    /// Position of the default card in `network_cards`.
    pub default_network_card: u32,
    /// Interfaces over all cards.
    pub maximum_network_interfaces: u32,
    /// IPv4 addresses per interface, the primary one included.
    pub ipv4_addresses_per_interface: u32,
    pub ipv6_addresses_per_interface: u32,
    /// `unsupported`, `supported` or `required`.
    pub ena_support: String,
    /// Elastic fabric adapters; 0 when unsupported.
    pub maximum_efa_interfaces: u32,
    /// Traffic between instances is encrypted by the card.
    pub encryption_in_transit: bool,
    /// EBS optimisation.
    pub ebs_optimized: Option<EbsOptimized>,
    /// Local disks.
    pub instance_storage: Option<InstanceStorage>,
    /// Graphics processors, one entry per model.
    pub gpus: Vec<Gpu>,
    /// Neuron devices, one entry per model.
    pub neuron_devices: Vec<NeuronDevice>,
    /// Inference accelerators, one entry per model.
    pub inference_accelerators: Vec<Accelerator>,
    /// Placement group strategies it can be launched into: `cluster`, `partition`, `spread`.
    pub placement_strategies: Vec<String>,
    /// Can run Nitro Enclaves.
    pub nitro_enclaves: bool,
}

/// Processor architecture as EC2 spells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// `x86_64`, Kubernetes `amd64`
    X86_64,
    Arm64,
    /// Anything we do not run on: `i386`, `x86_64_mac`, ...
    Other(String),
}

impl Architecture {
    /// EC2's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for Architecture {
    fn from(text: &str) -> Self {
        match text {
            "x86_64" => Self::X86_64,
            "arm64" => Self::Arm64,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Way to buy an instance type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageClass {
    OnDemand,
    Spot,
    CapacityBlock,
    /// A way that did not exist when this was written.
    Other(String),
}

impl UsageClass {
    /// EC2's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::CapacityBlock => "capacity-block",
            Self::Other(text) => text,
        }
    }
}

impl From<&str> for UsageClass {
    fn from(text: &str) -> Self {
        match text {
            "on-demand" => Self::OnDemand,
            "spot" => Self::Spot,
            "capacity-block" => Self::CapacityBlock,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// One network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    /// Card number.
    pub index: u32,
    /// Interfaces this card takes.
    pub maximum_network_interfaces: u32,
    /// Mbit/s it sustains, when EC2 says.
    pub baseline_mbps: Option<u32>,
}

/// EBS optimisation of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EbsOptimized {
    /// `unsupported`, `supported` or `default`.
    pub support: String,
    /// Maximum bandwidth in Mbit/s.
    pub maximum_bandwidth_mbps: Option<u32>,
}

/// Local disks of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStorage {
    /// Sum over all disks, in decimal GB.
    pub total_gb: u64,
    /// `unsupported`, `supported` or `required`.
    pub nvme_support: String,
}

/// Graphics processors of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `T4`, `A10G`
    pub name: String,
    /// `NVIDIA`, `AMD`, `Habana`
    pub manufacturer: String,
    /// Number that the machine sees, at least one; a share of a physical one counts as one.
    pub count: u32,
    /// Memory of each, in MiB.
    pub memory_mib: u64,
}

impl Gpu {
    /// Returns how many processors a machine sees of which EC2 states this number of `whole` ones and of `logical` ones. A type
    /// with a share of one (g6f, gr6f) has no whole one, and one device all the same.
    pub fn devices(whole: u32, logical: Option<u32>) -> u32 {
        if whole == 0 { logical.unwrap_or_default().max(1) } else { whole }
    }
}

/// Neuron devices of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronDevice {
    /// `Inferentia2`, `Trainium`
    pub name: String,
    /// Number of devices.
    pub count: u32,
    /// Cores per device.
    pub cores: u32,
}

/// Inference accelerators of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// `Inferentia`
    pub name: String,
    /// `AWS`
    pub manufacturer: String,
    /// Number of accelerators.
    pub count: u32,
}

/// A type can be launched in a zone, capacity permitting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeOffering {
    pub instance_type: InstanceType,
    pub zone: Zone,
}

/// Query of spot prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotPriceQuery {
    /// Prices in force from this instant on; with "now", exactly the current ones.
    pub start: Timestamp,
    /// `Linux/UNIX`, `Linux/UNIX (Amazon VPC)`; empty means all products.
    pub products: Vec<String>,
    /// Types to look for; empty means all.
    pub types: Vec<InstanceType>,
}

/// One spot price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotPrice {
    pub instance_type: InstanceType,
    pub zone: Zone,
    /// Dollars per hour, the decimal text exactly as AWS printed it (money is never a float here).
    pub price: String,
    /// Product description.
    pub product: String,
    /// Time at which this price came into force.
    pub since: Timestamp,
}
