//! Devices that the drivers of NVIDIA and of elastic fabric adapters publish on a type (aws#9550).
//!
//! EC2 states the numbers of devices; a row per model of processor has what its driver publishes about it. The values are
//! those of public descriptions and were not compared with a node of each type: what a node shows otherwise counts from then
//! on (`cluster/src/brought.rs`). A model without a row, such as a new one, has devices once a node has shown them.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::{Gpu, InstanceTypeInfo};
use karpenter_model::device::{
    AttributeBinding, AttributeValue, CapacityPolicy, CapacityValues, Device, DeviceCapacity,
    DeviceTemplates, SliceTemplate,
};
use karpenter_model::{DeviceName, DevicePoolName, DriverName, QualifiedName, Quantity};

use crate::settings::Gates;

/// Driver of NVIDIA's processors.
const NVIDIA: &str = "gpu.nvidia.com";
/// Driver of network devices, elastic fabric adapters among them.
pub(crate) const NETWORK: &str = "dra.net";
/// Annotation of an EC2NodeClass: how the driver of NVIDIA lets claims share a processor: the value its chart has.
pub(crate) const SHARING: &str = "karpenter.k8s.aws/nvidia-consumable-capacity";
/// Attribute that devices of all drivers have.
const ROOT: &str = "resource.kubernetes.io/pcieRoot";

/// A model of NVIDIA's.
struct Model {
    /// EC2's name.
    name: &'static str,
    product: &'static str,
    architecture: &'static str,
    brand: &'static str,
    compute: &'static str,
    /// Memory that the driver reports, in MiB.
    memory: u64,
}

const fn model(
    name: &'static str,
    product: &'static str,
    (architecture, compute): (&'static str, &'static str),
    memory: u64,
) -> Model {
    Model { name, product, architecture, brand: "Nvidia", compute, memory }
}

const VOLTA: (&str, &str) = ("Volta", "7.0.0");
const TURING: (&str, &str) = ("Turing", "7.5.0");
const ADA: (&str, &str) = ("Ada Lovelace", "8.9.0");
const HOPPER: (&str, &str) = ("Hopper", "9.0.0");

const MODELS: &[Model] = &[
    Model { brand: "Tesla", ..model("V100", "Tesla V100-SXM2-16GB", VOLTA, 16_384) },
    Model { brand: "Tesla", ..model("V100", "Tesla V100-SXM2-32GB", VOLTA, 32_768) },
    model("T4", "Tesla T4", TURING, 15_360),
    model("T4g", "NVIDIA T4G", TURING, 15_360),
    model("A10G", "NVIDIA A10G", ("Ampere", "8.6.0"), 23_028),
    model("L4", "NVIDIA L4", ADA, 23_034),
    model("L40S", "NVIDIA L40S", ADA, 46_068),
    model("A100", "NVIDIA A100-SXM4-40GB", ("Ampere", "8.0.0"), 40_960),
    model("A100", "NVIDIA A100-SXM4-80GB", ("Ampere", "8.0.0"), 81_920),
    model("H100", "NVIDIA H100 80GB HBM3", HOPPER, 81_152),
    model("H200", "NVIDIA H200", HOPPER, 143_771),
    model("B200", "NVIDIA B200", ("Blackwell", "10.0.0"), 183_359),
    model("B300", "NVIDIA B300 SXM6 AC", ("Blackwell", "10.3.0"), 275_040),
];

/// Ways in which claims share a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// Not at all.
    Exclusive,
    /// In so many equal shares.
    Shares(u32),
    /// By memory.
    Memory,
    /// As many as like to.
    Unlimited,
}

