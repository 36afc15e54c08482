//! What watches say, taken in: one way for every kind.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use karpenter_cluster::{Epoch, Stamp, Version};
use karpenter_kube_harness::watch::{Key, Seen};
use kube::{Resource, ResourceExt};

use super::View;

/// A kind of object that the view follows.
pub trait Followed: Resource<DynamicType = ()> + Sized + 'static {
    /// The object is there and looks like this; `listed` when it was before the watch began.
    fn seen(self, view: &View, listed: bool);

    /// The object is gone; this is how it looked last.
    fn gone(self, view: &View);

    /// A list begun at `began` is complete: what was known then and is not among `keys` is gone.
    fn listed(view: &View, keys: &BTreeSet<Key>, began: Epoch);
}

/// Lists under way, and kinds that were listed.
#[derive(Default)]
pub(super) struct Lists {
    began: BTreeMap<TypeId, Epoch>,
    complete: BTreeSet<Cow<'static, str>>,
}

impl Lists {
    /// Whether the kind of this name was listed.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.complete.contains(kind)
    }
}

impl View {
    /// Takes in what the watch of a kind said.
    pub fn take<K: Followed>(&self, seen: Seen<K>) {
        match seen {
            Seen::Listing => {
                let mut inner = self.lock();
                let began = inner.cluster.begin_list();
                inner.lists.began.insert(TypeId::of::<K>(), began);
            }
            Seen::Listed(object) => object.seen(self, true),
            Seen::Applied(object) => object.seen(self, false),
            Seen::Deleted(object) => object.gone(self),
            Seen::Complete(keys) => {
                // From the first epoch on nothing is missing: a list that never began cannot say what is.
                let began = self.lock().lists.began.remove(&TypeId::of::<K>()).unwrap_or_default();
                K::listed(self, &keys, began);
                self.lock().lists.complete.insert(K::kind(&()));
            }
        }
    }
}

/// Which object this is, and which state of it.
pub(crate) fn stamp<K: ResourceExt>(object: &K) -> Stamp {
    Stamp { uid: object.uid().map(Into::into), version: version(object) }
}

/// Resource versions are ordered numbers; an unreadable one counts as newest, so that the object is shown.
pub(crate) fn version<K: ResourceExt>(object: &K) -> Version {
    object.resource_version().and_then(|text| Version::parse(&text)).unwrap_or(Version(u64::MAX))
}

/// The names in keys of objects that are in no namespace.
pub(super) fn names<T: Ord + for<'a> From<&'a str>>(keys: &BTreeSet<Key>) -> BTreeSet<T> {
    keys.iter().map(|(_, name)| name.as_str().into()).collect()
}
