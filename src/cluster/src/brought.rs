//! Devices that new machines will bring along: as the cloud describes a type, and as nodes of the type have shown.
//!
//! Drivers publish devices once a node is up, and a plan has to foresee them (spec scheduling 22.2). The cloud describes
//! those of some drivers. Of every other driver, nodes that are initialized tell: the youngest node of a pool and type that
//! published devices of the driver says which there are, and an attribute counts where the last nodes agree in it. Where
//! they do not, what holds on each of them is kept as a binding: devices under one root of the bus are so on the next node too,
//! whatever it is called there. Taints are about one device and are not passed on.
//!
//! A description counts until the youngest node that was launched for devices of its driver has fewer or other ones: from
//! then on the nodes count. Otherwise the same node would be bought for the same pods again.
//!
//! What nodes have shown is forgotten when the node class changes, and with a node that has drifted. It is in memory only:
//! after a restart it is read off the nodes that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::device::{AttributeBinding, AttributeValue, Device, DeviceTemplates, SliceTemplate};
use karpenter_model::names::annotation;
use karpenter_model::{
    Claim, ClaimName, ConditionType, DeviceName, DevicePoolName, DriverName, InstanceTypeName, NodeName,
    PoolName, QualifiedName, ResourceSlice,
};

/// Number of nodes of one pool and type that attributes are compared on.
const NODES: usize = 8;

/// Driver, pool and name of a device.
type Name = (DriverName, DevicePoolName, DeviceName);

/// Devices of nodes, by the pool and the type of the node.
#[derive(Debug, Default)]
pub(crate) struct Brought {
    pools: BTreeMap<PoolName, BTreeMap<InstanceTypeName, Nodes>>,
}

/// The last nodes of one pool and type, by age.
type Nodes = BTreeMap<(Timestamp, ClaimName), Published>;

/// A node whose devices are others than its type was to bring along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The claim of the node, which may have gone since.
    pub claim: ClaimName,
    /// Driver of the devices.
    pub driver: DriverName,
    /// Devices that there are instead of those expected.
    pub difference: String,
}

/// Devices of one node.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    slices: Vec<SliceTemplate>,
    /// Drivers whose devices the node was launched for.
    launched_for: BTreeSet<String>,
}

impl Brought {
    /// Looks at the slices of the Node of a claim.
    pub(crate) fn look<'s>(
        &mut self,
        claim: &Claim,
        node: &NodeName,
        slices: impl Iterator<Item = &'s Arc<ResourceSlice>>,
    ) {
        let (Some(pool), Some(kind)) = (&claim.pool, claim.instance_type()) else { return };
        let key = (claim.created_at, claim.name.clone());
        if claim.is_true(ConditionType::Drifted) {
            if let Some(nodes) = self.pools.get_mut(pool).and_then(|types| types.get_mut(&kind)) {
                nodes.remove(&key);
            }
            return;
        }
        if !claim.is_true(ConditionType::Initialized) {
            return;
        }
        let slices = complete(node, slices);
        // A driver that starts again publishes nothing for a while.
        if slices.is_empty() {
            return;
        }
        let drivers = claim.annotations.get(annotation::REQUESTED_DRIVERS).map(String::as_str);
        let launched_for = drivers.unwrap_or_default().split(',').map(str::to_owned).collect();
        let nodes = self.pools.entry(pool.clone()).or_default().entry(kind).or_default();
        nodes.insert(key, Published { slices, launched_for });
        while nodes.len() > NODES {
            nodes.pop_first();
        }
    }

    /// Forgets what nodes of a pool have shown.
    pub(crate) fn forget(&mut self, pool: &PoolName) {
        self.pools.remove(pool);
    }

    /// The nodes of this pool and type that have other devices than the cloud describes, with the difference.
    pub(crate) fn contradictions(
        &self,
        pool: &PoolName,
        kind: &InstanceTypeName,
        described: &DeviceTemplates,
    ) -> Vec<Contradiction> {
        let Some(nodes) = self.pools.get(pool).and_then(|types| types.get(kind)) else { return Vec::new() };
        let published: Vec<&Published> = nodes.values().rev().collect();
        let drivers: BTreeSet<&DriverName> = described.slices.iter().map(|slice| &slice.driver).collect();
        let of_driver = |driver: &DriverName| {
            let (node, difference) = contradicting(driver, &published, described)?;
            let ((_, claim), _) = nodes.iter().find(|(_, known)| std::ptr::eq(*known, node))?;
            Some(Contradiction { claim: claim.clone(), driver: driver.clone(), difference })
        };
        drivers.into_iter().filter_map(of_driver).collect()
    }

    /// The devices that a machine of this pool and type will bring along; the cloud describes them as `described`.
    pub(crate) fn templates(
        &self,
        pool: &PoolName,
        kind: &InstanceTypeName,
        described: Option<&Arc<DeviceTemplates>>,
    ) -> Option<Arc<DeviceTemplates>> {
        let nodes = self.pools.get(pool).and_then(|types| types.get(kind)).filter(|nodes| !nodes.is_empty());
        let Some(nodes) = nodes else { return described.cloned() };
        let nodes: Vec<&Published> = nodes.values().rev().collect();
        let shown: BTreeMap<&DriverName, &Published> = nodes
            .iter()
            .flat_map(|node| node.drivers())
            .filter_map(|driver| Some((driver, counts(driver, &nodes, described.map(AsRef::as_ref))?)))
            .collect();
        if shown.is_empty() {
            return described.cloned();
        }
        let is_shown = |driver: &DriverName| shown.contains_key(driver);
        let mut templates = described.map(|described| (**described).clone()).unwrap_or_default();
        templates.slices.retain(|slice| !is_shown(&slice.driver));
        templates.bindings.retain(|binding| !binding.devices.iter().any(|(driver, _, _)| is_shown(driver)));
        for (driver, node) in &shown {
            templates.slices.extend(node.slices.iter().filter(|slice| slice.driver == **driver).cloned());
        }
        compare(&mut templates, &nodes, is_shown);
        Some(Arc::new(templates))
    }
}

