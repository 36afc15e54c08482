//! The vocabulary every crate speaks: pure data and its own algebra, no I/O, no clock, no randomness.
//!
//! Names are newtypes ([`id`]), amounts are exact integers ([`quantity`], [`money`]), node constraints are a
//! small closed algebra ([`requirement`], [`requirement_set`]). A [`snapshot::Snapshot`] is the whole input of
//! one pass, a [`plan::Plan`] its fully specified output and a [`report::Report`] the reason for every line.
//! Collections that reach an output are ordered, so the same input gives the same bytes.

pub mod affinity;
pub mod buffer;
pub mod claim;
pub mod clock;
pub mod command;
pub mod condition;
pub mod device;
pub mod host_port;
pub mod id;
pub mod instance_type;
pub mod label;
pub mod label_syntax;
pub mod limit_range;
pub mod money;
pub mod node;
pub mod node_object;
pub mod notice;
pub mod overlay;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod quantity;
pub mod report;
pub mod requirement;
pub mod requirement_set;
pub mod resources;
pub mod selector;
pub mod settings;
pub mod snapshot;
pub mod taint;
pub mod volume;

pub use affinity::{
    AffinityTerm, NodeInclusion, PodAffinity, SpreadConstraint, WeightedAffinityTerm, WhenUnsatisfiable,
};
pub use buffer::{Buffer, Like};
pub use claim::Claim;
pub use clock::{Clock, ManualClock};
pub use command::{Command, CommandDecision, Method};
pub use condition::{Condition, ConditionStatus, ConditionType};
pub use device::{Devices, ResourceClaim, ResourceClaimKey, ResourceSlice};
pub use host_port::{HostPort, HostPorts, Protocol};
pub use id::{
    BinId, BufferKey, BufferName, CapacityType, ClaimName, ClaimUid, CounterName, DaemonSetName,
    DeviceClassName, DeviceName, DevicePoolName, DeviceRequestName, DriverName, ImageId, InstanceTypeName,
    LabelKey, LabelValue, Namespace, NodeClassRef, NodeId, NodeName, OverlayName, OwnerUid, PlanId, PodKey,
    PodName, PodUid, PoolName, PoolUid, ProviderId, QualifiedName, Region, ReservationId, ResourceClaimName,
    ResourceName, VolumeClaimName, Zone,
};
pub use instance_type::{InstanceType, Offering, Overhead, Overlaid, Reservation};
pub use label::{Annotations, LabelRegistry, Labels};
pub use money::Price;
pub use node::Node;
pub use node_object::{NodeCondition, NodeObject};
pub use notice::NoticeKind;
pub use overlay::{Overlay, PriceChange};
pub use plan::{
    DeviceGrant, GrantPlace, GrantedDevice, Launch, Nomination, OfferingRef, Plan, RemovalTarget, Target,
};
pub use pod::{DoNotDisrupt, NodeTerm, Pod, PodOwner, PodPhase};
pub use pool::{Budget, BudgetNodes, ConsolidationPolicy, Disruption, DisruptionReason, Pool, Template};
pub use quantity::Quantity;
pub use report::{NodeOutcome, PodOutcome, PoolOutcome, PoolRefusal, Reason, Report};
pub use requirement::{Expression, Operator, Requirement};
pub use requirement_set::{Incompatibility, Requirements, SharedRequirements, Undefined};
pub use resources::Resources;
pub use selector::LabelSelector;
pub use settings::{DisruptionSettings, Settings};
pub use snapshot::{Daemon, PodBudgets, PodDisruptionBudget, Snapshot};
pub use taint::{Effect, Taint, Toleration, TolerationOperator};
pub use volume::{Volume, VolumeClaim};
