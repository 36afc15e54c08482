//! Volumes of the instances of an EC2NodeClass (spec aws-provider 1.5).

use karpenter_model::Quantity;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDeviceMapping {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<BlockDevice>,
    /// Marks the volume behind kubelet's root directory; at most one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub root_volume: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockDevice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    /// MiB per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    /// MiB per second at which a volume is filled from its snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_initialization_rate: Option<i32>,
    /// Quantity text in `Gi`, `G`, `Ti` or `T`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<VolumeType>,
}

impl BlockDevice {
    /// Size in whole GiB, rounded up: `2G` is 2, `20G` is 19, `100Gi` is 100.
    pub fn gib(&self) -> Option<u32> {
        let bytes = self.volume_size.as_deref()?.parse::<Quantity>().ok()?.as_units_ceil();
        u32::try_from(u64::try_from(bytes).ok()?.div_ceil(1 << 30)).ok()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeType {
    Standard,
    Io1,
    Io2,
    Gp2,
    Sc1,
    St1,
    Gp3,
}

impl VolumeType {
    /// Every type, in the order of the schema.
    pub const ALL: [Self; 7] =
        [Self::Standard, Self::Io1, Self::Io2, Self::Gp2, Self::Sc1, Self::St1, Self::Gp3];

    /// The name on the wire and in EC2.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Io1 => "io1",
            Self::Io2 => "io2",
            Self::Gp2 => "gp2",
            Self::Sc1 => "sc1",
            Self::St1 => "st1",
            Self::Gp3 => "gp3",
        }
    }
}

/// Use of local disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum InstanceStorePolicy {
    RAID0,
}

impl InstanceStorePolicy {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RAID0 => "RAID0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_gib_rounded_up() {
        let of = |size: &str| BlockDevice { volume_size: Some(size.to_owned()), ..Default::default() }.gib();
        for (size, expected) in [("2G", 2), ("20G", 19), ("100Gi", 100), ("1T", 932), ("1Ti", 1024)] {
            assert_eq!(of(size), Some(expected), "{size}");
        }
        assert_eq!(of("large"), None);
    }
}
