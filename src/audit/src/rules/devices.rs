//! Claims of placed pods have the devices they ask for, and no device is given twice (spec scheduling 22.2).
//!
//! Each request is met in one way, and devices that must agree in an attribute do, by value or by what is known of their
//! machine's type. Selectors are not evaluated again, nor whether an earlier alternative could have been met. Replacements of commands are not audited: their devices are not part of
//! a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use karpenter_model::device::{
    Device, DeviceConstraint, DeviceCount, DeviceRequest, DeviceTemplates, ExactRequest, RequestKind,
};
use karpenter_model::{
    CounterName, DeviceGrant, DeviceName, DevicePoolName, DeviceRequestName, DriverName, GrantPlace,
    GrantedDevice, InstanceTypeName, Plan, Pod, PodUid, PoolName, QualifiedName, Quantity, ResourceClaim,
    ResourceClaimKey, ResourceSlice, Snapshot, Taint,
};

use crate::finding::{Finding, Rule, Subject};
use crate::world::World;

/// Driver, pool and name of a device.
type Name<'a> = (&'a DriverName, &'a DevicePoolName, &'a DeviceName);

/// Something that can be given away once, or in amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meter<'a> {
    Device(Name<'a>),
    Counter(&'a DriverName, &'a DevicePoolName, &'a CounterName, &'a CounterName),
}

/// A machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holder<'a> {
    Machine(&'a str),
    Launch(u32),
}

pub(crate) fn check<'a>(world: &'a World<'_>, plan: &'a Plan, findings: &mut Vec<Finding>) {
    if world.snapshot.settings.ignore_dra_requests {
        return;
    }
    let devices = &world.snapshot.devices;
    let to_make = world.waiting().flat_map(|pod| pod.claims_to_make(devices));
    let to_make = to_make.map(|claim| (claim.key.clone(), Arc::new(claim)));
    let claims = devices.claims.clone().into_iter().chain(to_make).collect();
    let books = Books::new(world, &claims);
    for launch in &plan.launches {
        for pod in world.pods_of(launch) {
            for kind in launch.instance_types.iter() {
                let place = GrantPlace::Launch(launch.bin, kind.clone());
                books.served(pod, &place, plan, findings);
            }
        }
    }
    for nomination in &plan.nominations {
        if let (Some(pod), Some(node)) = (world.pod(&nomination.pod), world.node(&nomination.target)) {
            books.served(pod, &GrantPlace::Machine(node.id.clone()), plan, findings);
        }
    }
    for grant in &plan.grants {
        books.suits(grant, plan, findings);
    }
    books.overdrawn(plan, findings);
}

/// The name of a device that is granted.
fn name(one: &GrantedDevice) -> Name<'_> {
    (&one.driver, &one.pool, &one.device)
}

/// The device of `template` that is granted.
fn promised<'t>(template: &'t DeviceTemplates, one: &GrantedDevice) -> Option<&'t Device> {
    let slices = template.slices.iter().filter(|slice| slice.driver == one.driver && slice.pool == one.pool);
    slices.flat_map(|slice| &slice.devices).find(|device| device.name == one.device)
}

/// Returns whether `template` says that `devices` will have one value of `attribute`: bindings that share a device are one.
fn bound(template: &DeviceTemplates, attribute: &QualifiedName, devices: &[&GrantedDevice]) -> bool {
    let Some(first) = devices.first() else { return true };
    let own = |one: &GrantedDevice| (one.driver.clone(), one.pool.clone(), one.device.clone());
    let mut reached = BTreeSet::from([own(first)]);
    let bindings = || template.bindings.iter().filter(|binding| binding.attribute == *attribute);
    loop {
        let touched = bindings().filter(|binding| binding.devices.iter().any(|one| reached.contains(one)));
        let more: BTreeSet<_> = touched.flat_map(|binding| binding.devices.iter().cloned()).collect();
        if more.is_subset(&reached) {
            return bindings().count() > 0 && devices.iter().all(|one| more.contains(&own(one)));
        }
        reached.extend(more);
    }
}

/// Facts about devices.
struct Books<'a> {
    snapshot: &'a Snapshot,
    claims: &'a BTreeMap<ResourceClaimKey, Arc<ResourceClaim>>,
    /// Slices of the newest generations.
    slices: Vec<&'a ResourceSlice>,
    leaving: BTreeSet<&'a PodUid>,
    /// Devices of machines that are to come that several claims may have.
    shared: BTreeSet<&'a DeviceName>,
}

