//! The output of a pass: what to do, with nothing left to choose.

pub mod command;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::device::ResourceClaimKey;
use crate::id::{
    BinId, CapacityType, ClaimName, DeviceName, DevicePoolName, DeviceRequestName, DriverName,
    InstanceTypeName, NodeClassRef, NodeId, NodeName, PodKey, PoolName, Zone,
};
use crate::label::{Annotations, LabelRegistry, Labels};
use crate::money::Price;
use crate::names::{annotation, label};
use crate::plan::command::Command;
use crate::pool::Pool;
use crate::requirement::set::Requirements;
use crate::resources::Resources;
use crate::settings::Settings;
use crate::taint::Taint;

/// Most instance types a claim may offer (spec scheduling 14).
pub const MAX_INSTANCE_TYPES: usize = 600;

/// Actions that bring the snapshot closer to what its pods need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Plan {
    /// Revision of the snapshot it was made from; a plan for another revision is stale.
    pub revision: u64,
    /// Claims to create.
    pub launches: Vec<Launch>,
    /// Pods that existing or coming capacity will take.
    pub nominations: Vec<Nomination>,
    /// Machines to remove, and what takes their place. Launches of a command are its own, not among `launches`.
    pub commands: Vec<Command>,
    /// Devices that claims will get, as planned; the Kubernetes scheduler allocates them. Not those of commands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<DeviceGrant>,
}

/// Devices a claim will get on a machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DeviceGrant {
    /// Namespace and name of the claim.
    pub claim: ResourceClaimKey,
    /// The machine.
    pub place: GrantPlace,
    pub devices: Vec<GrantedDevice>,
}

/// The machine on which a claim is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum GrantPlace {
    /// A machine that exists or is coming up.
    Machine(NodeId),
    /// A machine that will be launched, if it is of this type.
    Launch(BinId, InstanceTypeName),
}

/// A device a claim will get.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GrantedDevice {
    /// The request it is for; of one with alternatives the one that is met, as `request/alternative`.
    pub request: DeviceRequestName,
    /// Its driver.
    pub driver: DriverName,
    pub pool: DevicePoolName,
    pub device: DeviceName,
    /// The machine brings it along; it is not published yet.
    pub promised: bool,
}

/// One claim to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Number inside the plan.
    pub bin: BinId,
    /// Pool it belongs to; the object is named `<pool>-` plus a suffix.
    pub pool: PoolName,
    /// Hash of the pool template the plan was made with.
    pub pool_hash: String,
    /// Labels of the claim.
    pub labels: Labels,
    /// Annotations of the claim.
    pub annotations: Annotations,
    /// Requirements of the claim, instance types and capacity types included.
    pub requirements: Requirements,
    pub taints: Vec<Taint>,
    pub startup_taints: Vec<Taint>,
    pub node_class: NodeClassRef,
    /// Age at which it expires; `None` is `Never`.
    pub expire_after: Option<Duration>,
    /// Longest time its drain may take.
    pub termination_grace_period: Option<Duration>,
    /// Requests of its pods plus the least daemon overhead.
    pub requests: Resources,
    /// Candidates in price order, 1 to [`MAX_INSTANCE_TYPES`]; none for a machine of a static pool, whose type the
    /// provider chooses among all that `requirements` allow. Shared: machines of one plan are often alike.
    pub instance_types: Arc<[InstanceTypeName]>,
    /// The cheapest way to launch it as far as known.
    pub cheapest: Option<OfferingRef>,
    pub pods: Vec<PodKey>,
}

impl Launch {
    /// One machine as the template of `pool` describes it, nothing narrowed: for pools with a fixed number of nodes
    /// (spec disruption 4.3).
    pub fn from_template(pool: &Pool, settings: &Settings, registry: &LabelRegistry) -> Self {
        let template = &pool.template;
        let mut labels = template.labels.clone();
        labels.insert(label::NODE_POOL.into(), pool.name.as_str().into());
        labels.insert(template.node_class.label_key(), template.node_class.name.as_str().into());
        let mut requirements = template.requirements.clone();
        requirements.add_all(&Requirements::from_labels(registry, &labels));
        requirements.remove(label::HOSTNAME);
        for requirement in requirements.iter().filter(|own| !registry.is_well_known(own.key().as_str())) {
            if !labels.contains_key(requirement.key()) {
                labels.extend(requirement.any().map(|value| (requirement.key().clone(), value)));
            }
        }
        let mut annotations = template.annotations.clone();
        annotations.insert(annotation::POOL_HASH.into(), pool.hash.clone());
        annotations.insert(annotation::POOL_HASH_VERSION.into(), crate::pool::HASH_VERSION.into());
        annotations.insert(annotation::MIN_VALUES_RELAXED.into(), false.to_string());
        Self {
            bin: BinId(1),
            pool: pool.name.clone(),
            pool_hash: pool.hash.clone(),
            labels,
            annotations,
            requirements,
            taints: template.taints.clone(),
            startup_taints: template.startup_taints.clone(),
            node_class: template.node_class.clone(),
            expire_after: template.expire_after,
            termination_grace_period: template
                .termination_grace_period
                .or(settings.default_termination_grace_period),
            requests: Resources::new(),
            instance_types: Arc::default(),
            cheapest: None,
            pods: Vec::new(),
        }
    }
}

/// One offering of one instance type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferingRef {
    pub instance_type: InstanceTypeName,
    pub zone: Zone,
    pub capacity_type: CapacityType,
    /// Price per hour.
    pub price: Price,
}

/// A pod that will fit where capacity is or is coming.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Nomination {
    pub pod: PodKey,
    /// Node or claim it will fit on.
    pub target: Target,
}

/// A machine by the name that exists for it already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Target {
    Node(NodeName),
    /// A claim whose Node has not joined yet.
    Claim(ClaimName),
}

/// The names of a machine to remove.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RemovalTarget {
    /// Key in the cluster index.
    pub id: NodeId,
    /// Claim to delete.
    pub claim: ClaimName,
    /// Node to taint first.
    pub node: NodeName,
}