/// The devices of a type whose instances have `adapters` elastic fabric adapters, as far as the gates let them be
/// foreseen; `annotations` are those of the `NodeClass`.
pub fn devices(
    info: &InstanceTypeInfo,
    adapters: u32,
    annotations: Option<&BTreeMap<String, String>>,
    gates: Gates,
) -> Option<DeviceTemplates> {
    let sharing = annotations.and_then(|all| all.get(SHARING));
    let sharing = sharing.map_or(Sharing::Exclusive, |text| Sharing::of(text));
    let gpus = if gates.dra_nvidia_gpu { processors(info, sharing) } else { Vec::new() };
    let adapters = if gates.dra_efa { adapters } else { 0 };
    if gpus.is_empty() && adapters == 0 {
        return None;
    }
    let all = |count: usize| (0..count).collect::<Vec<_>>();
    let mut bindings = Vec::new();
    if !gpus.is_empty() {
        for name in ["driverVersion", "cudaDriverVersion"] {
            bindings.push(binding(QualifiedName::within(name, NVIDIA), &all(gpus.len()), &[]));
        }
    }
    let adapters = (0..adapters).map(|number| adapter(info, number)).collect::<Vec<_>>();
    for (under, beside) in roots(info) {
        // Roots are those of the hardware. Devices that a gate hides, or whose model has no row, are not on
        // them.
        let under: Vec<usize> = under.into_iter().filter(|number| *number < gpus.len()).collect();
        let beside: Vec<usize> = beside.into_iter().filter(|number| *number < adapters.len()).collect();
        if under.len() + beside.len() > 0 {
            bindings.push(binding(ROOT.into(), &under, &beside));
        }
    }
    let slices = [(NVIDIA, "gpus", gpus), (NETWORK, "network", adapters)].into_iter();
    let slices = slices.filter(|(_, _, devices)| !devices.is_empty()).map(|(driver, pool, devices)| {
        SliceTemplate { driver: driver.into(), pool: pool.into(), counters: Vec::new(), devices }
    });
    Some(DeviceTemplates { slices: slices.collect(), bindings })
}

impl Sharing {
    /// A value that means nothing shares nothing, as without the annotation.
    fn of(text: &str) -> Self {
        match text {
            "memory" => Self::Memory,
            "unlimited" => Self::Unlimited,
            number => match number.parse() {
                Ok(shares) if shares > 0 => Self::Shares(shares),
                _ => Self::Exclusive,
            },
        }
    }

    /// The capacity of a processor with so much memory, in MiB.
    fn capacity(self, memory: u64) -> BTreeMap<QualifiedName, DeviceCapacity> {
        let range = |min, max, step| CapacityValues::Range { min, max, step };
        let policy = |default, values| Some(CapacityPolicy { default, values });
        let (zero, one, mib) = (Quantity::ZERO, Quantity::from_units(1), Quantity::from_bytes(1 << 20));
        let of_memory = match self {
            Self::Exclusive => None,
            Self::Memory => policy(None, range(mib, None, Some(mib))),
            Self::Shares(_) | Self::Unlimited => policy(Some(zero), range(zero, None, None)),
        };
        let value = Quantity::from_bytes(i64::try_from(memory << 20).unwrap_or(i64::MAX));
        let memory = DeviceCapacity { value, policy: of_memory };
        let mut capacity = BTreeMap::from([(QualifiedName::within("memory", NVIDIA), memory)]);
        if let Self::Shares(shares) = self {
            let value = Quantity::from_units(shares.into());
            let policy = policy(Some(one), range(one, Some(value), Some(one)));
            capacity.insert(QualifiedName::within("shares", NVIDIA), DeviceCapacity { value, policy });
        }
        capacity
    }
}

/// The processors of a type whose model is known.
fn processors(info: &InstanceTypeInfo, sharing: Sharing) -> Vec<Device> {
    let known = info.gpus.iter().filter(|gpu| gpu.manufacturer == "NVIDIA");
    let known = known.filter_map(|gpu| {
        let alike = MODELS.iter().filter(|model| model.name == gpu.name);
        // EC2 has one name for V100 and A100 of either size; the memory distinguishes them.
        Some((gpu, alike.min_by_key(|model| model.memory.abs_diff(gpu.memory_mib))?))
    });
    let all = known.flat_map(|(gpu, model)| (0..gpu.count).map(move |_| (gpu, model)));
    all.enumerate().map(|(number, (gpu, model))| processor(number, gpu, model, sharing)).collect()
}

fn processor(number: usize, gpu: &Gpu, model: &Model, sharing: Sharing) -> Device {
    // What is sold in parts calls itself otherwise and has what EC2 says.
    let part = gpu.memory_mib < model.memory / 4 * 3;
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let mut attributes = BTreeMap::from([
        ("architecture", text(model.architecture)),
        ("brand", text(model.brand)),
        ("cudaComputeCapability", AttributeValue::Version(model.compute.to_owned())),
        ("type", text("gpu")),
    ]);
    if !part {
        attributes.insert("productName", text(model.product));
    }
    Device {
        attributes: full(attributes, NVIDIA),
        capacity: sharing.capacity(if part { gpu.memory_mib } else { model.memory }),
        shareable: sharing != Sharing::Exclusive,
        ..device(&gpu_name(number))
    }
}