impl<'a> Books<'a> {
    fn new(world: &'a World<'_>, claims: &'a BTreeMap<ResourceClaimKey, Arc<ResourceClaim>>) -> Self {
        let devices = &world.snapshot.devices;
        let newest = |slice: &ResourceSlice| {
            let alike = devices
                .slices
                .iter()
                .filter(|other| other.driver == slice.driver && other.pool == slice.pool);
            alike.map(|other| other.generation).max() == Some(slice.generation)
        };
        let slices = devices.slices.iter().map(AsRef::as_ref).filter(|slice| newest(slice)).collect();
        let leaving = world.waiting().filter(|pod| pod.node_name.is_some()).map(|pod| &pod.uid).collect();
        let templates = devices.templates.values().flat_map(|template| &template.slices);
        let promised = templates.flat_map(|slice| &slice.devices);
        let shared = promised.filter(|device| device.shareable).map(|device| &device.name).collect();
        Self { snapshot: world.snapshot, claims, slices, leaving, shared }
    }

    /// Returns whether the request that `one` is granted for takes nothing (`adminAccess`).
    fn only_looks(&self, grant: &DeviceGrant, one: &GrantedDevice) -> bool {
        let requests = self.claims.get(&grant.claim).into_iter().flat_map(|claim| &claim.requests);
        let mut ways = requests.flat_map(DeviceRequest::alternatives);
        ways.any(|(name, kind)| {
            name == one.request && matches!(kind, RequestKind::Exactly(asked) if asked.admin)
        })
    }

    /// Returns whether `claim` has devices that it keeps.
    fn keeps(&self, claim: &ResourceClaim) -> bool {
        claim.allocation.is_some() && !claim.is_released_by(|pod| self.leaving.contains(pod))
    }

    /// Every claim of `pod` has devices at `place`.
    fn served(&self, pod: &Pod, place: &GrantPlace, plan: &Plan, findings: &mut Vec<Finding>) {
        let named = pod
            .resource_claims
            .iter()
            .map(|name| ResourceClaimKey { namespace: pod.key.namespace.clone(), name: name.clone() });
        let to_make = pod.claims_to_make(&self.snapshot.devices);
        for key in named.chain(to_make.into_iter().map(|claim| claim.key)) {
            let Some(claim) = self.claims.get(&key) else {
                findings.push(Finding::new(Rule::Devices, &pod.key, format!("claim `{key}` does not exist")));
                continue;
            };
            let granted = |grant: &DeviceGrant| {
                grant.claim == key && (grant.place == *place || grant.devices.iter().all(|one| !one.promised))
            };
            let by_devices = |request: &DeviceRequest| !self.is_counted(request, place, plan);
            if !self.keeps(claim) && claim.requests.iter().any(by_devices) && !plan.grants.iter().any(granted)
            {
                let detail = format!("claim `{key}` gets no devices at {place:?}");
                findings.push(Finding::new(Rule::Devices, &pod.key, detail));
            }
        }
    }

    /// Returns whether the machine at `place` has the resource that devices for `request` would stand for.
    fn is_counted(&self, request: &DeviceRequest, place: &GrantPlace, plan: &Plan) -> bool {
        let RequestKind::Exactly(ExactRequest { instead_of: Some(resource), .. }) = &request.kind else {
            return false;
        };
        let allocatable = match place {
            GrantPlace::Machine(id) => {
                let node = self.snapshot.nodes.iter().find(|node| node.id == *id);
                node.map(|node| node.effective_allocatable())
            }
            GrantPlace::Launch(bin, name) => {
                let launch = plan.launches.iter().find(|launch| launch.bin == *bin);
                let types = launch.and_then(|launch| self.snapshot.instance_types.get(&launch.pool));
                let kind = types.and_then(|types| types.iter().find(|kind| kind.name == *name));
                kind.map(|kind| kind.allocatable())
            }
        };
        allocatable.is_some_and(|amounts| amounts.amount(resource.as_str()) > Quantity::ZERO)
    }

