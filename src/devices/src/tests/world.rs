//! Small worlds of devices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::device::{
    AllocatedDevice, Allocation, AttributeBinding, AttributeValue, Consumer, CounterSet, Device,
    DeviceCapacity, DeviceClass, DeviceConstraint, DeviceCount, DeviceRequest, DeviceTemplates, Devices,
    ExactRequest, PlaceTerm, Reach, RequestKind, SliceTemplate,
};
use karpenter_model::{
    Expression, InstanceTypeName, LabelRegistry, NodeName, Operator, Pod, PodKey, PoolName, Quantity,
    Requirement, Requirements, ResourceClaim, ResourceClaimKey, ResourceSlice,
};

use crate::{Allocator, Candidate, ComingUp, Counted, Ledger, Place, Proposal, Refusal, Spot};

pub(super) const DRIVER: &str = "gpu.example.com";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

/// Devices, pods and machines of a test.
pub(super) struct World {
    pub(super) devices: Devices,
    pub(super) up: BTreeSet<NodeName>,
    pub(super) coming: Vec<ComingUp>,
    pub(super) to_make: Vec<ResourceClaim>,
    pub(super) counted: Counted,
    registry: LabelRegistry,
}

pub(super) fn world() -> World {
    let mut devices = Devices::default();
    devices.classes.insert("gpu".into(), Arc::new(DeviceClass::default()));
    let (up, coming, to_make, counted) = Default::default();
    World { devices, up, coming, to_make, counted, registry: LabelRegistry::core() }
}

/// An exclusive device.
pub(super) fn device(name: &str) -> Device {
    Device {
        name: name.into(),
        attributes: BTreeMap::new(),
        capacity: BTreeMap::new(),
        draws: Vec::new(),
        shareable: false,
        taints: Vec::new(),
        unsupported: None,
    }
}

/// A device with attribute `name` (a text).
pub(super) fn with(mut device: Device, name: &str, value: &str) -> Device {
    let name = karpenter_model::QualifiedName::within(name, DRIVER);
    device.attributes.insert(name, AttributeValue::Text(value.to_owned()));
    device
}

/// A device that draws `amount` of counter `memory` of set `chip`.
pub(super) fn drawing(mut device: Device, amount: i64) -> Device {
    device.draws.push(chip(amount));
    device
}

/// A counter set `chip` with `amount` of `memory`.
pub(super) fn chip(amount: i64) -> CounterSet {
    let counters = BTreeMap::from([("memory".into(), Quantity::from_units(amount))]);
    CounterSet { name: "chip".into(), counters }
}

/// A device with a shared capacity `memory`.
pub(super) fn shared(name: &str, amount: i64) -> Device {
    let capacity = DeviceCapacity { value: Quantity::from_units(amount), policy: None };
    let capacity = BTreeMap::from([(karpenter_model::QualifiedName::within("memory", DRIVER), capacity)]);
    Device { capacity, shareable: true, ..device(name) }
}

/// A slice of pool `pool` that can be reached everywhere.
pub(super) fn slice(pool: &str, devices: Vec<Device>) -> ResourceSlice {
    ResourceSlice {
        name: format!("slice-{pool}"),
        owner: None,
        driver: DRIVER.into(),
        pool: pool.into(),
        generation: 1,
        slice_count: 1,
        reach: Reach::Everywhere,
        counters: Vec::new(),
        devices,
    }
}

/// Returns a term that holds where the zone is one of `zones`.
pub(super) fn zone(zones: &[&str]) -> PlaceTerm {
    PlaceTerm { expressions: vec![Expression::new(ZONE, Operator::In, zones)], ..PlaceTerm::default() }
}

/// Selects the Node `name` only.
pub(super) fn named(name: &str) -> PlaceTerm {
    PlaceTerm { names: Some(vec![name.into()]), ..PlaceTerm::default() }
}

/// A request `name` for `count` devices of class `gpu`.
pub(super) fn request(name: &str, count: u32) -> DeviceRequest {
    request_of(name, DeviceCount::Exactly(count), &[])
}

