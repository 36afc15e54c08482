//! The devices of a pass by number, with the meters of what is left of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::device::{CounterSet, Device, DeviceTemplates, Devices, Reach};
use karpenter_model::{
    DeviceName, DevicePoolName, DriverName, InstanceTypeName, NodeName, PoolName, QualifiedName, Quantity,
};

use crate::capacity;
use crate::claim::Request;
use crate::refusal;

/// Number of a device.
pub(crate) type DeviceId = usize;

/// Number of a meter.
pub(crate) type MeterId = usize;

/// Driver, pool and name of a device.
pub(crate) type Name = (DriverName, DevicePoolName, DeviceName);

/// Amounts of meters; a meter may be listed more than once.
pub(crate) type Uses = Vec<(MeterId, i128)>;

/// Something claims take amounts of.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    /// Amount there is.
    pub(crate) limit: i128,
    /// Each machine of the type has its own.
    pub(crate) per_machine: bool,
}

/// A device that exists, or one that comes with every machine of a type.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) driver: DriverName,
    pub(crate) pool: DevicePoolName,
    pub(crate) device: Device,
    /// Every machine of the type brings one along.
    pub(crate) promised: bool,
    /// Amounts taken of counters, and of the device itself when it is exclusive.
    fixed: Uses,
    /// Capacities that are shared, by name.
    shared: BTreeMap<QualifiedName, MeterId>,
}

/// A slice that counts.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) owner: Option<NodeName>,
    pub(crate) reach: Reach,
    pub(crate) has_counters: bool,
    pub(crate) devices: Vec<DeviceId>,
}

/// A pool in its newest generation.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Its slices, by name.
    pub(crate) slices: Vec<Slice>,
    /// Reason why none of its devices may be used, if so.
    pub(crate) problem: Option<String>,
    /// Name in messages.
    pub(crate) name: String,
}

/// Devices that machines of one type bring along.
#[derive(Debug, Default)]
pub(crate) struct Template {
    /// The devices; none when the template is contradictory.
    pub(crate) devices: Vec<DeviceId>,
    /// Devices that will have the same value, per attribute.
    groups: BTreeMap<QualifiedName, Vec<BTreeSet<DeviceId>>>,
}

/// All devices.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    pub(crate) meters: Vec<Meter>,
    /// Pools in the order of drivers and names.
    pub(crate) pools: Vec<Pool>,
    pub(crate) templates: BTreeMap<(PoolName, InstanceTypeName), Arc<Template>>,
    by_name: BTreeMap<Name, DeviceId>,
    /// Devices of Nodes that are coming up, with the Node.
    pub(crate) coming: BTreeMap<Name, (NodeName, Device)>,
}

/// A slice of a pool before it is numbered.
struct Part<'d> {
    driver: &'d DriverName,
    pool: &'d DevicePoolName,
    counters: &'d [CounterSet],
    devices: &'d [Device],
}

