//! The kinds of objects the index keeps: what each is keyed by, what is kept beside it, and what follows from a change.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use karpenter_model::device::{DeviceClass, DeviceTaintRule};
use karpenter_model::pod::volume::resolve::{ClaimFacts, ClassFacts, VolumeFacts};
use karpenter_model::{
    Claim, ClaimName, DeviceClassName, DriverName, Labels, Namespace, NodeName, NodeObject, Pod,
    PodDisruptionBudget, PodKey, PodUid, Pool, PoolName, ResourceClaim, ResourceClaimKey, ResourceSlice,
    VolumeClaimName,
};

use super::{Cluster, Facts};
use crate::store::Store;

/// Key of a persistent volume claim.
pub type VolumeClaimKey = (Namespace, VolumeClaimName);

/// Data kept of claims, Nodes and pools beside what decisions read: the objects as the API server shows them, or `()`.
/// The index itself never reads them.
pub trait Shown: 'static {
    /// A NodeClaim.
    type Claim: Clone + Debug + 'static;
    /// A Node.
    type Node: Clone + Debug + 'static;
    /// A NodePool.
    type Pool: Clone + Debug + 'static;
}

impl Shown for () {
    type Claim = ();
    type Node = ();
    type Pool = ();
}

/// Number of volumes of each CSI driver that a Node can attach, from its `CSINode`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachLimits(pub BTreeMap<DriverName, u32>);

/// A `ResourceClaim` with the pods that use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedClaim {
    pub claim: Arc<ResourceClaim>,
    /// The pods for which it is reserved.
    pub pods: Vec<(PodKey, PodUid)>,
}

/// A kind of object, as decisions read it.
pub trait Kind: PartialEq + Sized + 'static {
    /// Key that distinguishes objects of the kind.
    type Key: Ord + Clone + 'static;
    /// Data kept beside the model.
    type Object<O: Shown>: Clone + 'static;

    #[doc(hidden)]
    fn store<O: Shown>(facts: &Facts<O>) -> &Store<Self::Key, Self, Self::Object<O>>;
    #[doc(hidden)]
    fn store_mut<O: Shown>(facts: &mut Facts<O>) -> &mut Store<Self::Key, Self, Self::Object<O>>;
    /// Brings up to date what follows from the object; `old` and `new` are the states before and after.
    #[doc(hidden)]
    fn changed<O: Shown>(cluster: &mut Cluster<O>, key: &Self::Key, old: Option<&Self>, new: Option<&Self>);
}

/// `model in store by key, beside it: object => what follows`.
macro_rules! kinds {
    ($($model:ty, in $store:ident, by $key:ty, beside it $object:ty => $changed:expr;)*) => {$(
        impl Kind for $model {
            type Key = $key;
            type Object<O: Shown> = $object;

            fn store<O: Shown>(facts: &Facts<O>) -> &Store<$key, Self, $object> {
                &facts.$store
            }

            fn store_mut<O: Shown>(facts: &mut Facts<O>) -> &mut Store<$key, Self, $object> {
                &mut facts.$store
            }

            fn changed<O: Shown>(
                cluster: &mut Cluster<O>,
                key: &$key,
                old: Option<&Self>,
                new: Option<&Self>,
            ) {
                $changed(cluster, key, old, new);
            }
        }
    )*};
}

kinds! {
    Claim, in claims, by ClaimName, beside it O::Claim => Cluster::claim_changed;
    NodeObject, in nodes, by NodeName, beside it O::Node => Cluster::node_changed;
    Pool, in pools, by PoolName, beside it O::Pool => Cluster::pool_changed;
    Pod, in pods, by PodKey, beside it () => Cluster::pod_changed;
    PodDisruptionBudget, in budgets, by (Namespace, String), beside it () => nothing;
    Labels, in namespaces, by Namespace, beside it () => nothing;
    ClaimFacts, in volume_claims, by VolumeClaimKey, beside it () => Cluster::volume_claim_changed;
    VolumeFacts, in volumes, by String, beside it () => Cluster::volume_changed;
    ClassFacts, in storage_classes, by String, beside it () => Cluster::storage_class_changed;
    AttachLimits, in attach_limits, by NodeName, beside it () => Cluster::attach_limits_changed;
    ResourceSlice, in slices, by String, beside it () => Cluster::slice_changed;
    DeviceClass, in device_classes, by DeviceClassName, beside it () => nothing;
    DeviceTaintRule, in device_taint_rules, by String, beside it () => nothing;
    UsedClaim, in device_claims, by ResourceClaimKey, beside it () => nothing;
}

fn nothing<O: Shown, K, T>(_: &mut Cluster<O>, _: &K, _: Option<&T>, _: Option<&T>) {}
