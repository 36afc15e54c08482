//! The Kubernetes face of the project: custom resources, their schemas, conditions, hashes, and the way into and out of
//! the pure model, which also has the names ([`karpenter_model::names`]).
//!
//! Invariants:
//! - what a user wrote is written back byte for byte (durations, quantities, absent versus empty);
//! - `crd::crds` is the only source of the schemas; the chart's files are generated from it and both are tested
//!   against the Rust types and against the accept/reject tables in `cases`;
//! - hashes are bit-exact with Karpenter v1.14, so that switching controllers drifts nothing.

mod condition;
mod duration;
mod hash;
mod quantity;
mod requirement;
mod resource;

pub mod capacitybuffer;
pub mod cases;
pub mod conditions;
pub mod convert;
pub mod crd;
pub mod ec2nodeclass;
pub mod manifest;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod repair_policies;
pub mod scheduler_config;
pub mod schema;
pub mod yaml;

pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use condition::Condition;
pub use crd::{crd_values, crds, crds_yaml};
pub use duration::{Duration, InvalidDuration, NillableDuration, parse_go_duration};
pub use ec2nodeclass::{EC2NodeClass, Ec2NodeClassSpec, Ec2NodeClassStatus};
pub use karpenter_model::{ConditionStatus, NodeClassRef, Operator};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use quantity::{RawQuantity, ResourceMap, resource_map};
pub use requirement::Requirement;
