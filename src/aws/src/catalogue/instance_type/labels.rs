//! Labels of an instance type, read from EC2's description of it (spec aws-provider 1.9).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_aws_api::ec2::{Architecture, InstanceTypeInfo, UsageClass};
use karpenter_aws_api::id::Zone;
use karpenter_model::names::label::{self, aws};
use karpenter_model::{LabelKey, LabelRegistry, LabelValue, Requirement, Requirements};

use crate::class::view::ClassView;
use crate::image::family::FamilyTraits;
use crate::registry::kubernetes_arch;

/// Label key to its possible values; an empty list means the label does not exist on such a node.
type Values = BTreeMap<&'static str, Vec<String>>;

/// The requirements of a type for a `NodeClass`: one for every well-known label.
pub fn requirements(
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    region: &str,
    zones: &BTreeSet<Zone>,
    registry: &LabelRegistry,
) -> Requirements {
    let mut values = of_type(info);
    of_place(&mut values, info, view, region, zones);
    // A label that no value is known for is one that no node of the type gets. Undefined, it would match a
    // pod that requires it.
    let mut all: Requirements =
        registry.well_known.iter().map(|key| Requirement::does_not_exist(key.clone())).collect();
    for (key, values) in values {
        all.replace(Requirement::one_of(LabelKey::from(key), values.into_iter().map(LabelValue::from)));
    }
    // Set by the pool and the claim; a type never contradicts them.
    for open in [label::NODE_POOL, aws::EC2_NODE_CLASS] {
        all.remove(open);
    }
    all
}

/// Labels that follow from the hardware alone.
fn of_type(info: &InstanceTypeInfo) -> Values {
    let name = info.name.as_str();
    let mut values = Values::new();
    let mut one = |key, value: String| {
        values.insert(key, vec![value]);
    };
    one(label::INSTANCE_TYPE, name.to_owned());
    one(aws::INSTANCE_HYPERVISOR, info.hypervisor.clone());
    one(aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, info.encryption_in_transit.to_string());
    one(aws::INSTANCE_CAPABILITY_FLEX, is_flex(name).to_string());
    one(aws::INSTANCE_CPU, info.vcpus.to_string());
    one(aws::INSTANCE_MEMORY, info.memory_mib.to_string());
    if let Some((category, generation)) = category_and_generation(name) {
        one(aws::INSTANCE_CATEGORY, category.to_owned());
        one(aws::INSTANCE_GENERATION, generation.to_owned());
    }
    if let Some((family, size)) = family_and_size(name) {
        one(aws::INSTANCE_FAMILY, family.to_owned());
        one(aws::INSTANCE_SIZE, size.to_owned());
    }
    if let Some(manufacturer) = &info.processor_manufacturer {
        one(aws::INSTANCE_CPU_MANUFACTURER, kebab(manufacturer));
        one(
            aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ,
            // `0` where EC2 has no number, as in the reference (spec aws-provider 1.9).
            info.sustained_clock_mhz.unwrap_or_default().to_string(),
        );
    }
    // A node may come without EBS optimization where that is optional, so such a type has no bandwidth to promise.
    let ebs = info.ebs_optimized.as_ref().filter(|ebs| ebs.support == "default");
    if let Some(bandwidth) = ebs.and_then(|ebs| ebs.maximum_bandwidth_mbps) {
        one(aws::INSTANCE_EBS_BANDWIDTH, bandwidth.to_string());
    }
    if let Some(bandwidth) = network_bandwidth(info) {
        one(aws::INSTANCE_NETWORK_BANDWIDTH, bandwidth.to_string());
    }
    if let Some(disks) = info.instance_storage.as_ref().filter(|disks| disks.nvme_support != "unsupported") {
        one(aws::INSTANCE_LOCAL_NVME, disks.total_gb.to_string());
    }
    of_accelerators(&mut values, info);
    values
}