impl Published {
    fn drivers(&self) -> impl Iterator<Item = &DriverName> {
        self.slices.iter().map(|slice| &slice.driver)
    }

    fn devices(&self, driver: &DriverName) -> Vec<&Device> {
        devices(&self.slices, driver)
    }
}

/// The node that shows what devices of `driver` there will be; `None` where the description does. `nodes` begin with the
/// youngest.
fn counts<'n>(
    driver: &DriverName,
    nodes: &[&'n Published],
    described: Option<&DeviceTemplates>,
) -> Option<&'n Published> {
    match described.filter(|of| of.slices.iter().any(|slice| slice.driver == *driver)) {
        Some(described) => contradicting(driver, nodes, described).map(|(node, _)| node),
        None => nodes.iter().copied().find(|node| node.drivers().any(|known| known == driver)),
    }
}

/// The youngest node that was launched for devices of `driver`, if it has others than are described, and the difference.
/// A node that was launched for something else may lack what comes on request, such as network adapters.
fn contradicting<'n>(
    driver: &DriverName,
    nodes: &[&'n Published],
    described: &DeviceTemplates,
) -> Option<(&'n Published, String)> {
    let has = |node: &&Published| {
        node.launched_for.contains(driver.as_str()) && node.drivers().any(|known| known == driver)
    };
    let youngest = nodes.iter().copied().find(has)?;
    Some((youngest, difference(youngest, described, driver)?))
}

fn devices<'s>(slices: &'s [SliceTemplate], driver: &DriverName) -> Vec<&'s Device> {
    slices.iter().filter(|slice| slice.driver == *driver).flat_map(|slice| &slice.devices).collect()
}

/// How the devices of `driver` on `node` differ from those that are described; `None` if it has at least these, whatever they
/// are called.
fn difference(node: &Published, described: &DeviceTemplates, driver: &DriverName) -> Option<String> {
    let mut left = node.devices(driver);
    let mut wanted = devices(&described.slices, driver);
    if left.len() < wanted.len() {
        return Some(format!("{} devices instead of {}", left.len(), wanted.len()));
    }
    // Those that say most about themselves have the least choice.
    wanted.sort_by_key(|device| std::cmp::Reverse(device.attributes.len() + device.capacity.len()));
    for wanted in wanted {
        let Some(found) = left.iter().position(|device| unlike(device, wanted).is_none()) else {
            let other = left.first().and_then(|device| unlike(device, wanted));
            return Some(format!("{} instead of `{}`", other.unwrap_or_default(), wanted.name));
        };
        left.swap_remove(found);
    }
    agreements(described, driver).into_iter().find_map(|(attribute, described)| {
        let mut shared: BTreeMap<&AttributeValue, usize> = BTreeMap::new();
        for value in node.devices(driver).iter().filter_map(|device| device.attributes.get(attribute)) {
            *shared.entry(value).or_default() += 1;
        }
        let mut shared: Vec<usize> = shared.into_values().collect();
        shared.sort_unstable_by(|one, other| other.cmp(one));
        let bears_out = described.len() <= shared.len()
            && described.iter().zip(&shared).all(|(wanted, had)| wanted <= had);
        (!bears_out).then(|| format!("fewer devices with the same `{attribute}`"))
    })
}

