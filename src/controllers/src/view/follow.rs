//! Events of watches, applied to the view in one way for every kind.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_cluster::{Epoch, Stamp, Version};
use karpenter_kube_harness::watch::{Key, Seen};
use kube::{Resource, ResourceExt};

use super::View;

/// A kind of object that the view follows: what each [`Seen`] means for it.
pub trait Followed: Resource<DynamicType = ()> + Sized + 'static {
    /// The object appeared or changed, and looks like this.
    fn applied(self, view: &View);

    /// The object is there since before the watch began (or began again), which makes a difference for few kinds.
    fn listed(self, view: &View) {
        self.applied(view);
    }

    /// The object is gone; this is how it looked last.
    fn deleted(self, view: &View);

    /// A list begun at `began` is complete: what was known then and is not among `keys` is gone.
    fn complete(view: &View, keys: &BTreeSet<Key>, began: Epoch);
}

/// Lists under way, and kinds that were listed.
#[derive(Default)]
pub(super) struct Lists {
    /// Lists under way by the kind, as `complete`.
    began: BTreeMap<Cow<'static, str>, Epoch>,
    complete: BTreeSet<Cow<'static, str>>,
}

impl Lists {
    /// Returns whether the kind of this name was listed.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.complete.contains(kind)
    }

    /// The list of a kind is complete from now on, so that a woken pass finds it so; returns its beginning. A list that
    /// never began cannot show what is missing: nothing was known before the first epoch.
    fn complete(&mut self, kind: Cow<'static, str>) -> Epoch {
        let began = self.began.remove(&kind).unwrap_or_default();
        self.complete.insert(kind);
        began
    }
}

impl View {
    /// Takes in an event of the watch of a kind.
    pub fn take<K: Followed>(&self, seen: Seen<K>) {
        match seen {
            Seen::Listing => {
                let mut inner = self.lock();
                let began = inner.cluster.begin_list();
                inner.lists.began.insert(K::kind(&()), began);
            }
            Seen::Listed(object) => object.listed(self),
            Seen::Applied(object) => object.applied(self),
            Seen::Deleted(object) => object.deleted(self),
            Seen::Complete(keys) => {
                let began = self.lock().lists.complete(K::kind(&()));
                K::complete(self, &keys, began);
            }
        }
    }
}

/// Identity and version of an object.
pub(crate) fn stamp<K: ResourceExt>(object: &K) -> Stamp {
    Stamp { uid: object.uid().map(Into::into), version: version(object) }
}

/// Resource versions are ordered numbers; an unreadable one counts as newest, so that the object is shown.
pub(crate) fn version<K: ResourceExt>(object: &K) -> Version {
    version_of(object.meta())
}

/// Version of the object with this metadata.
pub(super) fn version_of(metadata: &ObjectMeta) -> Version {
    metadata.resource_version.as_deref().and_then(Version::parse).unwrap_or(Version(u64::MAX))
}

/// The names in keys of objects that are in no namespace.
pub(super) fn names<T: Ord + for<'a> From<&'a str>>(keys: &BTreeSet<Key>) -> BTreeSet<T> {
    keys.iter().map(|(_, name)| name.as_str().into()).collect()
}
