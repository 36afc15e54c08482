//! Instance types of the largest region, as EC2 describes them: a recorded answer, a line per type.
//!
//! `cargo xtask instance-types` writes the table and explains its fields at the head.

use karpenter_aws_api::ec2::{
    Accelerator, Architecture, EbsOptimized, Gpu, InstanceStorage, InstanceTypeInfo, NetworkCard,
    NeuronDevice, UsageClass,
};

const TABLE: &str = include_str!("../../data/instance-types.txt");

/// Every type of the table.
pub(super) fn all() -> impl Iterator<Item = InstanceTypeInfo> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| parse(&mut line.split('\t')))
}

fn parse<'l>(fields: &mut impl Iterator<Item = &'l str>) -> Option<InstanceTypeInfo> {
    let name = fields.next()?.into();
    let architectures = list(fields.next()?, |name| Some(Architecture::from(name)));
    let usage_classes = list(fields.next()?, |name| Some(UsageClass::from(name)));
    let (vcpus, memory_mib) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let hypervisor = fields.next()?.to_owned();
    let flags: Vec<&str> = fields.next()?.split(',').collect();
    let processor_manufacturer = Some(fields.next()?).filter(|name| !name.is_empty()).map(str::to_owned);
    let sustained_clock_mhz = fields.next()?.parse().ok();
    let processor_features = list(fields.next()?, |name| Some(name.to_owned()));
    let network_cards = list(fields.next()?, network_card);
    let mut number = || fields.next()?.parse().ok();
    let default_network_card = number()?;
    let maximum_network_interfaces = number()?;
    let (ipv4_addresses_per_interface, ipv6_addresses_per_interface) = (number()?, number()?);
    let ena_support = fields.next()?.to_owned();
    let maximum_efa_interfaces = fields.next()?.parse().ok()?;
    let ebs_optimized = parts(fields.next()?).map(|[support, most]| EbsOptimized {
        support: support.to_owned(),
        maximum_bandwidth_mbps: most.parse().ok(),
    });
    let instance_storage = parts(fields.next()?).and_then(|[total, nvme]| {
        Some(InstanceStorage { total_gb: total.parse().ok()?, nvme_support: nvme.to_owned() })
    });
    let gpus = list(fields.next()?, gpu);
    let neuron_devices = list(fields.next()?, neuron_device);
    let inference_accelerators = list(fields.next()?, accelerator);
    let placement_strategies = list(fields.next()?, |name| Some(name.to_owned()));
    Some(InstanceTypeInfo {
        name,
        architectures,
        usage_classes,
        vcpus,
        memory_mib,
        hypervisor,
        bare_metal: flags.contains(&"metal"),
        current_generation: flags.contains(&"current"),
        burstable: flags.contains(&"burstable"),
        processor_manufacturer,
        sustained_clock_mhz,
        processor_features,
        network_cards,
        default_network_card,
        maximum_network_interfaces,
        ipv4_addresses_per_interface,
        ipv6_addresses_per_interface,
        ena_support,
        maximum_efa_interfaces,
        encryption_in_transit: flags.contains(&"encrypts"),
        nitro_enclaves: flags.contains(&"enclaves"),
        ebs_optimized,
        instance_storage,
        gpus,
        neuron_devices,
        inference_accelerators,
        placement_strategies,
    })
}

fn network_card(card: &str) -> Option<NetworkCard> {
    let [index, interfaces, mbps] = parts(card)?;
    Some(NetworkCard {
        index: index.parse().ok()?,
        maximum_network_interfaces: interfaces.parse().ok()?,
        baseline_mbps: mbps.parse().ok(),
    })
}

fn gpu(gpu: &str) -> Option<Gpu> {
    let [name, manufacturer, count, memory] = parts(gpu)?;
    Some(Gpu {
        name: name.to_owned(),
        manufacturer: manufacturer.to_owned(),
        count: count.parse().ok()?,
        memory_mib: memory.parse().ok()?,
    })
}

fn neuron_device(device: &str) -> Option<NeuronDevice> {
    let [name, count, cores] = parts(device)?;
    Some(NeuronDevice { name: name.to_owned(), count: count.parse().ok()?, cores: cores.parse().ok()? })
}

fn accelerator(device: &str) -> Option<Accelerator> {
    let [name, manufacturer, count] = parts(device)?;
    Some(Accelerator {
        name: name.to_owned(),
        manufacturer: manufacturer.to_owned(),
        count: count.parse().ok()?,
    })
}

/// Entries of a list; empty for no text.
fn list<T>(text: &str, entry: impl Fn(&str) -> Option<T>) -> Vec<T> {
    text.split(',').filter(|text| !text.is_empty()).filter_map(entry).collect()
}

/// The parts of an entry, if it has exactly these.
fn parts<const N: usize>(text: &str) -> Option<[&str; N]> {
    text.split(':').collect::<Vec<_>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read_whole() {
        let lines: Vec<&str> = TABLE.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(all().count(), lines.len());
        assert!(lines.len() > 1_300, "{} types", lines.len());
        // An entry that cannot be read would be left out of its list.
        let entries = |field: usize| -> usize {
            let fields = lines.iter().filter_map(|line| line.split('\t').nth(field));
            fields.flat_map(|field| field.split(',')).filter(|entry| !entry.is_empty()).count()
        };
        assert_eq!(all().map(|info| info.network_cards.len()).sum::<usize>(), entries(10));
        assert_eq!(all().filter(|info| info.ebs_optimized.is_some()).count(), entries(17));
        assert_eq!(all().filter(|info| info.instance_storage.is_some()).count(), entries(18));
        assert_eq!(all().map(|info| info.gpus.len()).sum::<usize>(), entries(19));
        assert_eq!(all().map(|info| info.neuron_devices.len()).sum::<usize>(), entries(20));
        assert_eq!(all().map(|info| info.inference_accelerators.len()).sum::<usize>(), entries(21));
    }

    #[test]
    fn types_are_as_their_pages_describe_them() {
        let found = |name: &str| all().find(|info| info.name.as_str() == name).unwrap();
        let general = found("m7i.large");
        assert_eq!((general.vcpus, general.memory_mib), (2, 8192));
        assert_eq!(general.network_cards[0].baseline_mbps, Some(781));
        assert_eq!(general.ebs_optimized.unwrap().maximum_bandwidth_mbps, Some(10_000));
        assert_eq!(found("m8g.large").architectures, [Architecture::Arm64]);
        let p5 = found("p5.48xlarge");
        assert_eq!((p5.gpus[0].name.as_str(), p5.gpus[0].count, p5.gpus[0].memory_mib), ("H100", 8, 81_920));
        assert_eq!((p5.network_cards.len(), p5.maximum_efa_interfaces), (32, 32));
        assert_eq!(found("g6f.large").gpus[0].count, 1, "a share of one");
        assert_eq!(found("i3.large").instance_storage.unwrap().total_gb, 475);
        assert_eq!(found("trn1.2xlarge").neuron_devices[0].cores, 2);
        let metal = found("m5.metal");
        assert!(metal.bare_metal && metal.hypervisor.is_empty());
        assert!(!found("t1.micro").current_generation && found("t3.micro").burstable);
    }
}