/// Bandwidth that all cards together sustain, in Mbit/s; `None` unless it is known for every card.
fn network_bandwidth(info: &InstanceTypeInfo) -> Option<u32> {
    let baselines = info.network_cards.iter().map(|card| card.baseline_mbps);
    baselines.sum::<Option<u32>>().filter(|bandwidth| *bandwidth > 0)
}

fn of_accelerators(values: &mut Values, info: &InstanceTypeInfo) {
    let mut one = |key, value: String| {
        values.insert(key, vec![value]);
    };
    // Labels describe one model; a type that mixes models has none.
    if let [gpu] = info.gpus.as_slice() {
        one(aws::INSTANCE_GPU_NAME, kebab(&gpu.name));
        one(aws::INSTANCE_GPU_MANUFACTURER, kebab(&gpu.manufacturer));
        one(aws::INSTANCE_GPU_COUNT, gpu.count.to_string());
        one(aws::INSTANCE_GPU_MEMORY, gpu.memory_mib.to_string());
    }
    match (info.neuron_devices.as_slice(), info.inference_accelerators.as_slice()) {
        // A type may be in both lists; the reference reads that of Neuron first (spec aws-provider 1.9).
        ([neuron], _) => {
            one(aws::INSTANCE_ACCELERATOR_NAME, kebab(&neuron.name));
            one(aws::INSTANCE_ACCELERATOR_MANUFACTURER, "aws".to_owned());
            one(aws::INSTANCE_ACCELERATOR_COUNT, neuron.count.to_string());
        }
        ([], [accelerator]) => {
            one(aws::INSTANCE_ACCELERATOR_NAME, kebab(&accelerator.name));
            one(aws::INSTANCE_ACCELERATOR_MANUFACTURER, kebab(&accelerator.manufacturer));
            one(aws::INSTANCE_ACCELERATOR_COUNT, accelerator.count.to_string());
        }
        _ => {}
    }
}

/// Labels that depend on the `NodeClass` and on where the type is offered.
fn of_place(
    values: &mut Values,
    info: &InstanceTypeInfo,
    view: &ClassView<'_>,
    region: &str,
    offered: &BTreeSet<Zone>,
) {
    let zones: Vec<&str> = view.zones.keys().copied().filter(|zone| offered.contains::<str>(*zone)).collect();
    let zone_ids = zones.iter().filter_map(|zone| view.zones.get(zone)?.zone_id.clone()).collect();
    values.insert(label::ZONE, zones.iter().map(|zone| (*zone).to_owned()).collect());
    values.insert(aws::ZONE_ID, zone_ids);
    values.insert(label::REGION, vec![region.to_owned()]);
    let arch = architecture(info);
    values.insert(label::OS, operating_systems(view, &arch));
    values.insert(label::ARCH, vec![arch]);
    if let Some(build) = view.family.windows_build() {
        values.insert(label::WINDOWS_BUILD, vec![build.to_owned()]);
    }
    let tenancies = aws::TENANCIES.iter().map(|tenancy| (*tenancy).to_owned()).collect();
    values.insert(aws::INSTANCE_TENANCY, tenancies);
    values.insert(label::CAPACITY_TYPE, capacity_types(info, view));
    of_reservations(values, info, view);
    if let Some(group) = &view.placement {
        values.insert(aws::PLACEMENT_GROUP_ID, vec![group.id.to_string()]);
        let partitions = group.all_partitions().map(|partition| partition.to_string()).collect();
        values.insert(aws::PLACEMENT_GROUP_PARTITION, partitions);
    }
}

fn of_reservations(values: &mut Values, info: &InstanceTypeInfo, view: &ClassView<'_>) {
    let mut ids = Vec::new();
    let mut kinds = Vec::new();
    let mut interruptible = Vec::new();
    for reservation in view.reservations(info.name.as_str()) {
        ids.push(reservation.id.clone());
        kinds.push(reservation.reservation_type.as_str().to_owned());
        interruptible.push(reservation.interruptible.to_string());
    }
    values.insert(aws::CAPACITY_RESERVATION_ID, ids);
    values.insert(aws::CAPACITY_RESERVATION_TYPE, kinds);
    values.insert(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, interruptible);
}

