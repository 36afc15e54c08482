//! The drift hash of an EC2NodeClass, version `v5` (spec aws-provider 1.8).
//!
//! Leaves out selectors and the AMI family field, which drift by what they resolve to, and
//! `ipPrefixCount`, which never drifts a node.

use karpenter_model::Quantity;

use crate::duration::Duration;
use crate::hash::{Struct, boolean, duration, int32, int64, list, map, map_of, text};

use super::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClass, Ec2NodeClassSpec,
    KubeletConfiguration, MetadataOptions, NetworkInterface, PlacementGroupSelector, Toggle, TokenState,
};

#[cfg(test)]
mod tests;

/// Version of the algorithm, written next to the hash.
pub const HASH_VERSION: &str = "v5";

impl EC2NodeClass {
    /// The decimal text stored in [`karpenter_model::names::annotation::aws::EC2_NODE_CLASS_HASH`].
    ///
    /// `ca_bundle` is the cluster's CA bundle as configured (base64), empty if there is none.
    pub fn hash(&self, ca_bundle: &str) -> String {
        let family = self.spec.resolved_family().map_or("", super::AmiFamily::as_str);
        (spec(&self.spec) ^ text(family) ^ text(ca_bundle)).to_string()
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
        .field("Kubelet", s.kubelet.as_ref().map(kubelet))
        .field("BlockDeviceMappings", s.block_device_mappings.as_ref().map(|l| list(l, block_device_mapping)))
        .field("InstanceStorePolicy", s.instance_store_policy.map(|p| text(p.as_str())))
        .field("NetworkInterfaces", s.network_interfaces.as_ref().map(|l| list(l, network_interface)))
        .field("DetailedMonitoring", s.detailed_monitoring.map(boolean))
        .field("MetadataOptions", s.metadata_options.as_ref().map(metadata_options))
        .field("ConnectionTracking", s.connection_tracking.as_ref().map(connection_tracking))
        .field("Context", s.context.as_deref().map(text))
        .field("CPUOptions", s.cpu_options.as_ref().map(cpu_options))
        .value()
}

fn placement_group(p: &PlacementGroupSelector) -> u64 {
    Struct::new("PlacementGroupSelector")
        .field("Name", p.name.as_deref().map(text))
        .field("ID", p.id.as_deref().map(text))
        .value()
}

fn kubelet(k: &KubeletConfiguration) -> u64 {
    // A duration that cannot be read counts as zero: it never got past the API server.
    let grace = |d: &Duration| duration("Duration", d.span().unwrap_or_default());
    Struct::new("KubeletConfiguration")
        .field("ClusterDNS", k.cluster_dns.as_ref().map(|l| list(l, |s| text(s))))
        .field("MaxPods", k.max_pods.map(int32))
        .field("PodsPerCore", k.pods_per_core.map(int32))
        .field("SystemReserved", k.system_reserved.as_ref().map(map))
        .field("KubeReserved", k.kube_reserved.as_ref().map(map))
        .field("EvictionHard", k.eviction_hard.as_ref().map(map))
        .field("EvictionSoft", k.eviction_soft.as_ref().map(map))
        .field("EvictionSoftGracePeriod", k.eviction_soft_grace_period.as_ref().map(|m| map_of(m, grace)))
        .field("EvictionMaxPodGracePeriod", k.eviction_max_pod_grace_period.map(int32))
        .field("ImageGCHighThresholdPercent", k.image_gc_high_threshold_percent.map(int32))
        .field("ImageGCLowThresholdPercent", k.image_gc_low_threshold_percent.map(int32))
        .field("CPUCFSQuota", k.cpu_cfs_quota.map(boolean))
        .value()
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

/// Sizes are hashed as canonical quantities, `1024Gi` as `1Ti`; what is none is hashed as written.
fn canonical_size(written: &str) -> String {
    written.parse::<Quantity>().map_or_else(|_| written.to_owned(), |size| size.to_string())
}