pub(super) fn request_of(name: &str, count: DeviceCount, selectors: &[&str]) -> DeviceRequest {
    let exact = ExactRequest {
        class: "gpu".into(),
        selectors: selectors.iter().map(|&text| text.to_owned()).collect(),
        count,
        capacity: BTreeMap::new(),
        tolerations: Vec::new(),
        admin: false,
        instead_of: None,
    };
    DeviceRequest { name: name.into(), kind: RequestKind::Exactly(exact) }
}

/// A request for `amount` of the capacity `memory` of one device.
pub(super) fn portion(name: &str, amount: i64) -> DeviceRequest {
    let exact = ExactRequest {
        class: "gpu".into(),
        selectors: Vec::new(),
        count: DeviceCount::Exactly(1),
        capacity: BTreeMap::from([("memory".to_owned(), Quantity::from_units(amount))]),
        tolerations: Vec::new(),
        admin: false,
        instead_of: None,
    };
    DeviceRequest { name: name.into(), kind: RequestKind::Exactly(exact) }
}

pub(super) fn matching(attribute: &str) -> DeviceConstraint {
    let attribute = karpenter_model::QualifiedName::within(attribute, DRIVER);
    DeviceConstraint::MatchAttribute { requests: Vec::new(), attribute }
}

fn key(name: &str) -> ResourceClaimKey {
    ResourceClaimKey { namespace: "default".into(), name: name.into() }
}

pub(super) fn claim(name: &str, requests: Vec<DeviceRequest>) -> ResourceClaim {
    ResourceClaim {
        key: key(name),
        requests,
        constraints: Vec::new(),
        allocation: None,
        reserved_for: Vec::new(),
    }
}

/// A claim that has `devices` of `pool`, used by `pods`.
pub(super) fn allocated(name: &str, pool: &str, devices: &[&str], pods: &[&str]) -> ResourceClaim {
    let has = |device: &&str| AllocatedDevice {
        driver: DRIVER.into(),
        pool: pool.into(),
        device: (*device).into(),
        consumed: BTreeMap::new(),
    };
    let allocation = Allocation { devices: devices.iter().map(has).collect(), places: None };
    ResourceClaim {
        allocation: Some(allocation),
        reserved_for: pods.iter().map(|pod| Consumer::Pod((*pod).into())).collect(),
        ..claim(name, vec![request("gpu", u32::try_from(devices.len()).unwrap_or(0))])
    }
}

impl World {
    pub(super) fn slice(mut self, slice: ResourceSlice) -> Self {
        self.devices.slices.push(Arc::new(slice));
        self
    }

    pub(super) fn claim(mut self, claim: ResourceClaim) -> Self {
        self.devices.claims.insert(claim.key.clone(), Arc::new(claim));
        self
    }

    pub(super) fn up(mut self, node: &str) -> Self {
        self.up.insert(node.into());
        self
    }

    /// Machines of type `name` will have `devices`, those in `bound` with the same value of `numa`.
    pub(super) fn template(mut self, name: &str, devices: Vec<Device>, bound: &[&[&str]]) -> Self {
        let binding = |names: &&[&str]| AttributeBinding {
            attribute: karpenter_model::QualifiedName::within("numa", DRIVER),
            devices: names.iter().map(|name| (DRIVER.into(), "node".into(), (*name).into())).collect(),
        };
        let bindings = bound.iter().map(binding).collect();
        let slice =
            SliceTemplate { driver: DRIVER.into(), pool: "node".into(), counters: vec![chip(10)], devices };
        let templates = DeviceTemplates { slices: vec![slice], bindings };
        self.devices.templates.insert(("default".into(), name.into()), Arc::new(templates));
        self
    }

    pub(super) fn start(&self) -> Run<'_> {
        let to_make = self.to_make.clone();
        let allocator =
            Allocator::new(&self.devices, &self.up, (to_make, self.counted.clone()), &self.registry);
        let ledger = allocator.ledger([], &self.coming);
        Run { allocator, ledger, zones: vec!["a", "b"], registry: &self.registry }
    }
}

/// A pass over a world.
pub(super) struct Run<'a> {
    pub(super) allocator: Allocator<'a>,
    pub(super) ledger: Ledger,
    /// Zones new machines may be in.
    pub(super) zones: Vec<&'static str>,
    registry: &'a LabelRegistry,
}

