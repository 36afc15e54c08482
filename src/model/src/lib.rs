//! The vocabulary every crate speaks: pure data and its own algebra, no I/O, no clock, no randomness.
//!
//! Names are newtypes ([`id`]), those that others read and write too are spelt in [`names`], amounts are exact integers ([`resources::quantity`], [`money`]), node constraints are a
//! small closed algebra ([`requirement`], [`requirement::set`]). A [`snapshot::Snapshot`] is the whole input of
//! one pass, a [`plan::Plan`] its fully specified output and a [`report::Report`] the reason for every line.
//! Collections that reach an output are ordered, so the same input gives the same bytes.

pub mod buffer;
pub mod claim;
pub mod clock;
pub mod device;
pub mod id;
pub mod instance_type;
pub mod label;
pub mod money;
pub mod names;
pub mod node;
pub mod notice;
pub mod plan;
pub mod pod;
pub mod pool;
pub mod report;
pub mod requirement;
pub mod resources;
pub mod settings;
pub mod snapshot;
pub mod taint;

pub use buffer::{Buffer, Like};
pub use claim::Claim;
pub use claim::condition::{Condition, ConditionStatus, ConditionType};
pub use clock::{Clock, ManualClock};
pub use device::{Devices, ResourceClaim, ResourceClaimKey, ResourceSlice};
pub use id::{
    BinId, BufferKey, BufferName, CapacityType, ClaimName, ClaimUid, CounterName, DaemonSetName,
    DeviceClassName, DeviceName, DevicePoolName, DeviceRequestName, DriverName, ImageId, InstanceTypeName,
    LabelKey, LabelValue, Namespace, NodeClassRef, NodeId, NodeName, OverlayName, OwnerUid, PlanId, PodKey,
    PodName, PodUid, PoolName, PoolUid, ProviderId, QualifiedName, Region, ReservationId, ResourceClaimName,
    ResourceName, VolumeClaimName, Zone,
};
pub use instance_type::overlay::{Overlay, PriceChange};
pub use instance_type::{InstanceType, Offering, Overhead, Overlaid, Reservation};
pub use label::selector::LabelSelector;
pub use label::{Annotations, LabelRegistry, Labels};
pub use money::Price;
pub use node::Node;
pub use node::object::{NodeCondition, NodeConditions, NodeObject};
pub use node::repair;
pub use notice::NoticeKind;
pub use plan::command::{Command, CommandDecision, Method};
pub use plan::{
    DeviceGrant, GrantPlace, GrantedDevice, Launch, Nomination, OfferingRef, Plan, RemovalTarget, Target,
};
pub use pod::affinity::{
    AffinityTerm, NodeInclusion, PodAffinity, SpreadConstraint, WeightedAffinityTerm, WhenUnsatisfiable,
};
pub use pod::host_port::{HostPort, HostPorts, Protocol};
pub use pod::volume::{Access, FreeVolume, Tie, Volume, VolumeClaim};
pub use pod::{DoNotDisrupt, NodeTerm, Pod, PodOwner, PodPhase, PodTemplate};
pub use pool::{Budget, BudgetNodes, ConsolidationPolicy, Disruption, DisruptionReason, Pool, Template};
pub use report::{NodeOutcome, PodOutcome, PoolOutcome, PoolRefusal, Reason, Report};
pub use requirement::set::{Incompatibility, Requirements, SharedRequirements, Undefined};
pub use requirement::{Expression, Operator, Requirement};
pub use resources::Resources;
pub use resources::quantity::Quantity;
pub use settings::{DisruptionSettings, Settings};
pub use snapshot::{Daemon, PodBudgets, PodDisruptionBudget, Snapshot};
pub use taint::{Effect, Taint, Toleration, TolerationOperator};
