//! Kinds whose objects go into the index as they are read, and wake no queue: the next pass finds them.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim};
use k8s_openapi::api::resource::v1alpha3::DeviceTaintRule;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use karpenter_api::convert;
use karpenter_cluster::{AttachLimits, Epoch, Kind, UsedClaim, VolumeClaimKey};
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model as model;
use karpenter_model::pod::volume::resolve::{ClaimFacts, ClassFacts, VolumeFacts};
use karpenter_model::{DeviceClassName, Labels, NodeName, ResourceClaimKey};
use kube::{Resource, ResourceExt};

use super::follow::{Followed, stamp, version};
use super::{AsShown, View};
use crate::view::read;

/// A kind that is a fact and nothing more.
trait Fact: Resource<DynamicType = ()> + 'static {
    type Model: Kind<Object<AsShown> = ()>;

    fn key(key: &Key) -> <Self::Model as Kind>::Key;

    /// Model that decisions read; `None` if the object cannot be read.
    fn read(&self) -> Option<Self::Model>;
}

impl<K: Fact> Followed for K {
    fn applied(self, view: &View) {
        let key = K::key(&watch::key(&self));
        let cluster = &mut view.lock().cluster;
        match self.read() {
            Some(model) => drop(cluster.put(&key, stamp(&self), Arc::new(model), ())),
            // It takes no part, whatever its contents were, until it can be read again.
            None => drop(cluster.remove::<K::Model>(&key, &version(&self).into())),
        }
    }

    fn deleted(self, view: &View) {
        view.lock().cluster.remove::<K::Model>(&K::key(&watch::key(&self)), &stamp(&self));
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch) {
        view.lock().cluster.finish_list::<K::Model>(&keys.iter().map(K::key).collect(), began);
    }
}

impl Fact for Namespace {
    type Model = Labels;

    fn key((_, name): &Key) -> model::Namespace {
        name.as_str().into()
    }

    fn read(&self) -> Option<Labels> {
        let labels = self.labels().iter();
        Some(labels.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect())
    }
}

impl Fact for PodDisruptionBudget {
    type Model = model::PodDisruptionBudget;

    fn key((namespace, name): &Key) -> (model::Namespace, String) {
        (namespace.as_str().into(), name.clone())
    }

    fn read(&self) -> Option<Self::Model> {
        Some(convert::budget(self))
    }
}

impl Fact for PersistentVolumeClaim {
    type Model = ClaimFacts;

    fn key((namespace, name): &Key) -> VolumeClaimKey {
        (namespace.as_str().into(), name.as_str().into())
    }

    fn read(&self) -> Option<ClaimFacts> {
        Some(convert::volume_claim(self))
    }
}

impl Fact for PersistentVolume {
    type Model = VolumeFacts;

    fn key((_, name): &Key) -> String {
        name.clone()
    }

    fn read(&self) -> Option<VolumeFacts> {
        read::volume(self)
    }
}

impl Fact for StorageClass {
    type Model = ClassFacts;

    fn key((_, name): &Key) -> String {
        name.clone()
    }

    fn read(&self) -> Option<ClassFacts> {
        Some(convert::storage_class(self))
    }
}

/// It has the name of its Node.
impl Fact for CSINode {
    type Model = AttachLimits;

    fn key((_, name): &Key) -> NodeName {
        name.as_str().into()
    }

    fn read(&self) -> Option<AttachLimits> {
        Some(AttachLimits(convert::attach_limits(self)))
    }
}

impl Fact for DeviceClass {
    type Model = model::device::DeviceClass;

    fn key((_, name): &Key) -> DeviceClassName {
        name.as_str().into()
    }

    fn read(&self) -> Option<Self::Model> {
        Some(convert::device_class(self))
    }
}

/// One that says nothing about claims is not known.
impl Fact for DeviceTaintRule {
    type Model = model::device::DeviceTaintRule;

    fn key((_, name): &Key) -> String {
        name.clone()
    }

    fn read(&self) -> Option<Self::Model> {
        convert::device_taint_rule(self)
    }
}

impl Fact for ResourceClaim {
    type Model = UsedClaim;

    fn key((namespace, name): &Key) -> ResourceClaimKey {
        ResourceClaimKey { namespace: namespace.as_str().into(), name: name.as_str().into() }
    }

    fn read(&self) -> Option<UsedClaim> {
        let (claim, pods) = read::resource_claim(self)?;
        Some(UsedClaim { claim: Arc::new(claim), pods })
    }
}
