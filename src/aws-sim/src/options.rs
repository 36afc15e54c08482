//! Options of an account at its start.

use std::collections::BTreeMap;
use std::time::Duration;

/// Properties of a new account. `Default` is a quiet one: everything works, instances boot in ten seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Region, `us-west-2` by default.
    pub region: String,
    /// Twelve digits.
    pub account: String,
    /// Number of availability zones, 1 to 6.
    pub zones: u8,
    /// Instance types the region sells.
    pub instance_types: Range,
    /// Name of the EKS cluster that exists; its discovery tag is on subnets and security group.
    pub cluster: String,
    /// Kubernetes minor version of the cluster and of the published images, `1.33`.
    pub kubernetes_version: String,
    /// Free addresses of each subnet at the start.
    pub addresses_per_subnet: u32,
    /// Time from launch to `running`.
    pub boot_delay: Duration,
    /// Time from `shutting-down` to `terminated`.
    pub shutdown_delay: Duration,
    /// Time for which a new instance stays invisible to `DescribeInstances`.
    pub invisible_for: Duration,
    /// Time for which EC2 does not find a new instance profile.
    pub profile_propagation: Duration,
    /// Time from a spot interruption warning to the end of the instance; two minutes in AWS.
    pub spot_notice: Duration,
    /// The spot service-linked role exists from the start.
    pub spot_service_linked_role: bool,
    /// Instances may only be launched with instance profiles that exist.
    pub check_instance_profiles: bool,
    /// Offerings a fleet tries before it answers the rest with `UnfulfillableCapacity`; EC2 tries three. `None` is all of
    /// them, so that one launch finds out what can be had.
    pub offerings_tried: Option<usize>,
    /// Limits of the account.
    pub quotas: Quotas,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            region: "us-west-2".to_owned(),
            account: "123456789012".to_owned(),
            zones: 4,
            instance_types: Range::Usual,
            cluster: "demo".to_owned(),
            kubernetes_version: "1.33".to_owned(),
            addresses_per_subnet: 16_379,
            boot_delay: Duration::from_secs(10),
            shutdown_delay: Duration::from_secs(30),
            invisible_for: Duration::ZERO,
            profile_propagation: Duration::ZERO,
            spot_notice: Duration::from_mins(2),
            spot_service_linked_role: true,
            check_instance_profiles: true,
            offerings_tried: None,
            quotas: Quotas::default(),
        }
    }
}

/// Instance types that a region sells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// Some hundred of the common families, with gaps between the zones.
    #[default]
    Usual,
    /// This number of types. Those beyond the usual ones are later generations of them.
    Count(usize),
    /// Every type of the largest region, in every zone.
    Published {
        /// On-demand prices by type, in billionths of a dollar per hour; a type without one has no spot price either.
        on_demand: BTreeMap<String, u64>,
    },
}

/// Limits of the account; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// vCPUs of running on-demand instances: `VcpuLimitExceeded`.
    pub on_demand_vcpus: Option<u32>,
    /// vCPUs of running spot instances: `MaxSpotInstanceCountExceeded`.
    pub spot_vcpus: Option<u32>,
    /// Fleets with live instances: `MaxFleetCountExceeded`.
    pub fleets: Option<u32>,
}
