//! Decisions of an AMI family: kubelet defaults, pod density, default disks.
//!
//! A family is written in `spec.amiFamily` or implied by an alias (spec aws-provider 3.4, 3.6, 6.6).

use karpenter_api::ec2nodeclass::{AmiFamily, Ec2NodeClassSpec};

/// One default disk of a family: encrypted gp3, deleted with its instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DefaultDisk {
    pub device: &'static str,
    /// Size in GiB.
    pub gib: u32,
}

/// Decisions of a family. A trait only because the enum belongs to the API crate.
pub(crate) trait FamilyTraits: Copy {
    /// Returns whether nodes run Windows.
    fn windows(self) -> bool;
    /// Value of the `node.kubernetes.io/windows-build` label.
    fn windows_build(self) -> Option<&'static str>;
    /// Returns whether kube-reserved memory follows the ENI density even when `maxPods` differs.
    fn reserves_for_eni_pods(self) -> bool;
    /// Returns whether `podsPerCore` is honoured.
    fn honours_pods_per_core(self) -> bool;
    /// Returns whether the default pod count is limited by network interfaces; otherwise it is 110.
    fn eni_limited(self) -> bool;
    /// The device that backs pods' ephemeral storage.
    fn ephemeral_device(self) -> Option<&'static str>;
    /// Disks of an instance whose `NodeClass` names none.
    fn default_disks(self) -> &'static [DefaultDisk];
}

/// The family in effect; AL2 when neither a field nor an alias names one, as it has always been (spec aws-provider 3.4).
pub fn family_of(spec: &Ec2NodeClassSpec) -> AmiFamily {
    spec.resolved_family().unwrap_or(AmiFamily::AL2)
}

impl FamilyTraits for AmiFamily {
    fn windows(self) -> bool {
        self.windows_build().is_some()
    }

    fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            Self::AL2 | Self::AL2023 | Self::Bottlerocket | Self::Custom => None,
        }
    }

    fn reserves_for_eni_pods(self) -> bool {
        matches!(self, Self::AL2 | Self::AL2023 | Self::Custom)
    }

    fn honours_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    fn eni_limited(self) -> bool {
        !self.windows()
    }

    fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::AL2 | Self::AL2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    fn default_disks(self) -> &'static [DefaultDisk] {
        match self {
            Self::AL2 | Self::AL2023 => &[DefaultDisk { device: "/dev/xvda", gib: 20 }],
            Self::Bottlerocket => {
                &[DefaultDisk { device: "/dev/xvda", gib: 4 }, DefaultDisk { device: "/dev/xvdb", gib: 20 }]
            }
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => {
                &[DefaultDisk { device: "/dev/sda1", gib: 50 }]
            }
            Self::Custom => &[],
        }
    }
}
