//! The families: vCPUs, memory, interfaces and prices as AWS publishes them for these types.

use karpenter_aws_api::ec2::{
    Architecture, EbsOptimized, Gpu, InstanceStorage, InstanceTypeInfo, NetworkCard, UsageClass,
};

/// Sizes of the m, c and r families: name, vCPUs, interfaces, IPv4 addresses per interface.
const SIZES: [(&str, u32, u32, u32); 8] = [
    ("large", 2, 3, 10),
    ("xlarge", 4, 4, 15),
    ("2xlarge", 8, 4, 15),
    ("4xlarge", 16, 8, 30),
    ("8xlarge", 32, 8, 30),
    ("12xlarge", 48, 8, 30),
    ("16xlarge", 64, 15, 50),
    ("24xlarge", 96, 15, 50),
];

/// A family that scales with its size.
struct Family {
    name: &'static str,
    /// `Intel`, `AMD` or `AWS` (Graviton, arm64).
    vendor: &'static str,
    gib_per_vcpu: u64,
    clock_mhz: u32,
    /// Price of the `large` size in millionths of a dollar per hour.
    large_micros: u64,
    /// Sizes it comes in, from `large` up.
    sizes: usize,
}

const FAMILIES: [Family; 12] = [
    Family { name: "m5", vendor: "Intel", gib_per_vcpu: 4, clock_mhz: 3100, large_micros: 96_000, sizes: 8 },
    Family { name: "m6i", vendor: "Intel", gib_per_vcpu: 4, clock_mhz: 3500, large_micros: 96_000, sizes: 8 },
    Family { name: "m6a", vendor: "AMD", gib_per_vcpu: 4, clock_mhz: 3600, large_micros: 86_400, sizes: 8 },
    Family { name: "m7g", vendor: "AWS", gib_per_vcpu: 4, clock_mhz: 2600, large_micros: 81_600, sizes: 7 },
    Family { name: "c5", vendor: "Intel", gib_per_vcpu: 2, clock_mhz: 3400, large_micros: 85_000, sizes: 4 },
    Family { name: "c6i", vendor: "Intel", gib_per_vcpu: 2, clock_mhz: 3500, large_micros: 85_000, sizes: 8 },
    Family { name: "c6a", vendor: "AMD", gib_per_vcpu: 2, clock_mhz: 3600, large_micros: 76_500, sizes: 8 },
    Family { name: "c7g", vendor: "AWS", gib_per_vcpu: 2, clock_mhz: 2600, large_micros: 72_500, sizes: 7 },
    Family { name: "c7i", vendor: "Intel", gib_per_vcpu: 2, clock_mhz: 3200, large_micros: 89_250, sizes: 8 },
    Family { name: "r5", vendor: "Intel", gib_per_vcpu: 8, clock_mhz: 3100, large_micros: 126_000, sizes: 8 },
    Family {
        name: "r6i",
        vendor: "Intel",
        gib_per_vcpu: 8,
        clock_mhz: 3500,
        large_micros: 126_000,
        sizes: 8,
    },
    Family { name: "r7g", vendor: "AWS", gib_per_vcpu: 8, clock_mhz: 2600, large_micros: 107_100, sizes: 7 },
];

/// Burstable types: name, vendor, vCPUs, memory in MiB, interfaces, addresses, millionths of a dollar.
const BURSTABLE: [(&str, &str, u32, u64, u32, u32, u64); 11] = [
    ("t3.micro", "Intel", 2, 1024, 2, 2, 10_400),
    ("t3.small", "Intel", 2, 2048, 3, 4, 20_800),
    ("t3.medium", "Intel", 2, 4096, 3, 6, 41_600),
    ("t3.large", "Intel", 2, 8192, 3, 12, 83_200),
    ("t3.xlarge", "Intel", 4, 16_384, 4, 15, 166_400),
    ("t3.2xlarge", "Intel", 8, 32_768, 4, 15, 332_800),
    ("t4g.small", "AWS", 2, 2048, 3, 4, 16_800),
    ("t4g.medium", "AWS", 2, 4096, 3, 6, 33_600),
    ("t4g.large", "AWS", 2, 8192, 3, 12, 67_200),
    ("t4g.xlarge", "AWS", 4, 16_384, 4, 15, 134_400),
    ("t4g.2xlarge", "AWS", 8, 32_768, 4, 15, 268_800),
];

/// GPU types: name, vCPUs, GPUs, interfaces, addresses, local GB, millionths of a dollar. 4 GiB per vCPU.
const GPU: [(&str, u32, u32, u32, u32, u64, u64); 12] = [
    ("g5.xlarge", 4, 1, 4, 15, 250, 1_006_000),
    ("g5.2xlarge", 8, 1, 4, 15, 450, 1_212_000),
    ("g5.4xlarge", 16, 1, 8, 30, 600, 1_624_000),
    ("g5.8xlarge", 32, 1, 8, 30, 900, 2_448_000),
    ("g5.12xlarge", 48, 4, 15, 50, 3800, 5_672_000),
    ("g5.24xlarge", 96, 4, 15, 50, 3800, 8_144_000),
    ("g6.xlarge", 4, 1, 4, 15, 250, 804_800),
    ("g6.2xlarge", 8, 1, 4, 15, 450, 977_600),
    ("g6.4xlarge", 16, 1, 8, 30, 600, 1_323_200),
    ("g6.8xlarge", 32, 1, 8, 30, 900, 2_014_400),
    ("g6.12xlarge", 48, 4, 8, 30, 3760, 4_601_600),
    ("g6.24xlarge", 96, 4, 15, 50, 3760, 6_675_200),
];

