//! Devices that drivers publish, and who has them (`resource.k8s.io/v1`; spec scheduling 22.2).
//!
//! Names of attributes and capacities always carry their domain here: one written without belongs to the driver.

mod claim;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::{
    CounterName, DeviceClassName, DeviceName, DevicePoolName, DriverName, InstanceTypeName, NodeName,
    PoolName, QualifiedName,
};
use crate::requirement::Expression;
use crate::resources::quantity::Quantity;
use crate::taint::Taint;

pub use claim::{
    AllocatedDevice, Allocation, Consumer, DeviceConstraint, DeviceCount, DeviceRequest, ExactRequest,
    MAX_DEVICES_PER_CLAIM, RequestKind, ResourceClaim, ResourceClaimKey,
};

/// Every device a pass may look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Devices {
    /// What drivers have published.
    pub slices: Vec<Arc<ResourceSlice>>,
    /// Classes of devices.
    pub classes: BTreeMap<DeviceClassName, Arc<DeviceClass>>,
    /// Claims for devices.
    pub claims: BTreeMap<ResourceClaimKey, Arc<ResourceClaim>>,
    /// What machines will bring along; a pool and type that are missing bring nothing.
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
    /// Where its devices can be reached.
    pub reach: Reach,
    /// Counters devices of the pool share.
    pub counters: Vec<CounterSet>,
    /// Its devices.
    pub devices: Vec<Device>,
}

/// Where devices can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Everywhere.
    Everywhere,
    /// On this Node.
    Node(NodeName),
    /// Where one of the terms holds.
    Selected(Vec<PlaceTerm>),
    /// Nowhere a planner could tell: each device has a selection of its own.
    Unknown,
}

/// A conjunction about a Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlaceTerm {
    /// What its labels must be.
    pub expressions: Vec<Expression>,
    /// What its name must be, if that matters.
    pub names: Option<Vec<NodeName>>,
    /// The term asks for something else, so it never holds.
    pub unsupported: bool,
}

/// Counters that devices of a pool draw from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterSet {
    /// Its name, unique in the pool.
    pub name: CounterName,
    /// How much there is of each.
    pub counters: BTreeMap<CounterName, Quantity>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its name, unique in the pool.
    pub name: DeviceName,
    /// What selectors and constraints look at.
    pub attributes: BTreeMap<QualifiedName, AttributeValue>,
    /// What selectors look at, and what claims take of a device that is shared.
    pub capacity: BTreeMap<QualifiedName, DeviceCapacity>,
    /// What it draws from the counters of its pool while in use.
    pub draws: Vec<CounterSet>,
    /// Several claims may have it at the same time (`allowMultipleAllocations`).
    pub shareable: bool,
    /// What keeps claims away that do not tolerate it.
    pub taints: Vec<Taint>,
    /// It works in a way that cannot be planned for, by the name of the field; no claim gets it.
    pub unsupported: Option<String>,
}

/// The value of an attribute; values of different kinds are never equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AttributeValue {
    /// A number.
    Int(i64),
    /// A truth.
    Bool(bool),
    /// A text.
    Text(String),
    /// A semantic version.
    Version(String),
}

/// A capacity of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCapacity {
    /// How much there is.
    pub value: Quantity,
    /// How requests are rounded; without one they are taken as they are.
    pub policy: Option<CapacityPolicy>,
}

/// How requests for a capacity are rounded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapacityPolicy {
    /// What a claim takes that asks for nothing.
    pub default: Option<Quantity>,
    /// What may be taken.
    pub values: CapacityValues,
}

/// Amounts that may be taken of a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CapacityValues {
    /// Any.
    #[default]
    Any,
    /// These, in any order.
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

/// A `DeviceClass`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceClass {
    /// CEL expressions, all of which must hold.
    pub selectors: Vec<String>,
}

/// What a new machine of one type will publish once it is up. The AWS provider knows of none.
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
    /// Its devices.
    pub devices: Vec<Device>,
}

/// Devices of one machine that will have the same value of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributeBinding {
    /// The attribute.
    pub attribute: QualifiedName,
    /// The devices.
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
