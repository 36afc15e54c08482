//! Newtypes for every name and uid, so that no bare string crosses a crate border.
//!
//! All of them wrap an `Arc<str>`: a clone is a reference count, order and hash are those of the text, and
//! `Borrow<str>` lets maps keyed by a name be read with a plain `&str`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl From<$name> for Arc<str> {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl FromStr for $name {
            type Err = std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(Self(text.into()))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self("".into())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.as_str() == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.as_str() == *other
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    )*};
}

names! {
    /// Name of a `NodePool`.
    PoolName;
    /// Uid of a `NodePool`.
    PoolUid;
    /// Name of a `NodeOverlay`.
    OverlayName;
    /// Name of a `NodeClaim`.
    ClaimName;
    /// Uid of a `NodeClaim`; launch idempotency tokens derive from it.
    ClaimUid;
    /// Name of a `Node`.
    NodeName;
    /// Key of a machine in the cluster index: its provider id, or the node name of an unmanaged node that has none
    /// (spec scheduling 27.1).
    NodeId;
    /// `spec.providerID` of a Node, `status.providerID` of a claim.
    ProviderId;
    /// Value of the label `node.kubernetes.io/instance-type`.
    InstanceTypeName;
    /// Value of the label `topology.kubernetes.io/zone`.
    Zone;
    /// Value of the label `topology.kubernetes.io/region`.
    Region;
    /// A label key, also used as topology key.
    LabelKey;
    /// A label value.
    LabelValue;
    /// A resource name: `cpu`, `memory`, `nvidia.com/gpu`.
    ResourceName;
    /// Id of a capacity reservation.
    ReservationId;
    /// Id of a machine image.
    ImageId;
    /// A Kubernetes namespace.
    Namespace;
    /// Name of a pod inside its namespace.
    PodName;
    /// Uid of a pod.
    PodUid;
    /// Uid of the object that controls a pod: a `ReplicaSet`, a `StatefulSet`, a `Job`.
    OwnerUid;
    /// Identity of one plan, for logs and events.
    PlanId;
    /// Name of a `DaemonSet` inside its namespace.
    DaemonSetName;
    /// Name of a `PersistentVolumeClaim` inside its namespace.
    VolumeClaimName;
    /// Name of a CSI driver, or of a driver of devices.
    DriverName;
    /// Name of a pool of devices of one driver.
    DevicePoolName;
    /// Name of a device inside its pool.
    DeviceName;
    /// Name of a `DeviceClass`.
    DeviceClassName;
    /// Name of a `ResourceClaim` inside its namespace.
    ResourceClaimName;
    /// Name of a request inside a `ResourceClaim`.
    DeviceRequestName;
    /// Name of an attribute or a capacity of a device, with its domain: `gpu.example.com/memory`.
    QualifiedName;
    /// Name of a counter set, or of a counter inside one.
    CounterName;
    /// Name of a `CapacityBuffer` inside its namespace.
    BufferName;
}

impl LabelValue {
    /// The value as a name of another kind, without copying it.
    pub fn name<N: From<Arc<str>>>(&self) -> N {
        Arc::clone(&self.0).into()
    }
}

impl From<ProviderId> for NodeId {
    fn from(id: ProviderId) -> Self {
        Self(id.0)
    }
}

impl From<NodeName> for NodeId {
    fn from(name: NodeName) -> Self {
        Self(name.0)
    }
}

impl From<InstanceTypeName> for LabelValue {
    fn from(name: InstanceTypeName) -> Self {
        Self(name.0)
    }
}

/// Number of an in-flight node (one the planner fills) inside one plan; shown as `bin-1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BinId(pub u32);

impl fmt::Display for BinId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bin-{}", self.0)
    }
}

/// Namespace and name of a pod, shown as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PodKey {
    pub namespace: Namespace,
    /// The name inside the namespace.
    pub name: PodName,
}

impl PodKey {
    /// The key of pod `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for PodKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Namespace and name of a capacity buffer, shown as `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BufferKey {
    pub namespace: Namespace,
    /// The name inside the namespace.
    pub name: BufferName,
}

impl BufferKey {
    /// The key of buffer `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for BufferKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Reference from a pool or claim to its provider's node class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct NodeClassRef {
    /// API group without version, for example `karpenter.k8s.aws`.
    pub group: String,
    /// Kind, for example `EC2NodeClass`.
    pub kind: String,
    pub name: String,
}

impl NodeClassRef {
    /// The label that carries the class name on claims and nodes: `<group>/<lower-case kind>`
    /// (spec scheduling 2).
    pub fn label_key(&self) -> LabelKey {
        format!("{}/{}", self.group, self.kind.to_lowercase()).into()
    }
}

/// Way to buy capacity. The order is the launch preference: reserved, then spot, then on-demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// Prepaid capacity of a reservation.
    Reserved,
    /// Interruptible capacity.
    Spot,
    /// Regular capacity.
    OnDemand,
}

impl CapacityType {
    /// All values in launch preference.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Spot, Self::OnDemand];

    /// The value of the label `karpenter.sh/capacity-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }

    /// The capacity type a label value names, if it names one.
    pub fn from_label(value: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capacity_type| capacity_type.as_str() == value)
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_types_order_by_launch_preference() {
        let mut types = [CapacityType::OnDemand, CapacityType::Reserved, CapacityType::Spot];
        types.sort();
        assert_eq!(types, CapacityType::ALL);
        for capacity_type in types {
            assert_eq!(CapacityType::from_label(capacity_type.as_str()), Some(capacity_type));
        }
        assert_eq!(CapacityType::from_label("ondemand"), None);
    }

    #[test]
    fn node_class_label_is_group_and_lower_case_kind() {
        let class = NodeClassRef {
            group: "karpenter.k8s.aws".into(),
            kind: "EC2NodeClass".into(),
            name: "default".into(),
        };
        assert_eq!(class.label_key(), "karpenter.k8s.aws/ec2nodeclass");
    }
}
