//! Pods that ask for the same are one class: they are rejected, compiled and relaxed once.

use karpenter_model::{
    HostPort, Labels, Namespace, NodeTerm, Pod, PodAffinity, PodOutcome, Resources, Settings,
    SpreadConstraint, Toleration,
};

use crate::place::ask::WantId;
use crate::place::default_spread;
use crate::place::volumes::NeedId;

/// Everything about a pod that can change where it goes. Two pods with equal signatures are interchangeable.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signature<'a> {
    requests: &'a Resources,
    node_selector: &'a Labels,
    required_terms: &'a [NodeTerm],
    preferred_terms: &'a [(i32, NodeTerm)],
    tolerations: &'a [Toleration],
    host_ports: &'a [HostPort],
    spread: &'a [SpreadConstraint],
    affinity: &'a PodAffinity,
    anti_affinity: &'a PodAffinity,
    volumes: NeedId,
    has_resource_claims: bool,
    spread_by_default: bool,
    /// It has a machine and would have to leave it.
    moves: bool,
    /// Who it is to other pods; only looked at when some pod has rules about others.
    identity: Option<(&'a Namespace, &'a Labels)>,
}

impl<'a> Signature<'a> {
    /// The signature of `pod`, whose volumes ask for `volumes`; `social` when labels and namespace matter,
    /// `moves` when it has a machine that may be taken away.
    pub(crate) fn of(pod: &'a Pod, volumes: NeedId, settings: &Settings, social: bool, moves: bool) -> Self {
        Self {
            requests: &pod.requests,
            node_selector: &pod.node_selector,
            required_terms: &pod.required_terms,
            preferred_terms: &pod.preferred_terms,
            tolerations: &pod.tolerations,
            host_ports: &pod.host_ports,
            spread: &pod.spread,
            affinity: &pod.pod_affinity,
            anti_affinity: &pod.pod_anti_affinity,
            volumes,
            has_resource_claims: pod.has_resource_claims,
            spread_by_default: default_spread::concerns(pod, settings),
            moves,
            identity: social.then_some((&pod.key.namespace, &pod.labels)),
        }
    }
}

/// A class of interchangeable pods.
#[derive(Debug, Clone)]
pub(crate) enum Class {
    /// Not placed at all.
    Refused(PodOutcome),
    /// Placed by the first of these wants that something accepts; each is one relaxation step further.
    Wants(Vec<WantId>),
}
