//! Claims for devices.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::id::{
    DeviceClassName, DeviceName, DevicePoolName, DeviceRequestName, DriverName, Namespace, PodUid,
    QualifiedName, ResourceClaimName, ResourceName,
};
use crate::resources::quantity::Quantity;
use crate::taint::Toleration;

use super::PlaceTerm;

/// Most devices one claim may have.
pub const MAX_DEVICES_PER_CLAIM: usize = 32;

/// Namespace and name of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ResourceClaimKey {
    pub namespace: Namespace,
    pub name: ResourceClaimName,
}

/// A `ResourceClaim`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClaim {
    /// Namespace and name.
    pub key: ResourceClaimKey,
    /// Requests for devices.
    pub requests: Vec<DeviceRequest>,
    /// Constraints between its devices.
    pub constraints: Vec<DeviceConstraint>,
    /// Devices that are allocated to it.
    pub allocation: Option<Allocation>,
    /// Consumers of the claim.
    pub reserved_for: Vec<Consumer>,
}

/// A claim that is yet to be made for a pod, as its template says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimTemplate {
    /// Its name in the pod.
    pub name: String,
    /// Requests for devices.
    pub requests: Vec<DeviceRequest>,
    /// Constraints between its devices.
    pub constraints: Vec<DeviceConstraint>,
}

/// One request of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Its name, unique in the claim.
    pub name: DeviceRequestName,
    pub kind: RequestKind,
}

/// Kind of a request for devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// Devices of one class.
    Exactly(ExactRequest),
    /// The first of these that can be met (`firstAvailable`), none of which has alternatives of its own.
    FirstAvailable(Vec<DeviceRequest>),
    /// Something that cannot be planned for, by the name of the field.
    Unsupported(String),
}

/// Devices of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactRequest {
    pub class: DeviceClassName,
    /// CEL expressions besides those of the class; all must hold.
    pub selectors: Vec<String>,
    /// Number of devices.
    pub count: DeviceCount,
    /// Amounts taken of a shared device; names without a domain belong to the driver of the device.
    pub capacity: BTreeMap<String, Quantity>,
    /// Taints of devices it tolerates.
    pub tolerations: Vec<Toleration>,
    /// It takes nothing of its devices, and may have those that others hold (`adminAccess`).
    pub admin: bool,
    /// Resource the devices stand for: a node that has it serves the request with that, and without devices.
    pub instead_of: Option<ResourceName>,
}

/// Number of devices in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceCount {
    /// Exactly this number.
    Exactly(u32),
    /// Every one that matches, at least one.
    All,
}

/// Constraint between devices of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceConstraint {
    /// The devices of `requests`, or of all requests if there are none, have the same value of `attribute`.
    MatchAttribute {
        /// Requests it is about, each with all its alternatives, and alternatives by their full names.
        requests: Vec<DeviceRequestName>,
        attribute: QualifiedName,
    },
    /// Something that cannot be planned for, by the name of the field.
    Unsupported(String),
}

/// Devices allocated to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allocation {
    pub devices: Vec<AllocatedDevice>,
    /// Nodes on which they can be used; `None` is everywhere.
    pub places: Option<Vec<PlaceTerm>>,
}

/// A device a claim has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocatedDevice {
    pub driver: DriverName,
    pub pool: DevicePoolName,
    pub device: DeviceName,
    /// Amounts the claim takes of it, where it is shared.
    pub consumed: BTreeMap<QualifiedName, Quantity>,
}

/// Consumer of a claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Consumer {
    /// A pod that exists.
    Pod(PodUid),
    /// A pod that is no more; the claim will be released.
    Gone(PodUid),
    /// Something else, of which nothing is known.
    Other,
}

impl DeviceRequest {
    /// Every way to meet the request, best first, with the name under which devices are allocated then.
    pub fn alternatives(&self) -> Vec<(DeviceRequestName, &RequestKind)> {
        match &self.kind {
            RequestKind::FirstAvailable(alternatives) => {
                let full = |one: &DeviceRequest| format!("{}/{}", self.name, one.name).as_str().into();
                alternatives.iter().map(|one| (full(one), &one.kind)).collect()
            }
            kind => vec![(self.name.clone(), kind)],
        }
    }
}

impl ResourceClaim {
    /// Returns whether its devices will be free once the pods for which `leaving` returns true have left: it is used by pods
    /// only, by one at least, and each of them is gone or leaving.
    pub fn is_released_by(&self, leaving: impl Fn(&PodUid) -> bool) -> bool {
        let leaves = |consumer: &Consumer| match consumer {
            Consumer::Pod(pod) => leaving(pod),
            Consumer::Gone(_) => true,
            Consumer::Other => false,
        };
        self.allocation.is_some() && !self.reserved_for.is_empty() && self.reserved_for.iter().all(leaves)
    }
}

impl fmt::Display for ResourceClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_given_back_when_every_pod_that_uses_them_leaves() {
        let claim = |reserved_for: Vec<Consumer>| ResourceClaim {
            key: ResourceClaimKey { namespace: "default".into(), name: "gpu".into() },
            requests: Vec::new(),
            constraints: Vec::new(),
            allocation: Some(Allocation::default()),
            reserved_for,
        };
        let leaving = |pod: &PodUid| *pod == "leaves";
        let pod = |uid: &str| Consumer::Pod(uid.into());
        for (reserved_for, released) in [
            (vec![], false),
            (vec![pod("leaves")], true),
            (vec![pod("leaves"), pod("stays")], false),
            (vec![Consumer::Gone("gone".into())], true),
            (vec![Consumer::Gone("gone".into()), pod("leaves")], true),
            (vec![pod("leaves"), Consumer::Other], false),
        ] {
            let claim = claim(reserved_for);
            assert_eq!(claim.is_released_by(leaving), released, "{:?}", claim.reserved_for);
        }
        let unallocated = ResourceClaim { allocation: None, ..claim(vec![pod("leaves")]) };
        assert!(!unallocated.is_released_by(leaving));
    }
}
