//! The spread the scheduler of the cluster applies to pods that have none of their own, where one is configured
//! (core #3205). What it is over follows from the Services and the owner of a pod; a pod that nothing selects gets none.

use std::borrow::Cow;

use karpenter_model::{OwnerUid, Pod, Settings, Snapshot, SpreadConstraint};

/// Returns what the default spread of `pod` depends on besides its labels and namespace: the uid of its owner, empty
/// without one; `None` where it gets no default spread.
pub(crate) fn concerns<'p>(pod: &'p Pod, settings: &Settings) -> Option<&'p str> {
    let owner = || pod.owner_uid.as_ref().map_or("", OwnerUid::as_str);
    (!settings.default_spread.is_empty() && pod.spread.is_empty()).then(owner)
}

/// `pod` with the default spread, if it gets it.
pub(crate) fn applied<'p>(pod: &'p Pod, snapshot: &Snapshot) -> Cow<'p, Pod> {
    if concerns(pod, &snapshot.settings).is_none() {
        return Cow::Borrowed(pod);
    }
    let Some(selector) = snapshot.selections.of(pod) else { return Cow::Borrowed(pod) };
    let spread = snapshot.settings.default_spread.iter().map(|default| SpreadConstraint {
        max_skew: default.max_skew,
        topology_key: default.topology_key.clone(),
        when_unsatisfiable: default.when_unsatisfiable,
        selector: Some(selector.clone()),
        min_domains: default.min_domains,
        node_affinity_policy: default.node_affinity_policy,
        node_taints_policy: default.node_taints_policy,
        match_label_keys: Vec::new(),
    });
    Cow::Owned(pod.clone().with(|pod| pod.spread = spread.collect()))
}
