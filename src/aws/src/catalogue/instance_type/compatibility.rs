//! Compatibility of types with a `NodeClass` (spec aws-provider 3.8).
//!
//! An incompatible type is still listed, with all its offerings unavailable: a type that vanished from the
//! list would read as "this type no longer exists" and drift its nodes.

use karpenter_api::ec2nodeclass::{AmiFamily, Toggle};
use karpenter_aws_api::ec2::InstanceTypeInfo;

use crate::class::view::ClassView;

/// Reason why a type cannot be used with a `NodeClass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// Amazon Linux 2023 does not support the first Graviton generation.
    Family,
    /// The interfaces of the `NodeClass` do not fit the type's network cards.
    Network,
    /// The processor cannot virtualise inside a virtual machine.
    NestedVirtualization,
    /// Connection tracking settings need the Nitro hypervisor.
    ConnectionTracking,
    /// The type cannot run Nitro Enclaves.
    Enclaves,
    /// The type cannot be launched into groups with the strategy of the placement group.
    PlacementGroup,
}

/// `None` when the type can be used.
pub fn mismatch(info: &InstanceTypeInfo, view: &ClassView<'_>) -> Option<Mismatch> {
    let spec = &view.class.spec;
    if view.family == AmiFamily::AL2023 && info.name.as_str().starts_with("a1.") {
        return Some(Mismatch::Family);
    }
    if spec.network_interfaces.is_some() && !network_fits(info, view) {
        return Some(Mismatch::Network);
    }
    let nested = spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization);
    if nested == Some(Toggle::Enabled)
        && !info.processor_features.iter().any(|feature| feature == "nested-virtualization")
    {
        return Some(Mismatch::NestedVirtualization);
    }
    // Bare metal has an empty hypervisor and is left out with Xen, as in the reference (spec aws-provider
    // 3.8).
    if spec.connection_tracking.is_some() && info.hypervisor != "nitro" {
        return Some(Mismatch::ConnectionTracking);
    }
    if spec.runs_enclaves() && !info.nitro_enclaves {
        return Some(Mismatch::Enclaves);
    }
    let strategy = view.placement.as_ref().map(|group| group.strategy.as_str());
    if strategy.is_some_and(|strategy| !info.placement_strategies.iter().any(|known| known == strategy)) {
        return Some(Mismatch::PlacementGroup);
    }
    None
}

fn network_fits(info: &InstanceTypeInfo, view: &ClassView<'_>) -> bool {
    if info.network_cards.is_empty() || info.ena_support == "unsupported" {
        return false;
    }
    let interfaces = view.class.spec.network_interfaces.iter().flatten();
    let each_fits = interfaces.into_iter().all(|interface| {
        let card = u32::try_from(interface.network_card_index).ok();
        let device = u32::try_from(interface.device_index).ok();
        let card = info.network_cards.iter().find(|known| Some(known.index) == card);
        matches!((card, device), (Some(card), Some(device)) if card.maximum_network_interfaces > device)
    });
    each_fits && view.efa_only().1 <= info.maximum_efa_interfaces
}
