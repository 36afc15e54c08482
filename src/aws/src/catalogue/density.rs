//! Number of pods on a node (spec aws-provider 3.4).

use karpenter_api::ec2nodeclass::{AmiFamily, KubeletConfiguration};

use crate::image::family::FamilyTraits;

/// Pods of a node whose family is not limited by network interfaces.
const UNLIMITED: u32 = 110;

/// The network facts the count depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interfaces {
    /// Interfaces of the default network card.
    pub count: u32,
    /// IPv4 addresses of one interface, the primary included.
    pub ipv4_each: u32,
    /// Interfaces of card 0 that the `NodeClass` uses for EFA traffic only; they carry no pod addresses.
    pub efa_only_on_card_0: u32,
}

impl Interfaces {
    /// Pods the VPC CNI can give an address to: every secondary address, plus two pods on the host network.
    ///
    /// Prefix delegation is not counted; clusters that use it set `maxPods`.
    pub fn pods(self, reserved: u32) -> u32 {
        let usable = self.count.saturating_sub(reserved).saturating_sub(self.efa_only_on_card_0);
        if usable == 0 { 0 } else { usable * self.ipv4_each.saturating_sub(1) + 2 }
    }
}

/// The node's pod capacity.
pub fn pods(
    family: AmiFamily,
    kubelet: Option<&KubeletConfiguration>,
    vcpus: u32,
    interfaces: Interfaces,
    reserved_interfaces: u32,
) -> u32 {
    let asked = kubelet.and_then(|kubelet| kubelet.max_pods).and_then(|pods| u32::try_from(pods).ok());
    let count = match asked {
        Some(pods) => pods,
        None if family.eni_limited() => interfaces.pods(reserved_interfaces),
        // The default of the kubelet.
        None => UNLIMITED,
    };
    let per_core =
        kubelet.and_then(|kubelet| kubelet.pods_per_core).and_then(|pods| u32::try_from(pods).ok());
    // Zero means no limit for the kubelet; Bottlerocket has no such setting.
    match per_core.filter(|pods| *pods > 0 && family.honours_pods_per_core()) {
        Some(pods) => count.min(pods.saturating_mul(vcpus)),
        None => count,
    }
}

/// The pod count kube-reserved memory is computed from: the density of the network, whatever `maxPods` is, for
/// Amazon Linux and custom images, the real count for the others (spec aws-provider 3.5).
pub(crate) fn pods_reserved_for(family: AmiFamily, interfaces: Interfaces, effective: u32) -> u32 {
    if family.reserves_for_eni_pods() { interfaces.pods(0) } else { effective }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T3_LARGE: Interfaces = Interfaces { count: 3, ipv4_each: 12, efa_only_on_card_0: 0 };
    const M6IDN: Interfaces = Interfaces { count: 8, ipv4_each: 50, efa_only_on_card_0: 0 };

    #[test]
    fn network_density_is_the_published_formula() {
        assert_eq!(T3_LARGE.pods(0), 35);
        assert_eq!(T3_LARGE.pods(1), 24);
        assert_eq!(T3_LARGE.pods(1_000_000), 0);
        assert_eq!(M6IDN.pods(0), 394);
        assert_eq!(Interfaces { efa_only_on_card_0: 1, ..M6IDN }.pods(0), 345);
        assert_eq!(Interfaces { count: 4, ipv4_each: 15, efa_only_on_card_0: 0 }.pods(0), 58);
    }

    #[test]
    fn kubelet_settings_and_family_decide_the_count() {
        let kubelet = |max_pods, pods_per_core| {
            Some(KubeletConfiguration { max_pods, pods_per_core, ..KubeletConfiguration::default() })
        };
        for (family, kubelet, reserved, expected) in [
            (AmiFamily::AL2023, None, 0, 35),
            (AmiFamily::AL2023, kubelet(Some(10), None), 0, 10),
            (AmiFamily::AL2023, kubelet(None, Some(4)), 0, 8),
            (AmiFamily::AL2023, kubelet(None, Some(0)), 0, 35),
            (AmiFamily::AL2023, kubelet(Some(0), None), 0, 0),
            (AmiFamily::Bottlerocket, kubelet(None, Some(4)), 0, 35),
            (AmiFamily::Bottlerocket, None, 1, 24),
            (AmiFamily::Windows2022, None, 1, 110),
            (AmiFamily::Windows2022, kubelet(None, Some(4)), 0, 8),
            (AmiFamily::Custom, kubelet(Some(20), Some(4)), 0, 8),
        ] {
            let count = pods(family, kubelet.as_ref(), 2, T3_LARGE, reserved);
            assert_eq!(count, expected, "{family:?} {kubelet:?} {reserved}");
        }
    }

    #[test]
    fn only_some_families_reserve_memory_for_the_network_density() {
        assert_eq!(pods_reserved_for(AmiFamily::AL2, T3_LARGE, 10), 35);
        assert_eq!(pods_reserved_for(AmiFamily::Bottlerocket, T3_LARGE, 10), 10);
        assert_eq!(pods_reserved_for(AmiFamily::Windows2019, T3_LARGE, 10), 10);
    }
}