    /// The devices of `grant` exist, as many as one way to meet each request of its claim asks for.
    fn suits(&self, grant: &DeviceGrant, plan: &Plan, findings: &mut Vec<Finding>) {
        let mut finding = |detail: String| findings.push(Finding::new(Rule::Devices, &grant.claim, detail));
        let templates = self.promised_at(&grant.place, plan);
        for one in &grant.devices {
            let known = if one.promised {
                templates.iter().any(|template| promised(template, one).is_some())
            } else {
                self.device(name(one)).is_some()
            };
            if !known {
                let what = if one.promised { "does not come with the machine" } else { "does not exist" };
                finding(format!("device `{}` of pool `{}` {what}", one.device, one.pool));
            }
        }
        let Some(claim) = self.claims.get(&grant.claim) else { return finding("does not exist".to_owned()) };
        let mut met = BTreeSet::new();
        let by_devices = |request: &&DeviceRequest| !self.is_counted(request, &grant.place, plan);
        for request in claim.requests.iter().filter(by_devices) {
            let ways = request.alternatives();
            let taken = ways.iter().filter_map(|(name, kind)| {
                let devices: Vec<_> = grant.devices.iter().filter(|one| one.request == *name).collect();
                (!devices.is_empty()).then_some((name, *kind, devices))
            });
            let taken: Vec<_> = taken.collect();
            let [(name, kind, devices)] = taken.as_slice() else {
                finding(format!("request `{}` is met in {} ways", request.name, taken.len()));
                continue;
            };
            met.insert((*name).clone());
            let RequestKind::Exactly(asked) = kind else {
                finding(format!("request `{name}` cannot be planned for"));
                continue;
            };
            let (count, least, exact) = match asked.count {
                DeviceCount::Exactly(count) => {
                    (devices.len(), usize::try_from(count).unwrap_or(usize::MAX), true)
                }
                DeviceCount::All => (devices.len(), 1, false),
            };
            if count < least || exact && count > least {
                finding(format!("gets {count} devices, not {least}"));
            }
            for device in devices.iter().filter_map(|one| self.device(self::name(one))) {
                let tolerates =
                    |taint: &Taint| asked.tolerations.iter().any(|toleration| toleration.tolerates(taint));
                if let Some(field) = &device.unsupported {
                    finding(format!("device `{}` has `{field}`", device.name));
                } else if !device.taints.iter().all(tolerates) {
                    finding(format!("does not tolerate the taints of device `{}`", device.name));
                }
            }
        }
        for one in grant.devices.iter().filter(|one| !met.contains(&one.request)) {
            finding(format!("gets device `{}` for `{}`, which it does not ask for", one.device, one.request));
        }
        for constraint in &claim.constraints {
            if let DeviceConstraint::MatchAttribute { requests, attribute } = constraint
                && !self.agree(grant, requests, attribute, &templates)
            {
                finding(format!("gets devices that differ in `{attribute}`"));
            }
        }
    }

    /// Returns whether the devices of `grant` for `requests` have one value of `attribute`, or will have.
    fn agree(
        &self,
        grant: &DeviceGrant,
        requests: &[DeviceRequestName],
        attribute: &QualifiedName,
        templates: &[&DeviceTemplates],
    ) -> bool {
        let concerned = |one: &&GrantedDevice| {
            let request = one.request.as_str();
            let parent = request.split_once('/').map_or(request, |(parent, _)| parent);
            requests.is_empty() || requests.iter().any(|named| *named == request || *named == parent)
        };
        let devices: Vec<&GrantedDevice> = grant.devices.iter().filter(concerned).collect();
        let value = |one: &GrantedDevice, template: Option<&DeviceTemplates>| {
            let device = if one.promised { promised(template?, one) } else { self.device(name(one)) };
            device.and_then(|device| device.attributes.get(attribute)).cloned()
        };
        let agree_by = |template: Option<&DeviceTemplates>| {
            let values: Vec<_> = devices.iter().map(|one| value(one, template)).collect();
            let known =
                values.iter().all(Option::is_some) && values.windows(2).all(|pair| pair[0] == pair[1]);
            known
                || values.iter().all(Option::is_none)
                    && template.is_some_and(|of| bound(of, attribute, &devices))
        };
        if templates.is_empty() { agree_by(None) } else { templates.iter().any(|of| agree_by(Some(*of))) }
    }

