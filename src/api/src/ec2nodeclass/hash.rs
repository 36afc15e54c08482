//! The drift hash of an EC2NodeClass, version `v6` (spec aws-provider 1.8).
//!
//! Leaves out selectors and the AMI family field, which drift by what they resolve to, and
//! `ipPrefixCount`, which never drifts a node. The kubelet block counts as the text of its JSON.

use std::collections::BTreeMap;

use karpenter_model::Quantity;
use serde_json::Value;

use crate::hash::{Struct, boolean, int32, int64, list, map, text};

use super::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClass, Ec2NodeClassSpec,
    KubeletBlock, MetadataOptions, NetworkInterface, PlacementGroupSelector, Toggle, TokenState,
};

#[cfg(test)]
mod tests;

/// Version of the algorithm, written next to the hash.
pub const HASH_VERSION: &str = "v6";

impl EC2NodeClass {
    /// The decimal text stored in [`karpenter_model::names::annotation::aws::EC2_NODE_CLASS_HASH`].
    ///
    /// `ca_bundle` is the cluster's CA bundle as configured (base64), empty if there is none.
    pub fn hash(&self, ca_bundle: &str) -> String {
        let family = self.spec.resolved_family().map_or("", super::AmiFamily::as_str);
        (spec(&self.spec) ^ text(family) ^ text(ca_bundle) ^ text(&kubelet(&self.spec))).to_string()
    }
}

fn spec(s: &Ec2NodeClassSpec) -> u64 {
    Struct::new("EC2NodeClassSpec")
        .field("PlacementGroupSelector", s.placement_group_selector.as_ref().map(placement_group))
        .field("AssociatePublicIPAddress", s.associate_public_ip_address.map(boolean))
        .field("UserData", s.user_data.as_deref().map(text))
        .text("Role", s.role.as_deref().unwrap_or_default())
        .field("InstanceProfile", s.instance_profile.as_deref().map(text))
        .field("Tags", s.tags.as_ref().map(map))
        .field("BlockDeviceMappings", s.block_device_mappings.as_ref().map(|l| list(l, block_device_mapping)))
        .field("InstanceStorePolicy", s.instance_store_policy.map(|p| text(p.as_str())))
        .field("NetworkInterfaces", s.network_interfaces.as_ref().map(|l| list(l, network_interface)))
        .field("DetailedMonitoring", s.detailed_monitoring.map(boolean))
        .field("MetadataOptions", s.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", s.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", s.context.as_deref().map(text))
        .field("CPUOptions", s.cpu_options.as_ref().map(cpu_options))
        .field("EnclaveOptions", s.runs_enclaves().then(enclave_options))
        .value()
}

fn placement_group(p: &PlacementGroupSelector) -> u64 {
    Struct::new("PlacementGroupSelector")
        .field("Name", p.name.as_deref().map(text))
        .field("ID", p.id.as_deref().map(text))
        .value()
}

/// The block as JSON text, `null` when it sets nothing.
fn kubelet(s: &Ec2NodeClassSpec) -> String {
    let fields = s.kubelet.as_ref().map(KubeletBlock::fields).filter(|fields| !fields.is_empty());
    fields.map_or_else(|| canonical(&Value::Null), |fields| canonical(&Value::Object(fields.clone())))
}

/// JSON without spaces, keys in order of their bytes, escaped as the reference's encoder escapes: what HTML or JavaScript
/// gives a meaning is a number.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let pair = |(key, value): (&String, &Value)| format!("{}:{}", quoted(key), canonical(value));
            format!("{{{}}}", sorted.into_iter().map(pair).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    let escaped = json.chars().map(|one| match one {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(one)),
        one => one.to_string(),
    });
    escaped.collect()
}

fn block_device_mapping(b: &BlockDeviceMapping) -> u64 {
    Struct::new("BlockDeviceMapping")
        .field("DeviceName", b.device_name.as_deref().map(text))
        .field("EBS", b.ebs.as_ref().map(block_device))
        .field("RootVolume", b.root_volume.then(|| boolean(true)))
        .value()
}

fn block_device(b: &BlockDevice) -> u64 {
    Struct::new("BlockDevice")
        .field("DeleteOnTermination", b.delete_on_termination.map(boolean))
        .field("Encrypted", b.encrypted.map(boolean))
        .field("IOPS", b.iops.map(int64))
        .field("KMSKeyID", b.kms_key_id.as_deref().map(text))
        .field("SnapshotID", b.snapshot_id.as_deref().map(text))
        .field("Throughput", b.throughput.map(int64))
        .field("VolumeInitializationRate", b.volume_initialization_rate.map(int32))
        .field("VolumeSize", b.volume_size.as_deref().map(|size| text(&canonical_size(size))))
        .field("VolumeType", b.volume_type.map(|t| text(t.as_str())))
        .value()
}

fn network_interface(n: &NetworkInterface) -> u64 {
    let non_zero = |value: i32| (value != 0).then(|| int32(value));
    Struct::new("NetworkInterface")
        .field("NetworkCardIndex", non_zero(n.network_card_index))
        .field("DeviceIndex", non_zero(n.device_index))
        .text("InterfaceType", n.interface_type.as_str())
        .value()
}

fn metadata_options(m: &MetadataOptions) -> u64 {
    let toggle = |t: Toggle| text(t.as_str());
    Struct::new("MetadataOptions")
        .field("HTTPEndpoint", m.http_endpoint.map(toggle))
        .field("HTTPProtocolIPv6", m.http_protocol_ipv6.map(toggle))
        .field("HTTPPutResponseHopLimit", m.http_put_response_hop_limit.map(int64))
        .field("HTTPTokens", m.http_tokens.map(|t: TokenState| text(t.as_str())))
        .value()
}

fn connection_tracking(c: &ConnectionTracking) -> u64 {
    Struct::new("ConnectionTracking")
        .field("TCPEstablishedTimeout", c.tcp_established_timeout.map(int32))
        .field("UDPStreamTimeout", c.udp_stream_timeout.map(int32))
        .field("UDPTimeout", c.udp_timeout.map(int32))
        .value()
}

fn cpu_options(c: &CpuOptions) -> u64 {
    Struct::new("CPUOptions")
        .field("NestedVirtualization", c.nested_virtualization.map(|t| text(t.as_str())))
        .value()
}

/// Off is the same as absent: writing it down drifts no node.
fn enclave_options() -> u64 {
    Struct::new("EnclaveOptions").field("Enabled", Some(boolean(true))).value()
}

/// Sizes are hashed as canonical quantities, `1024Gi` as `1Ti`; what is none is hashed as written.
fn canonical_size(written: &str) -> String {
    written.parse::<Quantity>().map_or_else(|_| written.to_owned(), |size| size.to_string())
}
