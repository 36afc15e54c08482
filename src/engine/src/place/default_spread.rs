//! The spread the scheduler of the cluster applies to pods that have none of their own, when opted in
//! (spec scheduling 18.1: the reference does not know it).
//!
//! The scheduler spreads over the pods that the selectors of the owning replica or stateful set and of the services
//! in front of it select together. A pod carries every label those ask for, `pod-template-hash` included, and so do
//! its siblings; so the labels of the pod, less those that tell siblings apart, select the same pods.

use std::borrow::Cow;

use karpenter_model::pod::affinity::NodeInclusion;
use karpenter_model::{LabelSelector, Pod, PodOwner, Settings, SpreadConstraint};

/// Labels that differ between the pods of one stateful set.
const NOT_OF_THE_OWNER: [&str; 3] =
    ["controller-revision-hash", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];

/// Whether `pod` gets the default spread: a pod of a replica or stateful set without a spread of its own.
pub(crate) fn concerns(pod: &Pod, settings: &Settings) -> bool {
    let owned = matches!(pod.owner, PodOwner::ReplicaSet | PodOwner::StatefulSet);
    !settings.default_spread.is_empty() && owned && pod.spread.is_empty() && !pod.labels.is_empty()
}

/// `pod` with the default spread, if it gets it.
pub(crate) fn applied<'p>(pod: &'p Pod, settings: &Settings) -> Cow<'p, Pod> {
    if !concerns(pod, settings) {
        return Cow::Borrowed(pod);
    }
    let of_owner = |key: &str| !NOT_OF_THE_OWNER.contains(&key);
    let labels = pod.labels.iter().filter(|(key, _)| of_owner(key.as_str()));
    let selector = LabelSelector::from_labels(labels);
    let spread = settings.default_spread.iter().map(|default| SpreadConstraint {
        max_skew: default.max_skew,
        topology_key: default.topology_key.clone(),
        when_unsatisfiable: default.when_unsatisfiable,
        selector: Some(selector.clone()),
        min_domains: None,
        node_affinity_policy: NodeInclusion::Honor,
        node_taints_policy: NodeInclusion::Ignore,
        match_label_keys: Vec::new(),
    });
    Cow::Owned(pod.clone().with(|pod| pod.spread = spread.collect()))
}