fn adapter(info: &InstanceTypeInfo, number: u32) -> Device {
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let mut attributes = BTreeMap::from([
        ("pciDevice", text("Elastic Fabric Adapter (EFA)")),
        ("pciVendor", text("Amazon.com, Inc.")),
        ("rdma", AttributeValue::Bool(true)),
    ]);
    let generation = match family(info) {
        "g4dn" | "p3dn" | "p4d" | "p4de" => Some("efa0"),
        "p5" => Some("efa1"),
        _ => None,
    };
    attributes.extend(numa_node(info, number).map(|node| ("numaNode", AttributeValue::Int(node))));
    attributes.extend(generation.map(|generation| ("pciSubsystem", text(generation))));
    Device { attributes: full(attributes, NETWORK), ..device(&efa_name(number as usize)) }
}

/// The NUMA node of adapter `number` where there are several: machines of these families have two, with half of the adapters
/// at each.
fn numa_node(info: &InstanceTypeInfo, number: u32) -> Option<i64> {
    let adapters = info.maximum_efa_interfaces;
    let two = matches!(family(info), "p4d" | "p4de" | "p5" | "p5e" | "p5en" | "p6-b200" | "p6-b300");
    (two && adapters > 1).then(|| i64::from(number * 2 / adapters))
}

/// Processors and adapters that share a root of the PCI bus, by number. Of other types than these it is not known that two do.
fn roots(info: &InstanceTypeInfo) -> Vec<(Vec<usize>, Vec<usize>)> {
    let gpus = info.gpus.iter().map(|gpu| gpu.count as usize).sum::<usize>();
    let adapters = info.maximum_efa_interfaces as usize;
    let alone = |number| (Vec::new(), vec![number]);
    match family(info) {
        "g4dn" | "g5" => {
            let mut roots = vec![((0..gpus).collect(), Vec::new())];
            roots.extend((0..adapters).map(alone));
            roots
        }
        "p4d" | "p4de" | "p5" | "p5e" | "p5en" | "p6-b200" | "p6-b300" => {
            let roots = gpus.min(adapters).max(1);
            let share = |of: usize, root: usize| (root * of / roots..(root + 1) * of / roots).collect();
            (0..roots).map(|root| (share(gpus, root), share(adapters, root))).collect()
        }
        _ => {
            let mut roots: Vec<(Vec<usize>, Vec<usize>)> =
                (0..gpus).map(|number| (vec![number], Vec::new())).collect();
            roots.extend((0..adapters).map(alone));
            roots
        }
    }
}

fn family(info: &InstanceTypeInfo) -> &str {
    info.name.as_str().split('.').next().unwrap_or_default()
}

fn binding(attribute: QualifiedName, gpus: &[usize], adapters: &[usize]) -> AttributeBinding {
    let gpus = gpus.iter().map(|number| (NVIDIA, "gpus", gpu_name(*number)));
    let adapters = adapters.iter().map(|number| (NETWORK, "network", efa_name(*number)));
    let name = |(driver, pool, name): (&str, &str, String)| -> (DriverName, DevicePoolName, DeviceName) {
        (driver.into(), pool.into(), name.as_str().into())
    };
    AttributeBinding { attribute, devices: gpus.chain(adapters).map(name).collect() }
}

fn gpu_name(number: usize) -> String {
    format!("gpu-{number}")
}

fn efa_name(number: usize) -> String {
    format!("efa-{number}")
}

fn full(attributes: BTreeMap<&str, AttributeValue>, driver: &str) -> BTreeMap<QualifiedName, AttributeValue> {
    attributes.into_iter().map(|(name, value)| (QualifiedName::within(name, driver), value)).collect()
}

/// An exclusive device of which nothing is known.
fn device(name: &str) -> Device {
    Device {
        name: name.into(),
        attributes: BTreeMap::new(),
        capacity: BTreeMap::new(),
        draws: Vec::new(),
        shareable: false,
        taints: Vec::new(),
        unsupported: None,
    }
}

#[cfg(test)]
mod tests;
