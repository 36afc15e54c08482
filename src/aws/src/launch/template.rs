//! The launch template of one group of types: everything but type and subnet (spec aws-provider 5.5, 5.6).
//!
//! Pure. The name is a hash of the contents, so two launches that need the same template find the same one,
//! and a changed `NodeClass` gets a new one without a comparison of versions.

use std::collections::BTreeMap;

use karpenter_api::ec2nodeclass::{
    AmiFamily, BlockDevice as ClassDevice, BlockDeviceMapping, Ec2NodeClassSpec, InterfaceType,
    MetadataOptions as ClassMetadata,
};
use karpenter_aws_api::ec2::{
    BlockDevice, CapacityReservationPreference, CapacityReservationTarget, ConnectionTracking, EbsVolume,
    InterfaceKind, LaunchTemplateData, LaunchTemplateSpec, MarketType, MetadataOptions, NetworkInterface,
    Placement, TagSpecification, TaggedKind, Tenancy,
};
use karpenter_aws_api::id::SecurityGroupId;
use karpenter_aws_api::{Secret, Tags};
use karpenter_model::CapacityType;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::placed::Placed;
use crate::catalogue::adapters::Slot;
use crate::image::family::FamilyTraits;
use crate::launch::filter::reserved::{Reserved, ReservedKind};

/// Prefix of every template name. IAM policies and clean-up rely on it.
pub(crate) const NAME_PREFIX: &str = "karpenter.k8s.aws/";

/// Regions whose EC2 does not take `httpProtocolIPv6`.
const NO_METADATA_IPV6: [&str; 6] = [
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-south-1",
    "us-isof-east-1",
];

/// Inputs of a template.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of a launch template")]
pub struct Inputs<'a> {
    /// The `NodeClass`'s spec.
    pub spec: &'a Ec2NodeClassSpec,
    pub family: AmiFamily,
    /// Security groups of its status.
    pub security_groups: Vec<SecurityGroupId>,
    /// Instance profile of its status.
    pub instance_profile: &'a str,
    pub image: &'a str,
    /// Rendered user data.
    pub user_data: String,
    /// Tags of the template and of everything launched from it.
    pub tags: &'a BTreeMap<String, String>,
    /// Capacity type of the instances.
    pub capacity_type: CapacityType,
    /// Own hardware.
    pub dedicated: bool,
    /// Interfaces of an instance with elastic fabric adapters; empty for the one interface of any other.
    pub adapters: &'a [Slot],
    /// Nitro enclaves on.
    pub enclave: bool,
    /// Nodes get IPv6 addresses.
    pub ipv6: bool,
    /// The `ReservedCapacity` gate.
    pub reserved_capacity: bool,
    /// The reservation instances are launched into.
    pub reserved: Option<&'a Reserved>,
    /// Place of the instances in a placement group.
    pub placed: Option<&'a Placed>,
    pub region: &'a str,
}

/// The template to create, with its name.
pub fn template(inputs: Inputs<'_>) -> LaunchTemplateSpec {
    let tags: Tags = inputs.tags.clone();
    let user_data = inputs.user_data.clone();
    let data = data(inputs);
    let name = name(&data, &user_data, &tags);
    LaunchTemplateSpec { client_token: None, name, tags, data }
}

/// `karpenter.k8s.aws/` and a decimal 64 bit hash of the contents. What the hash is of must not change with the release:
/// all templates would be made again at once. So it is of sorted JSON, where a field that is not used is not there.
fn name(data: &LaunchTemplateData, user_data: &str, tags: &Tags) -> String {
    let mut hasher = Sha256::new();
    // User data is a secret and not part of the JSON, so it is hashed by itself.
    for part in [&plain(json!(data)).to_string(), user_data, &json!(tags).to_string()] {
        // The length first, so that the same bytes divided otherwise have another hash.
        hasher.update(part.len().to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let digest = hasher.finalize();
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    format!("{NAME_PREFIX}{hash}")
}

/// Returns the value without nulls, and with the keys of objects in order.
fn plain(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let sorted: BTreeMap<String, Value> = fields.map(|(key, value)| (key, plain(value))).collect();
            sorted.into_iter().collect()
        }
        Value::Array(items) => items.into_iter().map(plain).collect(),
        other => other,
    }
}

