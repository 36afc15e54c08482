//! Persistent volumes of pods, resolved to what placement needs (spec core-scheduling 19).

use crate::id::{DriverName, VolumeClaimName};
use crate::requirement::Expression;

/// A persistent volume claim a pod mounts; for a generic ephemeral volume the name is `<pod>-<volume>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeClaim {
    /// Name of the claim in the pod's namespace.
    pub name: VolumeClaimName,
}

/// What is known about one persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// Why a pod with this volume cannot be planned, if it cannot (spec core-scheduling 19.3).
    pub problem: Option<String>,
    /// CSI driver whose attach limit the volume counts against.
    pub driver: Option<DriverName>,
    /// Where the volume can be attached: any one of the alternatives; none means everywhere.
    pub alternatives: Vec<Vec<Expression>>,
}