/// What keeps `device` from standing for `wanted`.
fn unlike(device: &Device, wanted: &Device) -> Option<String> {
    let other = |what: &QualifiedName| format!("device `{}` with another `{what}`", device.name);
    let attribute =
        wanted.attributes.iter().find(|(name, value)| device.attributes.get(*name) != Some(*value));
    let capacity = wanted.capacity.iter().find(|(name, amount)| {
        let had = device.capacity.get(*name);
        had.is_none_or(|had| had.value < amount.value || had.policy != amount.policy)
    });
    match (attribute, capacity) {
        (Some((name, _)), _) | (_, Some((name, _))) => Some(other(name)),
        _ if device.shareable != wanted.shareable => {
            Some(format!("device `{}`, shared otherwise,", device.name))
        }
        _ => device.unsupported.as_ref().map(|field| format!("device `{}` with `{field}`", device.name)),
    }
}

/// By attribute, how many devices of `driver` are described as sharing one value of it, the most first.
fn agreements<'t>(
    described: &'t DeviceTemplates,
    driver: &DriverName,
) -> BTreeMap<&'t QualifiedName, Vec<usize>> {
    let mut sizes: BTreeMap<&QualifiedName, Vec<usize>> = BTreeMap::new();
    for binding in &described.bindings {
        let devices = binding.devices.iter().filter(|(of, _, _)| of == driver).count();
        if devices > 0 {
            sizes.entry(&binding.attribute).or_default().push(devices);
        }
    }
    for sizes in sizes.values_mut() {
        sizes.sort_unstable_by(|one, other| other.cmp(one));
    }
    sizes
}

/// Keeps those attributes of devices that the nodes agree in, and binds devices that have the same value on each node.
fn compare(templates: &mut DeviceTemplates, nodes: &[&Published], is_shown: impl Fn(&DriverName) -> bool) {
    let seen: Vec<BTreeMap<Name, &Device>> = nodes.iter().map(|node| by_name(&node.slices)).collect();
    let mut alike: BTreeMap<(QualifiedName, Vec<Option<&AttributeValue>>), Vec<Name>> = BTreeMap::new();
    for slice in templates.slices.iter_mut().filter(|slice| is_shown(&slice.driver)) {
        for device in &mut slice.devices {
            let name = (slice.driver.clone(), slice.pool.clone(), device.name.clone());
            device.attributes.retain(|attribute, value| {
                let there: Vec<Option<&Device>> = seen.iter().map(|of| of.get(&name).copied()).collect();
                let differs = |device: &&Device| device.attributes.get(attribute) != Some(&*value);
                if !there.iter().flatten().any(differs) {
                    return true;
                }
                let values =
                    there.iter().map(|device| device.and_then(|device| device.attributes.get(attribute)));
                alike.entry((attribute.clone(), values.collect())).or_default().push(name.clone());
                false
            });
        }
    }
    let bindings = alike.into_iter().map(|((attribute, _), devices)| AttributeBinding { attribute, devices });
    templates.bindings.extend(bindings);
}

fn by_name(slices: &[SliceTemplate]) -> BTreeMap<Name, &Device> {
    let named = |slice: &'_ SliceTemplate, device: &Device| {
        (slice.driver.clone(), slice.pool.clone(), device.name.clone())
    };
    let devices = slices.iter().flat_map(|slice| slice.devices.iter().map(move |device| (slice, device)));
    devices.map(|(slice, device)| (named(slice, device), device)).collect()
}

/// The complete pools among `slices`, as templates: without taints, and with pools named alike on every node.
fn complete<'s>(node: &NodeName, slices: impl Iterator<Item = &'s Arc<ResourceSlice>>) -> Vec<SliceTemplate> {
    let mut pools: BTreeMap<(&DriverName, &DevicePoolName), Vec<&ResourceSlice>> = BTreeMap::new();
    for slice in slices {
        pools.entry((&slice.driver, &slice.pool)).or_default().push(slice);
    }
    let mut templates = Vec::new();
    for ((driver, pool), mut slices) in pools {
        let newest = slices.iter().map(|slice| slice.generation).max();
        slices.retain(|slice| Some(slice.generation) == newest);
        let declared = slices.first().map_or(0, |slice| slice.slice_count);
        if !usize::try_from(declared).is_ok_and(|declared| declared == slices.len()) {
            continue;
        }
        slices.sort_by(|one, other| one.name.cmp(&other.name));
        let pool = DevicePoolName::from(pool.as_str().replace(node.as_str(), "node").as_str());
        let devices = |slice: &ResourceSlice| {
            let untainted = |device: &Device| Device { taints: Vec::new(), ..device.clone() };
            slice.devices.iter().map(untainted).collect()
        };
        templates.extend(slices.into_iter().map(|slice| SliceTemplate {
            driver: driver.clone(),
            pool: pool.clone(),
            counters: slice.counters.clone(),
            devices: devices(slice),
        }));
    }
    templates
}

#[cfg(test)]
mod tests;