/// Every type with its on-demand price in billionths of a dollar per hour.
pub(super) fn all() -> Vec<(InstanceTypeInfo, u64)> {
    let mut types = Vec::new();
    for family in &FAMILIES {
        for (size, vcpus, interfaces, addresses) in SIZES.into_iter().take(family.sizes) {
            let name = format!("{}.{size}", family.name);
            let memory = u64::from(vcpus) * family.gib_per_vcpu * 1024;
            let mut info = base(&name, family.vendor, vcpus, memory, interfaces, addresses);
            info.sustained_clock_mhz = Some(family.clock_mhz);
            types.push((info, family.large_micros * 1000 * u64::from(vcpus) / 2));
        }
    }
    for (name, vendor, vcpus, memory, interfaces, addresses, micros) in BURSTABLE {
        let mut info = base(name, vendor, vcpus, memory, interfaces, addresses);
        info.burstable = true;
        types.push((info, micros * 1000));
    }
    for (name, vcpus, gpus, interfaces, addresses, local, micros) in GPU {
        let memory = u64::from(vcpus) * 4 * 1024;
        let mut info = base(name, "AMD", vcpus, memory, interfaces, addresses);
        info.instance_storage = Some(InstanceStorage { total_gb: local, nvme_support: "required".into() });
        info.gpus = vec![Gpu {
            name: if name.starts_with("g5") { "A10G".into() } else { "L4".into() },
            manufacturer: "NVIDIA".into(),
            count: gpus,
            memory_mib: 22_888,
        }];
        types.push((info, micros * 1000));
    }
    types.push(bare_metal());
    types
}

/// Copies of the types, `ahead` times ten generations later and a little more expensive: `m5.large` becomes
/// `m15.large`.
pub(super) fn later(
    types: &[(InstanceTypeInfo, u64)],
    ahead: u64,
) -> impl Iterator<Item = (InstanceTypeInfo, u64)> + '_ {
    types.iter().map(move |(info, price)| {
        let mut info = info.clone();
        info.name = later_name(info.name.as_str(), ahead).as_str().into();
        (info, price * (100 + ahead) / 100)
    })
}

/// The generation is the number after the letters of the family.
fn later_name(name: &str, ahead: u64) -> String {
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let end = name[start..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |length| start + length);
    let generation: u64 = name[start..end].parse().unwrap_or_default();
    format!("{}{}{}", &name[..start], generation + 10 * ahead, &name[end..])
}

fn bare_metal() -> (InstanceTypeInfo, u64) {
    let mut info = base("m5.metal", "Intel", 96, 393_216, 15, 50);
    info.hypervisor = String::new();
    info.bare_metal = true;
    info.nitro_enclaves = false;
    (info, 4_608_000_000)
}

fn base(
    name: &str,
    vendor: &str,
    vcpus: u32,
    memory_mib: u64,
    interfaces: u32,
    addresses: u32,
) -> InstanceTypeInfo {
    let arm = vendor == "AWS";
    InstanceTypeInfo {
        name: name.into(),
        architectures: vec![if arm { Architecture::Arm64 } else { Architecture::X86_64 }],
        usage_classes: vec![UsageClass::OnDemand, UsageClass::Spot],
        vcpus,
        memory_mib,
        hypervisor: "nitro".to_owned(),
        bare_metal: false,
        current_generation: true,
        burstable: false,
        processor_manufacturer: Some(vendor.to_owned()),
        sustained_clock_mhz: Some(2500),
        processor_features: Vec::new(),
        network_cards: vec![NetworkCard {
            index: 0,
            maximum_network_interfaces: interfaces,
            baseline_mbps: Some(vcpus * 375),
        }],
        default_network_card: 0,
        maximum_network_interfaces: interfaces,
        ipv4_addresses_per_interface: addresses,
        ipv6_addresses_per_interface: addresses,
        ena_support: "required".to_owned(),
        maximum_efa_interfaces: u32::from(vcpus >= 96),
        encryption_in_transit: !["t3.", "t4g.", "m5.", "c5.", "r5."].iter().any(|old| name.starts_with(old)),
        ebs_optimized: Some(EbsOptimized {
            support: "default".to_owned(),
            maximum_bandwidth_mbps: Some(if vcpus <= 16 { 4750 } else { 19_000 }),
        }),
        instance_storage: None,
        gpus: Vec::new(),
        neuron_devices: Vec::new(),
        inference_accelerators: Vec::new(),
        placement_strategies: vec!["cluster".to_owned(), "partition".to_owned(), "spread".to_owned()],
        // An enclave needs whole cores beside those of its parent.
        nitro_enclaves: vcpus >= if arm { 2 } else { 4 } && !name.starts_with('t'),
    }
}
