//! Selectors of Services and of the owners of pods, for the default spread: they are followed only where one is configured.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use karpenter_api::convert;
use karpenter_cluster::Epoch;
use karpenter_kube_harness::watch::{self, Key};
use karpenter_model::names::label;
use karpenter_model::snapshot::OwnedBy;
use karpenter_model::{LabelSelector, Labels, OwnerUid, PodOwner};
use kube::{Resource, ResourceExt};

use super::View;
use super::follow::Followed;

/// Owners by kind, namespace and name, which identify an owner that is gone.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<(&'static str, Key), OwnerUid>);

impl View {
    /// An owner of pods looks like this.
    fn owner_seen<K: Resource<DynamicType = ()>>(&self, kind: &'static str, object: &K, selects: OwnedBy) {
        let uid: OwnerUid = object.uid().unwrap_or_default().as_str().into();
        let before = self.lock().owners.0.insert((kind, watch::key(object)), uid.clone());
        self.with_cluster(|cluster| {
            // The owner was deleted and created again, and the watch has shown the end of it only.
            if let Some(before) = before.filter(|before| *before != uid) {
                cluster.set_owner(&before, None);
            }
            cluster.set_owner(&uid, Some(selects));
        });
    }

    fn owner_gone(&self, kind: &'static str, key: &Key) {
        let uid = self.lock().owners.0.remove(&(kind, key.clone()));
        if let Some(uid) = uid {
            self.with_cluster(|cluster| cluster.set_owner(&uid, None));
        }
    }

    fn owners_listed(&self, kind: &'static str, keys: &BTreeSet<Key>) {
        let gone: Vec<Key> = {
            let inner = self.lock();
            let known = inner.owners.0.keys().filter(|(of, key)| *of == kind && !keys.contains(key));
            known.map(|(_, key)| key.clone()).collect()
        };
        for key in &gone {
            self.owner_gone(kind, key);
        }
    }
}

/// Labels that differ between the pods of one stateful set.
const NOT_OF_THE_OWNER: [&str; 3] =
    [label::CONTROLLER_REVISION_HASH, label::STATEFUL_SET_POD_NAME, label::POD_INDEX];

impl View {
    /// Takes owners that were not among the objects to select the labels of their pods, less those that separate siblings
    /// apart: a Deployment of a file has no ReplicaSet yet, and its pods carry every label that one would ask for.
    pub(super) fn assume_owners(&self) {
        for pod in self.pods() {
            let owned = matches!(pod.owner, PodOwner::ReplicaSet | PodOwner::StatefulSet);
            let Some(uid) = pod.owner_uid.as_ref().filter(|_| owned) else { continue };
            let of_owner = pod.labels.iter().filter(|(key, _)| !NOT_OF_THE_OWNER.contains(&key.as_str()));
            let selector = LabelSelector::from_labels(of_owner);
            self.with_cluster(|cluster| {
                if cluster.selections().owner(uid).is_none() {
                    cluster.set_owner(uid, Some(OwnedBy::Selector(selector)));
                }
            });
        }
    }
}

/// A selector of labels; one that cannot be read selects nothing, as the look-up of the scheduler fails then.
fn selector(written: Option<&meta::LabelSelector>) -> OwnedBy {
    OwnedBy::Selector(convert::selector(written).unwrap_or_default())
}

fn labels(written: Option<&BTreeMap<String, String>>) -> Labels {
    let pairs = written.into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
}

impl Followed for Service {
    fn applied(self, view: &View) {
        let (namespace, name) = watch::key(&self);
        let written = self.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let selector = written.map(|written| labels(Some(written)));
        view.with_cluster(|cluster| cluster.set_service(&namespace.as_str().into(), &name, selector));
    }

    fn deleted(self, view: &View) {
        let (namespace, name) = watch::key(&self);
        view.with_cluster(|cluster| cluster.set_service(&namespace.as_str().into(), &name, None));
    }

    fn complete(view: &View, keys: &BTreeSet<Key>, _: Epoch) {
        view.with_cluster(|cluster| {
            let known = cluster.selections().services().map(|(of, name)| (of.to_string(), name.to_owned()));
            let gone: Vec<Key> = known.filter(|key| !keys.contains(key)).collect();
            for (namespace, name) in gone {
                cluster.set_service(&namespace.as_str().into(), &name, None);
            }
        });
    }
}

macro_rules! followed_owner {
    ($($kind:ident: |$object:ident| $selects:expr;)*) => {$(
        impl Followed for $kind {
            fn applied(self, view: &View) {
                let $object = &self;
                let selects = $selects;
                view.owner_seen(stringify!($kind), &self, selects);
            }

            fn deleted(self, view: &View) {
                view.owner_gone(stringify!($kind), &watch::key(&self));
            }

            fn complete(view: &View, keys: &BTreeSet<Key>, _: Epoch) {
                view.owners_listed(stringify!($kind), keys);
            }
        }
    )*};
}

followed_owner! {
    ReplicaSet: |set| selector(set.spec.as_ref().map(|spec| &spec.selector));
    StatefulSet: |set| selector(set.spec.as_ref().map(|spec| &spec.selector));
    ReplicationController: |set| {
        OwnedBy::Labels(labels(set.spec.as_ref().and_then(|spec| spec.selector.as_ref())))
    };
}