/// A pod that uses `claims`.
pub(super) fn pod(claims: &[&str]) -> Pod {
    let mut pod =
        Pod::pending(PodKey::new("default", "pod"), "pod", "2026-01-01T00:00:00Z".parse().expect("time"));
    pod.has_resource_claims = true;
    pod.resource_claims = claims.iter().map(|&name| name.into()).collect();
    pod
}

impl Run<'_> {
    /// Proposes devices for `claims` on new machine `number` of one of `types`, where it can only be launched
    /// in a zone that `sold` allows for the type.
    pub(super) fn ask(
        &self,
        claims: &[&str],
        number: usize,
        types: &[&str],
        sold: impl Fn(&str, &str) -> bool,
    ) -> Result<Proposal, Refusal> {
        let claims = self.allocator.claims_of(&pod(claims), &[])?;
        let zone = Requirement::one_of(ZONE.into(), self.zones.iter().map(|&zone| zone.into()));
        let requirements = Requirements::from_iter([zone]);
        let pool = PoolName::from("default");
        let names: Vec<InstanceTypeName> = types.iter().map(|&name| name.into()).collect();
        let mut suits = |number: usize, requirements: &Requirements| {
            let zone = requirements.value_of(&ZONE.into());
            ["a", "b"].iter().any(|name| zone.allows(name) && sold(types[number], name))
        };
        let place = Place::Launch { requirements: &requirements, suits: &mut suits };
        let types = names.iter().map(|name| Some((&pool, name))).collect();
        self.allocator.allocate(&self.ledger, &claims, Candidate { spot: Spot::Launch(number), place, types })
    }

    /// Puts a pod with `claims` on new machine `number` of one of `types`; the zones and types it may have then.
    pub(super) fn launch(
        &mut self,
        claims: &[&str],
        number: usize,
        types: &[&str],
    ) -> Result<(Vec<String>, Vec<usize>), Refusal> {
        let proposal = self.ask(claims, number, types, |_, _| true)?;
        let zone = proposal.requirements.value_of(&ZONE.into());
        let zones = zone.values().iter().map(ToString::to_string).collect();
        let types = proposal.types.clone();
        self.allocator.commit(&mut self.ledger, proposal);
        Ok((zones, types))
    }

    /// Puts a pod with `claims` on the initialized Node `name` in zone `zone`.
    pub(super) fn join(&mut self, claims: &[&str], name: &str, zone: &str) -> Result<(), Refusal> {
        self.join_as(claims, name, zone, None)
    }

    /// Puts a pod with `claims` on a Node that is not initialized and has type `kind`.
    pub(super) fn join_as(
        &mut self,
        claims: &[&str],
        name: &str,
        zone: &str,
        kind: Option<&str>,
    ) -> Result<(), Refusal> {
        let claims = self.allocator.claims_of(&pod(claims), &[])?;
        let satisfies = |asked: &Requirement| *asked.key() == ZONE && asked.allows(zone);
        let (node, pool) = (NodeName::from(name), PoolName::from("default"));
        let kind = kind.map(InstanceTypeName::from);
        let place = Place::Machine { name: Some(&node), satisfies: &satisfies, counts: &|_| false };
        let types = vec![kind.as_ref().map(|kind| (&pool, kind))];
        let candidate = Candidate { spot: Spot::Machine(name.into()), place, types };
        let proposal = self.allocator.allocate(&self.ledger, &claims, candidate)?;
        self.allocator.commit(&mut self.ledger, proposal);
        Ok(())
    }

    /// Returns the devices that `spot` holds, by type: claim and device.
    pub(super) fn taken(&self, spot: &Spot) -> Vec<String> {
        let taken = self.allocator.taken(&self.ledger, spot);
        let text = taken.map(|(kind, claim, device)| {
            let kind = kind.map_or("", InstanceTypeName::as_str);
            format!("{kind}:{}={}", claim.name, device.device.name)
        });
        text.collect()
    }

    /// Returns the requests that the devices `spot` holds are for.
    pub(super) fn requests(&self, spot: &Spot) -> Vec<&str> {
        let taken = self.allocator.taken(&self.ledger, spot);
        taken.map(|(_, _, device)| device.request.as_str()).collect()
    }

    pub(super) fn registry(&self) -> &LabelRegistry {
        self.registry
    }
}
