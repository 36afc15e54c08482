//! Test doubles shared by the unit tests of this crate.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_api::EC2NodeClass;
use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec, Subnet};
use karpenter_aws_api::ec2::{Architecture, InstanceTypeInfo, NetworkCard, UsageClass};
use karpenter_model::{Claim, InstanceType, Offering};

use crate::launch::filter::Candidate;

/// A plain Nitro type with the given name, vCPUs, GiB, interfaces and addresses per interface.
pub(crate) fn machine(name: &str, vcpus: u32, gib: u64, interfaces: u32, ipv4: u32) -> InstanceTypeInfo {
    InstanceTypeInfo {
        name: name.into(),
        architectures: vec![Architecture::X86_64],
        usage_classes: vec![UsageClass::OnDemand, UsageClass::Spot],
        vcpus,
        memory_mib: gib * 1024,
        hypervisor: "nitro".into(),
        bare_metal: false,
        current_generation: true,
        burstable: false,
        processor_manufacturer: Some("Intel".into()),
        sustained_clock_mhz: Some(3_100),
        processor_features: Vec::new(),
        network_cards: vec![NetworkCard {
            index: 0,
            maximum_network_interfaces: interfaces,
            baseline_mbps: None,
        }],
        default_network_card: 0,
        maximum_network_interfaces: interfaces,
        ipv4_addresses_per_interface: ipv4,
        ipv6_addresses_per_interface: ipv4,
        ena_support: "required".into(),
        maximum_efa_interfaces: 0,
        encryption_in_transit: false,
        ebs_optimized: None,
        instance_storage: None,
        gpus: Vec::new(),
        neuron_devices: Vec::new(),
        inference_accelerators: Vec::new(),
        placement_strategies: Vec::new(),
        nitro_enclaves: false,
    }
}

/// A `NodeClass` of this family with a subnet in each of zones `a` and `b`.
pub(crate) fn class(family: AmiFamily) -> EC2NodeClass {
    let spec = Ec2NodeClassSpec { ami_family: Some(family), ..Default::default() };
    let mut class = EC2NodeClass::new("default", spec);
    class.status.get_or_insert_default().subnets = ["a", "b"]
        .map(|zone| Subnet {
            id: format!("subnet-{zone}"),
            zone: zone.to_owned(),
            zone_id: Some(format!("id-{zone}")),
        })
        .to_vec();
    class
}

/// A claim that runs this image.
pub(crate) fn claim(image: Option<&str>) -> Claim {
    Claim {
        pool: Some("web".into()),
        image_id: image.map(Into::into),
        ..Claim::bare("web-1", Timestamp::UNIX_EPOCH)
    }
}

/// A type of which nothing matters but its offerings.
pub(crate) fn candidate(name: &str, offerings: Vec<Offering>) -> Candidate {
    let instance_type = Arc::new(InstanceType::bare(name, offerings.clone()));
    Candidate { instance_type, offerings }
}
