//! Places of elastic fabric adapters on the network cards of a type (spec aws-provider 5.6).

use karpenter_aws_api::ec2::InstanceTypeInfo;

/// One interface of an instance that has elastic fabric adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Card number.
    pub card: u32,
    /// Device number on the card.
    pub device: u32,
    /// An adapter; otherwise an interface without one.
    pub adapter: bool,
}

/// Returns whether an instance with all its adapters has several interfaces: EC2 gives none of them a public address by
/// request (aws PR#5666).
pub(crate) fn excludes_public_address(info: &InstanceTypeInfo) -> bool {
    slots(Some(info), info.maximum_efa_interfaces).len() > 1
}

/// The interfaces of an instance with this number of adapters, the primary one first; none without adapters.
///
/// A type with more cards than adapters (P6-B300) has a first card that takes none, and the primary interface is on that. A
/// card that takes one interface has device 0 only. Both are differences from the reference (differences.md, "cards that EFA
/// interfaces are on").
pub(crate) fn slots(info: Option<&InstanceTypeInfo>, adapters: u32) -> Vec<Slot> {
    if adapters == 0 {
        return Vec::new();
    }
    let cards = info.map(|info| info.network_cards.as_slice()).unwrap_or_default();
    let first_is_plain = usize::try_from(adapters).is_ok_and(|adapters| cards.len() > adapters);
    let slot = |position: u32| {
        let card = usize::try_from(position).ok().and_then(|position| cards.get(position));
        let takes_one = card.is_some_and(|card| card.maximum_network_interfaces == 1);
        Slot {
            card: card.map_or(position, |card| card.index),
            device: u32::from(position > 0 && !takes_one),
            adapter: position > 0 || !first_is_plain,
        }
    };
    (0..adapters + u32::from(first_is_plain)).map(slot).collect()
}
