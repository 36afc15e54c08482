//! Persistent volumes of pods, resolved to what placement needs (spec scheduling 19).

pub mod resolve;

use crate::id::{DriverName, NodeName, VolumeClaimName};
use crate::requirement::Expression;

/// Prefix of the capacity entry with which an instance type says how many volumes of a CSI driver it can
/// attach; the name of the driver follows.
pub const ATTACHABLE_PREFIX: &str = "attachable-volumes-csi-";

/// A persistent volume claim a pod mounts; for a generic ephemeral volume the name is `<pod>-<volume>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeClaim {
    /// Name of the claim in the pod's namespace.
    pub name: VolumeClaimName,
}

/// Facts about one persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// Reason why a pod with this volume cannot be planned, if it cannot (spec scheduling 19.3).
    pub problem: Option<String>,
    /// CSI driver whose attach limit the volume counts against.
    pub driver: Option<DriverName>,
    /// Nodes the volume can be attached to: any one of the alternatives; none means everywhere.
    pub alternatives: Vec<Vec<Expression>>,
    /// Tie between the volume and the nodes of its pods.
    pub tie: Tie,
    /// Number of pods that may use it.
    pub access: Access,
}

/// Tie between a volume and the nodes of its pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tie {
    /// Not at all.
    #[default]
    None,
    /// The volume is not there yet, and will be in the zone of the first node that a pod with it goes to.
    Zone,
    /// The volume is being provisioned for this Node, and the scheduler sends its pod to no other one.
    Node(NodeName),
    /// The volume is on a disk of the hosts that its alternatives name. With such a host it is gone: then the names do not
    /// count.
    Disk,
    /// The volume will be one of these volumes on disks of hosts, and no other is provisioned. Nodes that come up may bring
    /// more.
    Free(Vec<FreeVolume>),
}

/// A volume that is bound to no claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FreeVolume {
    pub name: String,
    /// Nodes it can be attached to: any one of the alternatives; none means everywhere.
    pub alternatives: Vec<Vec<Expression>>,
}

/// Number of pods that may use a volume at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Any number, where it can be attached.
    #[default]
    Shared,
    /// One: the access mode `ReadWriteOncePod`.
    OnePod,
}
