//! Bounds on the place of a pod, other pods aside: its demands on the node, and the places where its volumes can
//! be attached.

use std::sync::Arc;

use karpenter_model::{LabelKey, LabelValue, Requirement, Requirements};

/// Bounds on the place of a pod, other pods aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Bounds {
    /// Requirements on its node, preferences aside.
    pub(crate) strict: Arc<Requirements>,
    /// Places where its volumes can be attached: any one of these; `None` when it mounts none.
    pub(crate) places: Option<Arc<[Requirements]>>,
}

impl Bounds {
    /// Returns whether the pod may be in the domain `value` of `key`.
    pub(super) fn allow(&self, key: &LabelKey, value: &LabelValue) -> bool {
        let allow = |all: &Requirements| all.get(key.as_str()).is_none_or(|one| one.allows(value.as_str()));
        allow(&self.strict) && self.places.as_ref().is_none_or(|places| places.iter().any(allow))
    }

    /// The domains of `key` that it names, where it may go nowhere else.
    pub(super) fn named<'b>(&'b self, key: &'b LabelKey) -> impl Iterator<Item = &'b LabelValue> {
        let places = self.places.iter().flat_map(|places| places.iter());
        let own = std::iter::once(&*self.strict).chain(places);
        own.filter_map(|all| all.get(key.as_str()).and_then(Requirement::concrete)).flatten()
    }

    /// Returns whether a host that does not exist yet may do under `key`, which is that of host names.
    pub(super) fn allow_new_host(&self, key: &LabelKey) -> bool {
        let allow = |all: &Requirements| all.get(key.as_str()).is_none_or(|one| one.concrete().is_none());
        allow(&self.strict) && self.places.as_ref().is_none_or(|places| places.iter().any(allow))
    }
}
