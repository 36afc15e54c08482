//! Capacity that EC2 can still sell: limits per offering, and the account's quotas.

use std::collections::BTreeMap;

use super::Vm;
use crate::options::Quotas;
use karpenter_aws_api::id::{FleetId, InstanceType, Zone};

/// Offerings by what they have in common; `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferingSelector {
    /// Type that it is limited to.
    pub instance_type: Option<InstanceType>,
    /// Zone that it is limited to.
    pub zone: Option<Zone>,
    /// True limits it to spot, false to everything else.
    pub spot: Option<bool>,
}

impl OfferingSelector {
    /// One offering.
    pub fn exactly(instance_type: &str, zone: &str, spot: bool) -> Self {
        Self { instance_type: Some(instance_type.into()), zone: Some(zone.into()), spot: Some(spot) }
    }

    pub(crate) fn matches(&self, instance_type: &InstanceType, zone: &Zone, spot: bool) -> bool {
        self.instance_type.as_ref().is_none_or(|wanted| wanted == instance_type)
            && self.zone.as_ref().is_none_or(|wanted| wanted == zone)
            && self.spot.is_none_or(|wanted| wanted == spot)
    }
}

/// Limits and what is used of them. Without limits everything is to be had.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) quotas: Quotas,
    limits: BTreeMap<u64, Limit>,
    next_limit: u64,
    on_demand_vcpus: u32,
    spot_vcpus: u32,
    /// Live instances by fleet.
    fleets: BTreeMap<FleetId, u32>,
}

#[derive(Debug)]
struct Limit {
    offerings: OfferingSelector,
    remaining: u32,
}

/// Refusal of an instance: EC2's code and text.
pub(super) type Refusal = (&'static str, String);

impl Capacity {
    pub(super) fn new(quotas: Quotas) -> Self {
        Self {
            quotas,
            limits: BTreeMap::new(),
            next_limit: 0,
            on_demand_vcpus: 0,
            spot_vcpus: 0,
            fleets: BTreeMap::new(),
        }
    }

    /// Limits these offerings together to this number of further instances; replaces an earlier limit on the same offerings.
    pub(crate) fn limit(&mut self, offerings: OfferingSelector, remaining: u32) {
        self.unlimit(&offerings);
        self.next_limit += 1;
        self.limits.insert(self.next_limit, Limit { offerings, remaining });
    }

    pub(crate) fn unlimit(&mut self, offerings: &OfferingSelector) {
        self.limits.retain(|_, limit| limit.offerings != *offerings);
    }

    /// Instances that can still be launched on an offering.
    pub(super) fn depth(&self, instance_type: &InstanceType, zone: &Zone, spot: bool) -> u32 {
        self.limits
            .values()
            .filter(|limit| limit.offerings.matches(instance_type, zone, spot))
            .map(|limit| limit.remaining)
            .min()
            .unwrap_or(u32::MAX)
    }

    /// A new fleet is within the quota.
    pub(super) fn admits_fleet(&self) -> Result<(), Refusal> {
        match self.quotas.fleets {
            Some(quota) if self.fleets.len() >= quota as usize => {
                Err(("MaxFleetCountExceeded", "Maximum fleet count exceeded.".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Takes one instance; the limits it counts against, to be kept with the instance.
    pub(super) fn take(
        &mut self,
        instance_type: &InstanceType,
        zone: &Zone,
        spot: bool,
        vcpus: u32,
    ) -> Result<Vec<u64>, Refusal> {
        let (quota, used) = if spot {
            (self.quotas.spot_vcpus, self.spot_vcpus)
        } else {
            (self.quotas.on_demand_vcpus, self.on_demand_vcpus)
        };
        if quota.is_some_and(|quota| used.saturating_add(vcpus) > quota) {
            return Err(if spot {
                ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded".to_owned())
            } else {
                let text = format!(
                    "You have requested more vCPU capacity than your current vCPU limit of {} allows for the \
                     instance bucket that the specified instance type belongs to.",
                    quota.unwrap_or(0)
                );
                ("VcpuLimitExceeded", text)
            });
        }
        if self.depth(instance_type, zone, spot) == 0 {
            let text = format!(
                "We currently do not have sufficient {instance_type} capacity in the Availability Zone you \
                 requested ({zone})."
            );
            return Err(("InsufficientInstanceCapacity", text));
        }
        let mut taken = Vec::new();
        for (id, limit) in &mut self.limits {
            if limit.offerings.matches(instance_type, zone, spot) {
                limit.remaining -= 1;
                taken.push(*id);
            }
        }
        let counter = if spot { &mut self.spot_vcpus } else { &mut self.on_demand_vcpus };
        *counter += vcpus;
        Ok(taken)
    }

    pub(super) fn join_fleet(&mut self, fleet: &FleetId) {
        *self.fleets.entry(fleet.clone()).or_insert(0) += 1;
    }

    /// Gives back what the instance held.
    pub(super) fn release(&mut self, vm: &Vm) {
        for id in &vm.limits {
            if let Some(limit) = self.limits.get_mut(id) {
                limit.remaining = limit.remaining.saturating_add(1);
            }
        }
        let counter = if vm.is_spot() { &mut self.spot_vcpus } else { &mut self.on_demand_vcpus };
        *counter = counter.saturating_sub(vm.quota_vcpus);
        if let Some(live) = self.fleets.get_mut(&vm.fleet) {
            *live -= 1;
            if *live == 0 {
                self.fleets.remove(&vm.fleet);
            }
        }
    }
}