/// Ways to buy the type; capacity blocks can only be had through a reservation.
pub fn capacity_types(info: &InstanceTypeInfo, view: &ClassView<'_>) -> Vec<String> {
    let mut types: Vec<String> = info
        .usage_classes
        .iter()
        .filter(|class| matches!(class, UsageClass::OnDemand | UsageClass::Spot))
        .map(|class| class.as_str().to_owned())
        .collect();
    if view.reservations(info.name.as_str()).next().is_some() {
        types.push("reserved".to_owned());
    }
    types
}

/// Windows runs on amd64 only: on other architectures no operating system is left.
fn operating_systems(view: &ClassView<'_>, arch: &str) -> Vec<String> {
    match (view.family.windows(), arch) {
        (false, _) => vec!["linux".to_owned()],
        (true, "amd64") => vec!["windows".to_owned()],
        (true, _) => Vec::new(),
    }
}

/// The first architecture Kubernetes has a name for; otherwise a text no node is labelled with.
fn architecture(info: &InstanceTypeInfo) -> String {
    let known = info.architectures.iter().find_map(kubernetes_arch);
    known.map_or_else(
        || info.architectures.iter().map(Architecture::as_str).collect::<Vec<_>>().join(","),
        str::to_owned,
    )
}

fn is_flex(name: &str) -> bool {
    name.split('.').next().is_some_and(|family| family.contains("-flex"))
}

/// Text before and after the dot, if there is exactly one.
fn family_and_size(name: &str) -> Option<(&str, &str)> {
    name.split_once('.').filter(|(_, size)| !size.contains('.'))
}

/// The leading letters, and the number after them or after a memory size such as `-6tb`, before a dot:
/// `m5.large` is `m` and `5`, `u-6tb1.metal` is `u` and `1`.
fn category_and_generation(name: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let letters = name.find(|c: char| !c.is_ascii_lowercase()).filter(|end| *end > 0)?;
    let (category, rest) = name.split_at(letters);
    let sized = rest.strip_prefix('-').and_then(|size| {
        let end = digits(size);
        if end > 0 { size[end..].strip_prefix("tb") } else { None }
    });
    let rest = sized.unwrap_or(rest);
    let (generation, rest) = rest.split_at(digits(rest));
    (!generation.is_empty() && rest.contains('.')).then_some((category, generation))
}

fn kebab(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_published() {
        for (name, category, family) in [
            ("m5.large", Some(("m", "5")), Some(("m5", "large"))),
            ("m7i-flex.large", Some(("m", "7")), Some(("m7i-flex", "large"))),
            ("u-6tb1.metal", Some(("u", "1")), Some(("u-6tb1", "metal"))),
            ("u7i-12tb.224xlarge", Some(("u", "7")), Some(("u7i-12tb", "224xlarge"))),
            ("trn1n.32xlarge", Some(("trn", "1")), Some(("trn1n", "32xlarge"))),
            ("mac2-m2.metal", Some(("mac", "2")), Some(("mac2-m2", "metal"))),
            ("inf2.xlarge", Some(("inf", "2")), Some(("inf2", "xlarge"))),
            ("m5", None, None),
            ("m5.a.b", Some(("m", "5")), None),
            (".large", None, Some(("", "large"))),
            ("5m.large", None, Some(("5m", "large"))),
        ] {
            assert_eq!(category_and_generation(name), category, "{name}");
            assert_eq!(family_and_size(name), family, "{name}");
        }
        assert!(is_flex("c7i-flex.large") && !is_flex("c7i.large") && !is_flex("c7i.large-flex"));
        assert_eq!(kebab("Radeon Pro V520"), "radeon-pro-v520");
    }
}
