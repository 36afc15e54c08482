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

/// What is known about one persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// Why a pod with this volume cannot be planned, if it cannot (spec scheduling 19.3).
    pub problem: Option<String>,
    /// CSI driver whose attach limit the volume counts against.
    pub driver: Option<DriverName>,
    /// Where the volume can be attached: any one of the alternatives; none means everywhere.
    pub alternatives: Vec<Vec<Expression>>,
    /// How it is tied to where its pods go.
    pub tie: Tie,
    /// How many pods may use it.
    pub access: Access,
}

/// How a volume is tied to where its pods go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tie {
    /// Not at all.
    #[default]
    None,
    /// It is not there yet, and will be in the zone of the first node that a pod with it goes to.
    Zone,
    /// It is being provisioned for this Node, and the scheduler sends its pod to no other one.
    Node(NodeName),
    /// It is on a disk of the hosts that its alternatives name. With such a host it is gone: then the names do not count.
    Disk,
    /// It will be one of these volumes on disks of hosts, and no other is provisioned. Nodes that come up may bring more.
    Free(Vec<FreeVolume>),
}

/// A volume that is bound to no claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FreeVolume {
    /// Its name.
    pub name: String,
    /// Where it can be attached: any one of the alternatives; none means everywhere.
    pub alternatives: Vec<Vec<Expression>>,
}

/// How many pods may use a volume at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// As many as get to where it is.
    #[default]
    Shared,
    /// One: the access mode `ReadWriteOncePod`.
    OnePod,
}
