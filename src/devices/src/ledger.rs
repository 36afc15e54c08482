//! Holders of devices, as far as a pass has got.
//!
//! A machine whose type is still open holds, of every meter, the most that any of its types would take.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{
    DeviceRequestName, DriverName, InstanceTypeName, NodeId, NodeName, PodUid, Requirements,
};

use crate::claim::ClaimId;
use crate::index::{DeviceId, MeterId, Uses};

/// A machine claims are served on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    /// A machine that exists or is coming up.
    Machine(NodeId),
    /// A machine that is to be launched, by number.
    Launch(usize),
}

/// Ledger of the holders of devices.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Amounts held by claims that are allocated in the cluster and stay so.
    pub(crate) allocated: BTreeMap<MeterId, i128>,
    /// Shares taken in this pass, by machine and type.
    shares: BTreeMap<Spot, BTreeMap<Option<InstanceTypeName>, Share>>,
    /// The most of a meter that any type of a machine takes.
    most: BTreeMap<MeterId, BTreeMap<Spot, i128>>,
    /// Claims that were served in this pass.
    pub(crate) served: BTreeMap<ClaimId, Served>,
    /// Pods that leave their machine.
    pub(crate) leaving: BTreeSet<PodUid>,
    /// Claims that are allocated in the cluster but will be released.
    pub(crate) released: BTreeSet<ClaimId>,
    /// Nodes that were taken away.
    pub(crate) lost: BTreeSet<NodeName>,
    /// Grows when something that was taken is given back, or a claim is served that others may share.
    pub(crate) version: u64,
}

/// Share that one type of a machine takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Share {
    pub(crate) meters: BTreeMap<MeterId, i128>,
    /// Devices with the claims and requests they are for.
    pub(crate) devices: Vec<(ClaimId, DeviceRequestName, DeviceId)>,
    /// Drivers of the devices that come with the machine.
    pub(crate) drivers: BTreeSet<DriverName>,
}

/// A claim that was served in this pass.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) spot: Spot,
    /// Set when some of its devices can be reached from this machine only.
    pub(crate) local: bool,
    /// Requirements under which its devices can be reached.
    pub(crate) requirements: Requirements,
}

impl Ledger {
    /// Grows whenever something becomes possible that was not.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the amount of `meter` that others than `spot` hold.
    pub(crate) fn others(&self, meter: MeterId, spot: &Spot) -> i128 {
        let taken = self.most.get(&meter).into_iter().flatten();
        let others = taken.filter(|(other, _)| *other != spot).map(|(_, amount)| *amount);
        others.fold(self.allocated.get(&meter).copied().unwrap_or(0), i128::saturating_add)
    }

    /// Returns the amount of `meter` that `spot` holds if it turns out to be `kind`.
    pub(crate) fn own(&self, meter: MeterId, spot: &Spot, kind: Option<&InstanceTypeName>) -> i128 {
        let share = self.shares.get(spot).and_then(|kinds| kinds.get(&kind.cloned()));
        share.and_then(|share| share.meters.get(&meter)).copied().unwrap_or(0)
    }

    /// Returns whether anything is held by `spot`.
    pub fn holds(&self, spot: &Spot) -> bool {
        self.shares.contains_key(spot)
    }

    /// Returns the shares of `spot`, by type.
    pub(crate) fn shares(&self, spot: &Spot) -> impl Iterator<Item = (&Option<InstanceTypeName>, &Share)> {
        self.shares.get(spot).into_iter().flatten()
    }

    /// Gives `spot` the amounts in `taken` per type; its other types are out of the question from now on.
    pub(crate) fn take(&mut self, spot: &Spot, taken: Vec<(Option<InstanceTypeName>, Share)>) {
        let known = self.shares.remove(spot).unwrap_or_default();
        let mut kinds = BTreeMap::new();
        for (kind, more) in taken {
            let mut share: Share = known.get(&kind).cloned().unwrap_or_default();
            for (meter, amount) in more.meters {
                let total = share.meters.entry(meter).or_insert(0);
                *total = total.saturating_add(amount);
            }
            share.devices.extend(more.devices);
            share.drivers.extend(more.drivers);
            kinds.insert(kind, share);
        }
        self.replace(spot, &known, kinds);
    }

    /// Gives back what only types of `spot` take that `stays` does not name.
    pub fn keep(&mut self, spot: &Spot, stays: impl Fn(&InstanceTypeName) -> bool) {
        let Some(known) = self.shares.get(spot) else { return };
        let keeps = |kind: &Option<InstanceTypeName>| kind.as_ref().is_none_or(&stays);
        if known.keys().all(keeps) {
            return;
        }
        let known = known.clone();
        let kinds = known.iter().filter(|(kind, _)| keeps(kind));
        let kinds = kinds.map(|(kind, share)| (kind.clone(), share.clone())).collect();
        self.replace(spot, &known, kinds);
    }

    /// `spot` is gone: what was taken there is free, and claims that were served there are not any more.
    pub fn vacate(&mut self, spot: &Spot) {
        let known = self.shares.remove(spot).unwrap_or_default();
        self.replace(spot, &known, BTreeMap::new());
        self.served.retain(|_, served| served.spot != *spot);
    }

    fn replace(
        &mut self,
        spot: &Spot,
        before: &BTreeMap<Option<InstanceTypeName>, Share>,
        now: BTreeMap<Option<InstanceTypeName>, Share>,
    ) {
        let touched = before.values().chain(now.values()).flat_map(|share| share.meters.keys().copied());
        let touched: BTreeSet<MeterId> = touched.collect();
        for meter in touched {
            let amount = |share: &Share| share.meters.get(&meter).copied().unwrap_or(0);
            let most = now.values().map(amount).max().unwrap_or(0);
            let spots = self.most.entry(meter).or_default();
            if spots.get(spot).is_some_and(|had| *had > most) {
                self.version += 1;
            }
            if most > 0 {
                spots.insert(spot.clone(), most);
            } else {
                spots.remove(spot);
            }
        }
        if !now.is_empty() {
            self.shares.insert(spot.clone(), now);
        }
    }

    /// `claim`, which had `uses`, gives it back.
    pub(crate) fn release(&mut self, claim: ClaimId, uses: &Uses) {
        if self.released.insert(claim) {
            for (meter, amount) in uses {
                let left = self.allocated.entry(*meter).or_insert(0);
                *left = left.saturating_sub(*amount);
            }
            self.version += 1;
        }
    }
}