fn data(inputs: Inputs<'_>) -> LaunchTemplateData {
    let spec = inputs.spec;
    // Instance, volume and fleet are tagged by the request for the fleet, these kinds by the template alone
    // (spec aws-provider 5.5).
    let mut kinds = vec![TaggedKind::NetworkInterface];
    if inputs.capacity_type == CapacityType::Spot {
        kinds.push(TaggedKind::SpotInstancesRequest);
    }
    let tenancy = if inputs.dedicated { Tenancy::Dedicated } else { Tenancy::Default };
    let nested = spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization);
    LaunchTemplateData {
        image: Some(inputs.image.into()),
        instance_profile: Some(inputs.instance_profile.to_owned()),
        detailed_monitoring: Some(spec.detailed_monitoring.unwrap_or(false)),
        ebs_optimized: None,
        block_devices: block_devices(spec.block_device_mappings.as_deref(), inputs.family),
        metadata: Some(metadata(spec.metadata_options.as_ref(), inputs.ipv6, inputs.region)),
        network_interfaces: network_interfaces(&inputs),
        tags: kinds.into_iter().map(|kind| TagSpecification { kind, tags: inputs.tags.clone() }).collect(),
        placement: Some(Placement {
            tenancy: Some(tenancy),
            group: inputs.placed.map(|placed| placed.group.id.clone()),
            partition: inputs.placed.and_then(|placed| placed.partition),
        }),
        enclave: Some(inputs.enclave),
        nested_virtualization: nested.map(|toggle| toggle.as_str().to_owned()),
        capacity_reservation: inputs.reserved_capacity.then(|| target(inputs.reserved)),
        market: inputs.reserved.filter(|_| inputs.reserved_capacity).and_then(market),
        user_data: Some(Secret::from(inputs.user_data)),
    }
}

/// Only launches that name a reservation may use one; an open reservation is left to those it is for.
fn target(reserved: Option<&Reserved>) -> CapacityReservationTarget {
    match reserved {
        Some(reserved) => CapacityReservationTarget {
            preference: CapacityReservationPreference::CapacityReservationsOnly,
            id: Some(reserved.id.as_str().into()),
        },
        None => CapacityReservationTarget { preference: CapacityReservationPreference::None, id: None },
    }
}

fn market(reserved: &Reserved) -> Option<MarketType> {
    match reserved.kind {
        ReservedKind::Default => None,
        ReservedKind::CapacityBlock => Some(MarketType::CapacityBlock),
        ReservedKind::Interruptible => Some(MarketType::InterruptibleCapacityReservation),
    }
}

fn block_devices(mappings: Option<&[BlockDeviceMapping]>, family: AmiFamily) -> Vec<BlockDevice> {
    if let Some(mappings) = mappings.filter(|mappings| !mappings.is_empty()) {
        return mappings
            .iter()
            .map(|mapping| BlockDevice {
                device: mapping.device_name.clone(),
                ebs: mapping.ebs.as_ref().map(volume),
            })
            .collect();
    }
    family
        .default_disks()
        .iter()
        .map(|disk| BlockDevice {
            device: Some(disk.device.to_owned()),
            ebs: Some(EbsVolume {
                delete_on_termination: None,
                encrypted: Some(true),
                size_gib: Some(disk.gib),
                volume_type: Some("gp3".to_owned()),
                ..EbsVolume::default()
            }),
        })
        .collect()
}

fn volume(disk: &ClassDevice) -> EbsVolume {
    // Zero means "not set" for EC2's rates, which refuses an explicit 0.
    let rate =
        |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0);
    EbsVolume {
        delete_on_termination: disk.delete_on_termination,
        encrypted: disk.encrypted,
        kms_key: disk.kms_key_id.clone(),
        iops: rate(disk.iops),
        throughput: rate(disk.throughput),
        initialization_rate: rate(disk.volume_initialization_rate.map(i64::from)),
        snapshot: disk.snapshot_id.clone(),
        size_gib: disk.gib(),
        volume_type: disk.volume_type.map(|kind| kind.as_str().to_owned()),
    }
}

