//! `RunInstances`, dry run only: checks that a node class could be launched (spec aws-provider 12.2).

use crate::ec2::{BlockDevice, MetadataOptions, NetworkInterface, TagSpecification};
use crate::id::{InstanceType, SubnetId};

/// A launch to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInstancesRequest {
    /// Template name; the version is always the latest.
    pub launch_template: String,
    pub instance_type: InstanceType,
    /// Interfaces with their subnet; they replace the template's.
    pub interfaces: Vec<RunInterface>,
    /// Tags for `instance`, `volume` and `network-interface`.
    pub tags: Vec<TagSpecification>,
    /// Options of the template again: a policy may look at the request alone.
    pub metadata: Option<MetadataOptions>,
    /// Volumes of the template again.
    pub block_devices: Vec<BlockDevice>,
    /// Bought as spot.
    pub spot: bool,
}

/// A network interface in a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInterface {
    pub subnet: SubnetId,
    /// Everything else.
    pub interface: NetworkInterface,
}
