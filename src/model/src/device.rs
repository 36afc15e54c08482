//! Devices that drivers publish, and the claims that have them (`resource.k8s.io/v1`; spec scheduling 22.2).
//!
//! Names of attributes and capacities always carry their domain here: one written without belongs to the driver.

mod claim;
mod resource;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::id::{
    CounterName, DeviceClassName, DeviceName, DevicePoolName, DriverName, InstanceTypeName, NodeName,
    PoolName, QualifiedName, ResourceName,
};
use crate::requirement::Expression;
use crate::resources::quantity::Quantity;
use crate::taint::Taint;

pub use claim::{
    AllocatedDevice, Allocation, ClaimTemplate, Consumer, DeviceConstraint, DeviceCount, DeviceRequest,
    ExactRequest, MAX_DEVICES_PER_CLAIM, RequestKind, ResourceClaim, ResourceClaimKey,
};

/// Every device a pass may look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Devices {
    /// Slices that drivers have published.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// Classes of devices.
    pub classes: BTreeMap<DeviceClassName, Arc<DeviceClass>>,
    /// Claims for devices.
    pub claims: BTreeMap<ResourceClaimKey, Arc<ResourceClaim>>,
    /// Devices that new machines will bring along; a pool and type that are missing bring nothing.
    pub templates: BTreeMap<(PoolName, InstanceTypeName), Arc<DeviceTemplates>>,
}

/// A `ResourceSlice`: some devices of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceSlice {
    /// Name of the object.
    pub name: String,
    /// The Node that owns the object, if one does.
    pub owner: Option<NodeName>,
    /// Driver that publishes it.
    pub driver: DriverName,
    /// Pool its devices belong to.
    pub pool: DevicePoolName,
    /// Generation of the pool; only the newest one counts.
    pub generation: i64,
    /// Slices the pool has in this generation.
    pub slice_count: i64,
    /// Nodes that reach its devices.
    pub reach: Reach,
    /// Counters devices of the pool share.
    pub counters: Vec<CounterSet>,
    pub devices: Vec<Device>,
}

/// Nodes that reach a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    Everywhere,
    Node(NodeName),
    /// On Nodes for which one of the terms holds.
    Selected(Vec<PlaceTerm>),
    /// Nowhere a planner could tell: each device has a selection of its own.
    Unknown,
}

/// A conjunction about a Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaceTerm {
    /// Expressions that its labels must satisfy.
    pub expressions: Vec<Expression>,
    /// Names it may have; `None` for any.
    pub names: Option<Vec<NodeName>>,
    /// The term demands something else, so it never holds.
    pub unsupported: bool,
}

/// Counters that devices of a pool draw from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    /// Its name, unique in the pool.
    pub name: CounterName,
    /// Amount of each counter.
    pub counters: BTreeMap<CounterName, Quantity>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name, unique in the pool.
    pub name: DeviceName,
    /// Attributes, for selectors and constraints.
    pub attributes: BTreeMap<QualifiedName, AttributeValue>,
    /// Capacities, for selectors, and for claims that take a part of a shared device.
    pub capacity: BTreeMap<QualifiedName, DeviceCapacity>,
    /// Amounts it draws from the counters of its pool while in use.
    pub draws: Vec<CounterSet>,
    /// Several claims may have it at the same time (`allowMultipleAllocations`).
    pub shareable: bool,
    /// Taints that keep claims away that do not tolerate them.
    pub taints: Vec<Taint>,
    /// Name of the field by which the device cannot be planned for; no claim gets it.
    pub unsupported: Option<String>,
}

/// The value of an attribute; values of different kinds are never equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeValue {
    /// A number.
    Int(i64),
    /// A truth.
    Bool(bool),
    Text(String),
    /// A semantic version.
    Version(String),
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCapacity {
    /// Total amount.
    pub value: Quantity,
    /// Rounding of requests; without a policy they are taken as they are.
    pub policy: Option<CapacityPolicy>,
}

/// Rounding of requests for a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapacityPolicy {
    /// Amount for a claim that requests none.
    pub default: Option<Quantity>,
    /// Amounts that may be taken.
    pub values: CapacityValues,
}

/// Amounts that may be taken of a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CapacityValues {
    #[default]
    Any,
    /// One of these amounts, in any order.
    OneOf(Vec<Quantity>),
    /// From `min` in steps of `step` up to `max`.
    Range {
        /// The least.
        min: Quantity,
        /// The most.
        max: Option<Quantity>,
        /// The distance of two neighbours.
        step: Option<Quantity>,
    },
}

/// A taint that a `DeviceTaintRule` puts on devices; what it leaves open is any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceTaintRule {
    /// Driver of the devices.
    pub driver: Option<DriverName>,
    /// Pool of the devices.
    pub pool: Option<DevicePoolName>,
    /// Name of the devices.
    pub device: Option<DeviceName>,
    /// The taint.
    pub taint: Taint,
}

impl DeviceTaintRule {
    /// Returns `slice` with the taint on its devices that the rule is about; `None` when there are none.
    pub fn on(&self, slice: &ResourceSlice) -> Option<ResourceSlice> {
        let is_of_pool = self.driver.as_ref().is_none_or(|driver| *driver == slice.driver)
            && self.pool.as_ref().is_none_or(|pool| *pool == slice.pool);
        let is_named = |device: &Device| self.device.as_ref().is_none_or(|name| *name == device.name);
        if !is_of_pool || !slice.devices.iter().any(is_named) {
            return None;
        }
        let mut slice = slice.clone();
        slice.devices.iter_mut().filter(|device| is_named(device)).for_each(|device| {
            device.taints.push(self.taint.clone());
        });
        Some(slice)
    }
}

/// A `DeviceClass`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceClass {
    /// CEL expressions, all of which must hold.
    pub selectors: Vec<String>,
    /// Resource its devices stand for on nodes that have none of it (`extendedResourceName`).
    pub extended_resource: Option<ResourceName>,
    /// Creation time: of two classes for one resource the younger counts.
    pub created_at: Timestamp,
}

/// Slices that a new machine of one type will publish once it is up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceTemplates {
    /// The slices, all of them local to the machine.
    pub slices: Vec<SliceTemplate>,
    /// Devices whose values will be equal, whatever they are.
    pub bindings: Vec<AttributeBinding>,
}

/// A slice a machine will publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceTemplate {
    /// Driver that will publish it.
    pub driver: DriverName,
    /// Pool, a name that only means something inside the type.
    pub pool: DevicePoolName,
    /// Counters devices of the pool share.
    pub counters: Vec<CounterSet>,
    pub devices: Vec<Device>,
}

/// Devices of one machine that will have the same value of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeBinding {
    pub attribute: QualifiedName,
    pub devices: Vec<(DriverName, DevicePoolName, DeviceName)>,
}

impl QualifiedName {
    /// The name `text`, which belongs to `driver` unless it says otherwise.
    pub fn within(text: &str, driver: &str) -> Self {
        if text.contains('/') { text.into() } else { format!("{driver}/{text}").into() }
    }

    /// Domain and name inside it.
    pub fn parts(&self) -> (&str, &str) {
        self.as_str().split_once('/').unwrap_or(("", self.as_str()))
    }
}