fn metadata(options: Option<&ClassMetadata>, ipv6: bool, region: &str) -> MetadataOptions {
    let ipv6_protocol = |value: Option<String>| value.filter(|_| !NO_METADATA_IPV6.contains(&region));
    match options {
        Some(options) => MetadataOptions {
            http_endpoint: options.http_endpoint.map(|toggle| toggle.as_str().to_owned()),
            http_protocol_ipv6: ipv6_protocol(
                options.http_protocol_ipv6.map(|toggle| toggle.as_str().to_owned()),
            ),
            http_put_response_hop_limit: options
                .http_put_response_hop_limit
                .and_then(|hops| u32::try_from(hops).ok()),
            http_tokens: options.http_tokens.map(|state| state.as_str().to_owned()),
            instance_metadata_tags: Some("disabled".to_owned()),
        },
        // Only objects that never went through the API server's defaulting get here.
        None => MetadataOptions {
            http_endpoint: Some("disabled".to_owned()),
            http_protocol_ipv6: ipv6_protocol(Some(if ipv6 { "enabled" } else { "disabled" }.to_owned())),
            http_put_response_hop_limit: Some(2),
            http_tokens: Some("required".to_owned()),
            instance_metadata_tags: Some("disabled".to_owned()),
        },
    }
}

/// Interfaces of the template, without subnets (spec aws-provider 5.6).
pub fn network_interfaces(inputs: &Inputs<'_>) -> Vec<NetworkInterface> {
    let plain = full_interface(inputs);
    match inputs.spec.network_interfaces.as_deref() {
        Some(interfaces) if !interfaces.is_empty() => interfaces
            .iter()
            .map(|interface| {
                let efa_only = interface.interface_type == InterfaceType::EfaOnly;
                // EFA-only interfaces have no addresses, but they do have security groups.
                let base = if efa_only {
                    NetworkInterface { security_groups: plain.security_groups.clone(), ..Default::default() }
                } else {
                    plain.clone()
                };
                NetworkInterface {
                    card: u32::try_from(interface.network_card_index).ok(),
                    device: u32::try_from(interface.device_index).unwrap_or_default(),
                    kind: Some(if efa_only { InterfaceKind::EfaOnly } else { InterfaceKind::Interface }),
                    ..base
                }
            })
            .collect(),
        _ if !inputs.adapters.is_empty() => inputs
            .adapters
            .iter()
            .map(|slot| NetworkInterface {
                card: Some(slot.card),
                device: slot.device,
                kind: Some(if slot.adapter { InterfaceKind::Efa } else { InterfaceKind::Interface }),
                ..plain.clone()
            })
            .collect(),
        _ => vec![plain],
    }
}

fn full_interface(inputs: &Inputs<'_>) -> NetworkInterface {
    let spec = inputs.spec;
    let prefixes = spec.ip_prefix_count.and_then(|count| u32::try_from(count).ok());
    let seconds = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok());
    NetworkInterface {
        card: None,
        device: 0,
        kind: None,
        security_groups: inputs.security_groups.clone(),
        associate_public_ip: spec.associate_public_ip_address,
        ipv4_prefixes: prefixes.filter(|_| !inputs.ipv6),
        ipv6_prefixes: prefixes.filter(|_| inputs.ipv6),
        ipv6_addresses: inputs.ipv6.then_some(1),
        primary_ipv6: inputs.ipv6.then_some(true),
        connection_tracking: spec.connection_tracking.as_ref().map(|tracking| ConnectionTracking {
            tcp_established: seconds(tracking.tcp_established_timeout),
            udp_stream: seconds(tracking.udp_stream_timeout),
            udp: seconds(tracking.udp_timeout),
        }),
    }
}

#[cfg(test)]
mod tests;