impl Index {
    /// Numbers `devices`. Slices that a Node owns which is not in `up` get no numbers: what uninitialized machines
    /// have is what their types promise.
    pub(crate) fn new(devices: &Devices, up: &BTreeSet<NodeName>) -> Self {
        let mut index = Self::default();
        let mut by_pool: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for slice in &devices.slices {
            match slice.owner.as_ref().filter(|owner| !up.contains(*owner)) {
                None => by_pool.entry((&slice.driver, &slice.pool)).or_default().push(slice.as_ref()),
                Some(owner) => {
                    let named = |device: &Device| {
                        let name = (slice.driver.clone(), slice.pool.clone(), device.name.clone());
                        (name, (owner.clone(), device.clone()))
                    };
                    index.coming.extend(slice.devices.iter().map(named));
                }
            }
        }
        for ((driver, pool), mut slices) in by_pool {
            let newest = slices.iter().map(|slice| slice.generation).max();
            slices.retain(|slice| Some(slice.generation) == newest);
            slices.sort_by(|a, b| a.name.cmp(&b.name));
            let mut parts = Vec::with_capacity(slices.len());
            for slice in &slices {
                parts.push(Part { driver, pool, counters: &slice.counters, devices: &slice.devices });
            }
            let name = refusal::pool(driver, pool.as_str());
            let declared = slices.first().map_or(0, |slice| slice.slice_count);
            let complete = usize::try_from(declared).is_ok_and(|declared| declared == slices.len());
            let problem = match contradiction(&parts) {
                Some(why) => Some(format!("{name} is invalid: {why}")),
                None if complete => None,
                None => Some(format!("{name} has {} of {declared} slices", slices.len())),
            };
            let numbered = if problem.is_none() { index.add(&parts, false) } else { Vec::new() };
            let mut numbered = numbered.into_iter();
            let slices = slices.iter().map(|slice| Slice {
                owner: slice.owner.clone(),
                reach: slice.reach.clone(),
                has_counters: !slice.counters.is_empty(),
                devices: numbered.next().unwrap_or_default(),
            });
            index.pools.push(Pool { slices: slices.collect(), problem, name });
        }
        for device in index.pools.iter().flat_map(|pool| &pool.slices).flat_map(|slice| &slice.devices) {
            let entry = &index.entries[*device];
            let key = (entry.driver.clone(), entry.pool.clone(), entry.device.name.clone());
            index.by_name.insert(key, *device);
        }
        // Pools usually expect the same of a type, and a selector is run once per device.
        let mut known: BTreeMap<&InstanceTypeName, Vec<(&DeviceTemplates, Arc<Template>)>> = BTreeMap::new();
        for (kind, template) in &devices.templates {
            let alike = known.entry(&kind.1).or_default();
            let numbered = if let Some((_, numbered)) = alike.iter().find(|(other, _)| *other == &**template)
            {
                Arc::clone(numbered)
            } else {
                let numbered = Arc::new(index.template(template));
                alike.push((template, Arc::clone(&numbered)));
                numbered
            };
            index.templates.insert(kind.clone(), numbered);
        }
        index
    }

    fn template(&mut self, template: &DeviceTemplates) -> Template {
        let mut by_pool: BTreeMap<_, Vec<Part<'_>>> = BTreeMap::new();
        for slice in &template.slices {
            let (driver, pool) = (&slice.driver, &slice.pool);
            let part = Part { driver, pool, counters: &slice.counters, devices: &slice.devices };
            by_pool.entry((driver, pool)).or_default().push(part);
        }
        let mut numbered = Template::default();
        let mut by_name = BTreeMap::new();
        for parts in by_pool.into_values().filter(|parts| contradiction(parts).is_none()) {
            for device in self.add(&parts, true).into_iter().flatten() {
                let entry = &self.entries[device];
                by_name.insert((entry.driver.clone(), entry.pool.clone(), entry.device.name.clone()), device);
                numbered.devices.push(device);
            }
        }
        for binding in &template.bindings {
            let mut group: BTreeSet<DeviceId> =
                binding.devices.iter().filter_map(|name| by_name.get(name).copied()).collect();
            let groups = numbered.groups.entry(binding.attribute.clone()).or_default();
            // Bindings that share a device are one group.
            groups.retain(|known| {
                let apart = known.is_disjoint(&group);
                if !apart {
                    group.extend(known);
                }
                apart
            });
            groups.push(group);
        }
        numbered
    }