    /// Templates of the types that the machine at `place` may turn out to have.
    fn promised_at(&self, place: &GrantPlace, plan: &Plan) -> Vec<&'a DeviceTemplates> {
        let all = &self.snapshot.devices.templates;
        match place {
            GrantPlace::Launch(bin, kind) => {
                let launch = plan.launches.iter().find(|launch| launch.bin == *bin);
                let found = launch.and_then(|launch| all.get(&(launch.pool.clone(), kind.clone())));
                found.map(AsRef::as_ref).into_iter().collect()
            }
            GrantPlace::Machine(id) => {
                let node = self.snapshot.nodes.iter().find(|node| node.id == *id);
                let Some((pool, node)) = node.and_then(|node| Some((node.pool()?, node))) else {
                    return Vec::new();
                };
                let kind = node.instance_type();
                let suits = |(of, name): &(PoolName, InstanceTypeName)| {
                    *of == pool && kind.as_ref().is_none_or(|kind| kind == name)
                };
                all.iter().filter(|(key, _)| suits(key)).map(|(_, template)| template.as_ref()).collect()
            }
        }
    }

    /// Checks that no exclusive device is held twice, and no counter is overdrawn.
    fn overdrawn(&self, plan: &'a Plan, findings: &mut Vec<Finding>) {
        let mut totals: BTreeMap<Meter<'_>, i128> = BTreeMap::new();
        let kept = self.claims.values().filter(|claim| self.keeps(claim));
        for held in kept.flat_map(|claim| claim.allocation.iter().flat_map(|allocation| &allocation.devices))
        {
            for (meter, amount) in self.taken((&held.driver, &held.pool, &held.device)) {
                *totals.entry(meter).or_default() += amount;
            }
        }
        // Devices of each machine, by what it may turn out to be.
        let mut machines: BTreeMap<Holder<'_>, BTreeMap<&GrantPlace, BTreeMap<Meter<'_>, i128>>> =
            BTreeMap::new();
        for grant in &plan.grants {
            let holder = match &grant.place {
                GrantPlace::Machine(node) => Holder::Machine(node.as_str()),
                GrantPlace::Launch(bin, _) => Holder::Launch(bin.0),
            };
            let held = machines.entry(holder).or_default().entry(&grant.place).or_default();
            for one in grant.devices.iter().filter(|one| !one.promised && !self.only_looks(grant, one)) {
                for (meter, amount) in self.taken((&one.driver, &one.pool, &one.device)) {
                    *held.entry(meter).or_default() += amount;
                }
            }
        }
        for places in machines.values() {
            let meters: BTreeSet<&Meter<'_>> = places.values().flat_map(BTreeMap::keys).collect();
            for meter in meters {
                let most = places.values().filter_map(|held| held.get(meter)).max();
                *totals.entry(*meter).or_default() += most.copied().unwrap_or(0);
            }
        }
        for (meter, total) in totals {
            if let (Meter::Device((_, pool, device)), true) = (meter, total > 1) {
                let detail = format!("device of pool `{pool}` is given {total} times");
                findings.push(Finding::new(Rule::Devices, self.takers(plan, meter, device), detail));
            }
            if let Meter::Counter(driver, pool, set, counter) = meter
                && total > self.limit(driver, pool, set, counter)
            {
                let detail = format!("counter of `{set}` in pool `{pool}` is overdrawn");
                findings.push(Finding::new(Rule::Devices, self.takers(plan, meter, counter), detail));
            }
        }
        self.promised_twice(plan, findings);
        self.promised_and_had(plan, findings);
    }

    /// Checks that a machine that is coming up is not given more devices of a driver than its type promises, those that claims
    /// have there already included.
    fn promised_and_had(&self, plan: &Plan, findings: &mut Vec<Finding>) {
        for node in self.snapshot.nodes.iter().filter(|node| !node.initialized()) {
            let place = GrantPlace::Machine(node.id.clone());
            let mut given: BTreeMap<&DriverName, usize> = BTreeMap::new();
            for grant in plan.grants.iter().filter(|grant| grant.place == place) {
                let taken = grant.devices.iter().filter(|one| {
                    one.promised && !self.shared.contains(&one.device) && !self.only_looks(grant, one)
                });
                taken.for_each(|one| *given.entry(&one.driver).or_default() += 1);
            }
            let own = |slice: &&&ResourceSlice| slice.owner.is_some() && slice.owner == node.name;
            let slices: Vec<_> = self.slices.iter().filter(own).collect();
            let templates = self.promised_at(&place, plan);
            for (driver, given) in given {
                let published: BTreeSet<(&DevicePoolName, &DeviceName)> = slices
                    .iter()
                    .filter(|slice| slice.driver == *driver)
                    .flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)))
                    .filter(|(_, device)| !device.shareable)
                    .map(|(slice, device)| (&slice.pool, &device.name))
                    .collect();
                let kept = self.claims.values().filter(|claim| self.keeps(claim));
                let held = kept.flat_map(|claim| claim.allocation.iter().flat_map(|one| &one.devices));
                let had: BTreeSet<_> = held
                    .filter(|one| one.driver == *driver && published.contains(&(&one.pool, &one.device)))
                    .map(|one| (&one.pool, &one.device))
                    .collect();
                let most = templates.iter().map(|template| {
                    let slices = template.slices.iter().filter(|slice| slice.driver == *driver);
                    slices.flat_map(|slice| &slice.devices).filter(|device| !device.shareable).count()
                });
                let most = most.max().unwrap_or(0);
                if given + had.len() > most {
                    let detail =
                        format!("{given} devices of `{driver}` besides {} it has, of {most}", had.len());
                    let here = plan.grants.iter().filter(|grant| grant.place == place);
                    let claims = here.map(|grant| grant.claim.clone()).collect();
                    let subject = Subject::Claims { of: driver.to_string(), claims };
                    findings.push(Finding::new(Rule::Devices, subject, detail));
                }
            }
        }
    }

    /// Checks that no device that comes with a machine is given to two claims there. Shared devices are not
    /// distinguished.
    fn promised_twice(&self, plan: &Plan, findings: &mut Vec<Finding>) {
        let mut given: BTreeSet<(&GrantPlace, &GrantedDevice)> = BTreeSet::new();
        for grant in &plan.grants {
            let taken = |one: &&GrantedDevice| {
                one.promised && !self.shared.contains(&one.device) && !self.only_looks(grant, one)
            };
            for one in grant.devices.iter().filter(taken) {
                if !given.insert((&grant.place, one)) {
                    let alike = plan
                        .grants
                        .iter()
                        .filter(|other| other.place == grant.place && other.devices.contains(one));
                    let claims = alike.map(|other| other.claim.clone()).collect();
                    let subject = Subject::Claims { of: one.device.to_string(), claims };
                    findings.push(Finding::new(Rule::Devices, subject, "is given twice on one machine"));
                }
            }
        }
    }

    /// The claims the plan gives something of `meter`, which is called `of`.
    fn takers(&self, plan: &'a Plan, meter: Meter<'_>, of: impl fmt::Display) -> Subject {
        let takes = |grant: &&'a DeviceGrant| {
            let published = grant.devices.iter().filter(|one| !one.promised);
            let mut taken = published.flat_map(|one| self.taken((&one.driver, &one.pool, &one.device)));
            taken.any(|(taken, _)| taken == meter)
        };
        let claims = plan.grants.iter().filter(takes).map(|grant| grant.claim.clone()).collect();
        Subject::Claims { of: of.to_string(), claims }
    }

    /// Returns the amounts taken with device `name`: itself where it is exclusive, and the counters it draws from.
    fn taken(&self, name: Name<'a>) -> Vec<(Meter<'a>, i128)> {
        let Some(device) = self.device(name) else { return Vec::new() };
        let drawn = device.draws.iter().flat_map(|set| {
            let counters = set.counters.iter();
            counters
                .map(|(counter, amount)| (Meter::Counter(name.0, name.1, &set.name, counter), amount.nanos()))
        });
        let own = (!device.shareable).then_some((Meter::Device(name), 1));
        own.into_iter().chain(drawn).collect()
    }

    /// Returns the limit of a counter.
    fn limit(
        &self,
        driver: &DriverName,
        pool: &DevicePoolName,
        set: &CounterName,
        counter: &CounterName,
    ) -> i128 {
        let slices = self.slices.iter().filter(|slice| slice.driver == *driver && slice.pool == *pool);
        let sets = slices.flat_map(|slice| &slice.counters).filter(|known| known.name == *set);
        sets.filter_map(|known| known.counters.get(counter)).map(|amount| amount.nanos()).sum()
    }

    fn device(&self, (driver, pool, name): Name<'_>) -> Option<&'a Device> {
        let slices = self.slices.iter().filter(|slice| slice.driver == *driver && slice.pool == *pool);
        slices.flat_map(|slice| &slice.devices).find(|device| device.name == *name)
    }
}
