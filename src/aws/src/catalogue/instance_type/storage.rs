//! Ephemeral storage of a node (spec aws-provider 3.6).

use karpenter_api::ec2nodeclass::{AmiFamily, BlockDeviceMapping};
use karpenter_aws_api::ec2::InstanceTypeInfo;
use karpenter_model::Quantity;

use crate::class::view::ClassView;
use crate::image::family::FamilyTraits;

/// Size of a volume for which nothing else is known (spec aws-provider 3.6).
const DEFAULT_GIB: u32 = 20;

/// Size of the volume behind the kubelet's root directory.
pub fn ephemeral_storage(info: &InstanceTypeInfo, view: &ClassView<'_>) -> Quantity {
    let family = view.family;
    if view.stripes_disks
        && let Some(disks) = &info.instance_storage
    {
        // EC2 counts local disks in decimal gigabytes and volumes in GiB.
        return decimal_gb(disks.total_gb);
    }
    let mapped = match view.class.spec.block_device_mappings.as_deref() {
        Some(mappings) if !mappings.is_empty() => from_mappings(mappings, family),
        _ => None,
    };
    mapped.or_else(|| from_defaults(family)).unwrap_or_else(|| gib(DEFAULT_GIB))
}

fn from_mappings(mappings: &[BlockDeviceMapping], family: AmiFamily) -> Option<Quantity> {
    if let Some(size) = mappings.iter().filter(|mapping| mapping.root_volume).find_map(size) {
        return Some(size);
    }
    if family == AmiFamily::Custom {
        // Nothing is known about the image; its last disk is taken for the data disk.
        return Some(mappings.last().and_then(size).unwrap_or_else(|| gib(DEFAULT_GIB)));
    }
    let device = family.ephemeral_device();
    mappings.iter().filter(|mapping| mapping.device_name.as_deref() == device).find_map(size)
}

fn from_defaults(family: AmiFamily) -> Option<Quantity> {
    let device = family.ephemeral_device()?;
    family.default_disks().iter().find(|disk| disk.device == device).map(|disk| gib(disk.gib))
}

fn size(mapping: &BlockDeviceMapping) -> Option<Quantity> {
    mapping.ebs.as_ref()?.volume_size.as_deref()?.parse().ok()
}

fn gib(size: u32) -> Quantity {
    Quantity::from_bytes(i64::from(size) << 30)
}

fn decimal_gb(size: u64) -> Quantity {
    Quantity::from_units(i64::try_from(size).unwrap_or(i64::MAX).saturating_mul(1_000_000_000))
}
