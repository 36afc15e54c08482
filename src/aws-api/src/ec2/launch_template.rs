//! Launch templates: everything about an instance that is not its type, its subnet or its price
//! (spec aws-provider 5.5, 5.6).

use jiff::Timestamp;
use serde::Serialize;

use crate::id::{ImageId, LaunchTemplateId, PlacementGroupId, ReservationId, SecurityGroupId};
use crate::{Filter, Secret, Tags};

/// A launch template to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTemplateSpec {
    /// Unique in account and region, up to 128 characters.
    pub name: String,
    /// Makes the call repeatable: the same token and content return the template already created.
    pub client_token: Option<String>,
    /// Tags of the template itself.
    pub tags: Tags,
    /// Settings of the instances.
    pub data: LaunchTemplateData,
}

/// Settings of instances launched from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LaunchTemplateData {
    pub image: Option<ImageId>,
    /// Script or configuration, **not** encoded: the backend does the base64.
    #[serde(skip)]
    pub user_data: Option<Secret>,
    /// Name of the instance profile.
    pub instance_profile: Option<String>,
    pub detailed_monitoring: Option<bool>,
    /// Optimised EBS.
    pub ebs_optimized: Option<bool>,
    /// Volumes; empty leaves the image's own.
    pub block_devices: Vec<BlockDevice>,
    /// Instance metadata service.
    pub metadata: Option<MetadataOptions>,
    /// Interfaces. Security groups are set here, never at the top level.
    pub network_interfaces: Vec<NetworkInterface>,
    /// Tags of what a launch creates.
    pub tags: Vec<TagSpecification>,
    /// Tenancy and placement group.
    pub placement: Option<Placement>,
    /// Nitro Enclaves.
    pub enclave: Option<bool>,
    /// `enabled` or `disabled`.
    pub nested_virtualization: Option<String>,
    /// Capacity reservations that may be used.
    pub capacity_reservation: Option<CapacityReservationTarget>,
    /// Purchase option other than plain spot or on-demand.
    pub market: Option<MarketType>,
}

/// One volume of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockDevice {
    /// `/dev/xvda`
    pub device: Option<String>,
    pub ebs: Option<EbsVolume>,
}

/// An EBS volume to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EbsVolume {
    /// Goes away with the instance.
    pub delete_on_termination: Option<bool>,
    /// Encrypted at rest.
    pub encrypted: Option<bool>,
    /// Key for it, id or ARN.
    pub kms_key: Option<String>,
    /// Operations per second.
    pub iops: Option<u32>,
    /// MiB/s.
    pub throughput: Option<u32>,
    /// MiB/s while filling from the snapshot, 100 to 300.
    pub initialization_rate: Option<u32>,
    /// Source snapshot.
    pub snapshot: Option<String>,
    /// Whole GiB.
    pub size_gib: Option<u32>,
    /// `gp3`, `io2`, ...
    pub volume_type: Option<String>,
}

/// Instance metadata service of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MetadataOptions {
    /// `enabled` or `disabled`
    pub http_endpoint: Option<String>,
    /// `enabled` or `disabled`
    pub http_protocol_ipv6: Option<String>,
    /// 1 to 64
    pub http_put_response_hop_limit: Option<u32>,
    /// `required` or `optional`
    pub http_tokens: Option<String>,
    /// `enabled` or `disabled`
    pub instance_metadata_tags: Option<String>,
}

/// One network interface of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkInterface {
    /// Network card; `None` leaves AWS's default 0.
    pub card: Option<u32>,
    /// Device on the card.
    pub device: u32,
    pub kind: Option<InterfaceKind>,
    pub security_groups: Vec<SecurityGroupId>,
    /// Public IPv4 address; `None` leaves the subnet's setting.
    pub associate_public_ip: Option<bool>,
    pub ipv4_prefixes: Option<u32>,
    pub ipv6_prefixes: Option<u32>,
    pub ipv6_addresses: Option<u32>,
    /// First IPv6 address stays for life.
    pub primary_ipv6: Option<bool>,
    /// Idle timeouts.
    pub connection_tracking: Option<ConnectionTracking>,
}

/// Kind of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// Plain.
    Interface,
    /// Elastic fabric adapter with IP.
    Efa,
    /// Elastic fabric adapter without IP.
    EfaOnly,
}

impl InterfaceKind {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interface => "interface",
            Self::Efa => "efa",
            Self::EfaOnly => "efa-only",
        }
    }
}

/// Idle timeouts of tracked connections, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionTracking {
    /// 60 to 432,000
    pub tcp_established: Option<u32>,
    /// 60 to 180
    pub udp_stream: Option<u32>,
    /// 30 to 60
    pub udp: Option<u32>,
}

/// Tags for one kind of resource that a launch creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagSpecification {
    /// Kind of resource.
    pub kind: TaggedKind,
    pub tags: Tags,
}

/// Kinds of resources a launch can tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaggedKind {
    Instance,
    Volume,
    NetworkInterface,
    SpotInstancesRequest,
    Fleet,
    LaunchTemplate,
}

impl TaggedKind {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Volume => "volume",
            Self::NetworkInterface => "network-interface",
            Self::SpotInstancesRequest => "spot-instances-request",
            Self::Fleet => "fleet",
            Self::LaunchTemplate => "launch-template",
        }
    }
}

/// Tenancy and placement group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Shared or dedicated hardware.
    pub tenancy: Option<Tenancy>,
    pub group: Option<PlacementGroupId>,
    /// Partition of it, from 1.
    pub partition: Option<u32>,
}

/// Sharing of the hardware with other instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tenancy {
    /// Any account.
    #[default]
    Default,
    /// Only this account.
    Dedicated,
    /// A host of ours. Never launched by this product, but seen on others' instances.
    Host,
}

impl Tenancy {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Dedicated => "dedicated",
            Self::Host => "host",
        }
    }
}

/// Capacity reservations that a launch may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CapacityReservationTarget {
    /// Open ones, none, or only the target.
    pub preference: CapacityReservationPreference,
    /// The reservation, for `CapacityReservationsOnly`.
    pub id: Option<ReservationId>,
}

/// Preference of a launch, or of a running instance, for capacity reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityReservationPreference {
    /// `open`: any open one that fits.
    Open,
    /// `none`: no reservation at all.
    None,
    /// `capacity-reservations-only`: the target, or fail.
    CapacityReservationsOnly,
}

impl CapacityReservationPreference {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::None => "none",
            Self::CapacityReservationsOnly => "capacity-reservations-only",
        }
    }
}

/// Purchase options a template must name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarketType {
    Spot,
    CapacityBlock,
    InterruptibleCapacityReservation,
}

impl MarketType {
    /// EC2's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::CapacityBlock => "capacity-block",
            Self::InterruptibleCapacityReservation => "interruptible-capacity-reservation",
        }
    }
}

/// Query of launch templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchTemplateQuery {
    /// Names to look for; one that does not exist fails the call.
    pub names: Vec<String>,
    /// All of these filters.
    pub filters: Vec<Filter>,
}

/// A launch template that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchTemplate {
    /// `lt-...`
    pub id: LaunchTemplateId,
    pub name: String,
    /// Newest version.
    pub latest_version: u64,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Tags of the template itself.
    pub tags: Tags,
}