    /// Numbers the devices of one pool; their numbers per part.
    fn add(&mut self, parts: &[Part<'_>], per_machine: bool) -> Vec<Vec<DeviceId>> {
        let mut counters = BTreeMap::new();
        for set in parts.iter().flat_map(|part| part.counters) {
            for (counter, quantity) in &set.counters {
                let meter = self.meter(*quantity, per_machine);
                counters.insert((&set.name, counter), meter);
            }
        }
        let mut numbers = Vec::with_capacity(parts.len());
        for part in parts {
            let mut of_part = Vec::with_capacity(part.devices.len());
            for device in part.devices {
                let drawn = device.draws.iter().flat_map(|draw| {
                    draw.counters.iter().map(|(counter, quantity)| ((&draw.name, counter), quantity.nanos()))
                });
                let mut fixed: Uses =
                    drawn.filter_map(|(name, amount)| Some((*counters.get(&name)?, amount))).collect();
                let mut shared = BTreeMap::new();
                if device.shareable {
                    for (name, capacity) in &device.capacity {
                        shared.insert(name.clone(), self.meter(capacity.value, per_machine));
                    }
                } else {
                    fixed.push((self.meter(Quantity::from_nanos(1), per_machine), 1));
                }
                of_part.push(self.entries.len());
                self.entries.push(Entry {
                    driver: part.driver.clone(),
                    pool: part.pool.clone(),
                    device: device.clone(),
                    promised: per_machine,
                    fixed,
                    shared,
                });
            }
            numbers.push(of_part);
        }
        numbers
    }

    fn meter(&mut self, limit: Quantity, per_machine: bool) -> MeterId {
        self.meters.push(Meter { limit: limit.nanos(), per_machine });
        self.meters.len() - 1
    }

    /// The device with this name that exists.
    pub(crate) fn named(&self, name: &Name) -> Option<DeviceId> {
        self.by_name.get(name).copied()
    }

    /// The device of `template` that `device` of driver `driver` most likely is, of those not in `taken`: the one that agrees in
    /// most attributes, then the one of the same name. Pools of templates have names of their own.
    pub(crate) fn likeness(
        &self,
        template: &Template,
        (driver, device): (&DriverName, &Device),
        taken: &BTreeSet<DeviceId>,
    ) -> Option<DeviceId> {
        let left = template.devices.iter().copied().filter(|id| !taken.contains(id));
        let of_driver = left.filter(|id| self.entries[*id].driver == *driver);
        of_driver.max_by_key(|id| {
            let promised = &self.entries[*id].device;
            let agrees = |(name, value): &(&QualifiedName, _)| device.attributes.get(*name) == Some(*value);
            let agreeing = promised.attributes.iter().filter(agrees).count();
            (agreeing, promised.name == device.name, Reverse(*id))
        })
    }
}

impl Template {
    /// The group whose value of `attribute` `device` will have.
    pub(crate) fn group(&self, attribute: &QualifiedName, device: DeviceId) -> Option<usize> {
        self.groups.get(attribute)?.iter().position(|group| group.contains(&device))
    }
}

impl Entry {
    /// Returns the amounts that `request` takes when it gets this device; `None` when the device cannot give it.
    /// An exclusive device is taken whole and must have what is asked for. A shared one draws from counters once
    /// per claim, which is more than the Kubernetes scheduler counts, never less. A request with admin access takes
    /// nothing.
    pub(crate) fn uses(&self, request: &Request) -> Option<Uses> {
        let mut asked = BTreeMap::new();
        for (name, quantity) in &request.capacity {
            let name = QualifiedName::within(name, self.driver.as_str());
            let capacity = self.device.capacity.get(&name)?;
            if *quantity > capacity.value {
                return None;
            }
            asked.insert(name, *quantity);
        }
        if request.admin {
            return Some(Uses::new());
        }
        let mut uses = self.fixed.clone();
        for (name, meter) in &self.shared {
            let taken = capacity::taken(self.device.capacity.get(name)?, asked.get(name).copied())?;
            uses.push((*meter, taken.nanos()));
        }
        Some(uses)
    }

    /// Returns the amounts that a claim has of this device, of whose shared capacities it has `consumed`.
    pub(crate) fn held(&self, consumed: &BTreeMap<QualifiedName, Quantity>) -> Uses {
        let taken = |(name, meter): (&QualifiedName, &MeterId)| Some((*meter, consumed.get(name)?.nanos()));
        self.fixed.iter().copied().chain(self.shared.iter().filter_map(taken)).collect()
    }
}

/// Returns the reason why a pool is unusable, if it is: two devices or counter sets of one name, or a device
/// that draws from counters the pool does not have.
fn contradiction(parts: &[Part<'_>]) -> Option<String> {
    let mut names = BTreeSet::new();
    let devices = || parts.iter().flat_map(|part| part.devices);
    if let Some(twice) = devices().find(|device| !names.insert(&device.name)) {
        return Some(format!("it has two devices `{}`", twice.name));
    }
    let mut sets: BTreeMap<_, &CounterSet> = BTreeMap::new();
    for set in parts.iter().flat_map(|part| part.counters) {
        if sets.insert(&set.name, set).is_some() {
            return Some(format!("it has two counter sets `{}`", set.name));
        }
    }
    let unknown = |draw: &&CounterSet| {
        sets.get(&draw.name).is_none_or(|set| draw.counters.keys().any(|key| !set.counters.contains_key(key)))
    };
    let draw = devices().flat_map(|device| &device.draws).find(unknown)?;
    Some(format!("a device draws from counters of `{}` that are not there", draw.name))
}
