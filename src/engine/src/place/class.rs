//! Pods that ask for the same are one class: they are rejected, compiled and relaxed once.

use karpenter_model::{
    HostPort, Labels, Namespace, NodeTerm, Pod, PodAffinity, PodOutcome, ResourceClaimName, Resources,
    Settings, SpreadConstraint, Toleration,
};

use crate::index::{NeedIx, WantIx};
use crate::place::default_spread;

/// What a pod takes of its machine.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Demand<'a> {
    requests: &'a Resources,
    host_ports: &'a [HostPort],
    volumes: NeedIx,
    has_resource_claims: bool,
    /// Claims it uses, with their namespace, where it uses any.
    claims: Option<(&'a Namespace, &'a [ResourceClaimName])>,
    /// It has a machine and would have to leave it.
    moves: bool,
}

/// Where a pod wants to be, and who it is to others. Together with its [`Demand`] that is everything that can change
/// where it goes: two pods that have both in common are interchangeable. Apart, there are few of either.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Role<'a> {
    node_selector: &'a Labels,
    required_terms: &'a [NodeTerm],
    preferred_terms: &'a [(i32, NodeTerm)],
    tolerations: &'a [Toleration],
    spread: &'a [SpreadConstraint],
    affinity: &'a PodAffinity,
    anti_affinity: &'a PodAffinity,
    spread_by_default: bool,
    /// Who it is to other pods; only looked at when some pod has rules about others.
    identity: Option<(&'a Namespace, &'a Labels)>,
}

impl<'a> Demand<'a> {
    /// What it requests.
    pub(crate) fn requests(&self) -> &'a Resources {
        self.requests
    }

    /// The demand of `pod`, whose volumes ask for `volumes`; `moves` when it has a machine that may be taken away.
    pub(crate) fn of(pod: &'a Pod, volumes: NeedIx, moves: bool) -> Self {
        let Pod { requests, host_ports, has_resource_claims, .. } = pod;
        let claims = Some((&pod.key.namespace, pod.resource_claims.as_slice()));
        Self {
            requests,
            host_ports,
            volumes,
            has_resource_claims: *has_resource_claims,
            claims: claims.filter(|(_, claims)| !claims.is_empty()),
            moves,
        }
    }
}

impl<'a> Role<'a> {
    /// The role of `pod`; `social` when labels and namespace matter.
    pub(crate) fn of(pod: &'a Pod, settings: &Settings, social: bool) -> Self {
        Self {
            node_selector: &pod.node_selector,
            required_terms: &pod.required_terms,
            preferred_terms: &pod.preferred_terms,
            tolerations: &pod.tolerations,
            spread: &pod.spread,
            affinity: &pod.pod_affinity,
            anti_affinity: &pod.pod_anti_affinity,
            spread_by_default: default_spread::concerns(pod, settings),
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
    Wants(Box<[WantIx]>),
}

impl Class {
    /// What its pods want, one relaxation step after the other.
    pub(crate) fn wants(&self) -> &[WantIx] {
        match self {
            Self::Refused(_) => &[],
            Self::Wants(wants) => wants,
        }
    }
}
