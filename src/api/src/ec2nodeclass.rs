//! EC2NodeClass, `karpenter.k8s.aws/v1`: how machines are made on EC2 (spec aws-provider 1).
//!
//! Absent, empty and zero are three different things in most fields, because the drift hash tells them
//! apart (spec aws-provider 1.8); hence the many `Option`s around maps, lists and booleans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::resource::custom_resource;

mod device;
mod hash;
mod kubelet;
mod network;
mod selector;
mod status;

pub use device::{BlockDevice, BlockDeviceMapping, InstanceStorePolicy, VolumeType};
pub use hash::HASH_VERSION;
pub use kubelet::{KubeletBlock, KubeletConfiguration, Place, Program, Variables};
pub use network::{ConnectionTracking, InterfaceType, MetadataOptions, NetworkInterface, Toggle, TokenState};
pub use selector::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, ReservationMatch,
    SecurityGroupSelectorTerm, SubnetSelectorTerm, TagSelector,
};
pub use status::{
    Ami, CapacityReservation, Ec2NodeClassStatus, ReservationState, ReservationType, SecurityGroup, Subnet,
};

custom_resource! {
    /// A recipe for EC2 instances.
    EC2NodeClass { spec: Ec2NodeClassSpec, status: Ec2NodeClassStatus }
    group: "karpenter.k8s.aws", version: "v1", plural: "ec2nodeclasses"
}

/// `spec` of an EC2NodeClass, set by the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ec2NodeClassSpec {
    /// Terms are alternatives; the parts of one term must all hold. The same goes for every selector.
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Unset lets the subnet decide.
    #[serde(rename = "associatePublicIPAddress", skip_serializing_if = "Option::is_none")]
    pub associate_public_ip_address: Option<bool>,
    /// Number of /28 prefixes for the primary interface; editing it never drifts nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_prefix_count: Option<i32>,
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Unset means the family of the alias term.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Name of the node role; exclusive with `instanceProfile`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletBlock>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Always present on objects that went through the API server, which fills the defaults in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Reserved field of the EC2 fleet API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
}

/// The operating system family, which decides user data and default volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AmiFamily {
    AL2,
    AL2023,
    Bottlerocket,
    Custom,
    Windows2019,
    Windows2022,
    Windows2025,
}

impl AmiFamily {
    /// Every family, in the order of the schema.
    pub const ALL: [Self; 7] = [
        Self::AL2,
        Self::AL2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AL2 => "AL2",
            Self::AL2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// The family an alias such as `al2023@latest` stands for; `None` for `Custom` and unknown words.
    pub fn from_alias(family: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| *f != Self::Custom && f.as_str().to_ascii_lowercase() == family)
    }
}

/// Processor features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nested_virtualization: Option<Toggle>,
}

/// Nitro Enclaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnclaveOptions {
    /// True if instances may run enclaves; only some types can.
    #[serde(default)]
    pub enabled: bool,
}

impl Ec2NodeClassSpec {
    /// Returns whether instances are to run enclaves.
    pub fn runs_enclaves(&self) -> bool {
        self.enclave_options.is_some_and(|options| options.enabled)
    }

    /// Returns whether EC2 refuses every launch because it gives no public address by request to instances with several
    /// network interfaces (aws PR#5666).
    pub fn gives_no_public_address(&self) -> bool {
        let several = self.network_interfaces.as_ref().is_some_and(|interfaces| interfaces.len() > 1);
        several && self.associate_public_ip_address == Some(true)
    }

    /// The alias term split at its `@`, for example `("al2023", "latest")`.
    pub fn alias(&self) -> Option<(&str, &str)> {
        self.ami_selector_terms.iter().find_map(|term| term.alias.as_deref()?.split_once('@'))
    }

    /// The family in effect: the field if set, else that of the alias (spec aws-provider 1.2).
    pub fn resolved_family(&self) -> Option<AmiFamily> {
        self.ami_family.or_else(|| AmiFamily::from_alias(self.alias()?.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_comes_from_the_field_then_from_the_alias() {
        let mut spec = Ec2NodeClassSpec {
            ami_selector_terms: vec![AmiSelectorTerm {
                alias: Some("bottlerocket@1.2.3".into()),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(spec.alias(), Some(("bottlerocket", "1.2.3")));
        assert_eq!(spec.resolved_family(), Some(AmiFamily::Bottlerocket));
        spec.ami_family = Some(AmiFamily::Custom);
        assert_eq!(spec.resolved_family(), Some(AmiFamily::Custom));
        assert_eq!(AmiFamily::from_alias("custom"), None);
        assert_eq!(AmiFamily::from_alias("AL2"), None, "aliases are lower case");
    }
}
