//! Pods that ask for the same are one class: they are rejected, compiled and relaxed once.
//!
//! A class is found by its [`Footprint`] and its [`Constraints`], which only exist while a snapshot is compiled; what
//! is left is a list of [levels](crate::place::level).

use std::sync::Arc;

use karpenter_model::{
    HostPort, Labels, Namespace, NodeTerm, Pod, PodAffinity, PodKey, PodOutcome, PodTemplate, Requirements,
    ResourceClaimName, Resources, Settings, SpreadConstraint, Toleration,
};

use crate::index::{LevelIx, NeedIx};
use crate::place::default_spread;
use crate::volumes::{Need, SharedClaim};

/// Amounts and ports that a pod takes up on its node.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Footprint<'a> {
    requests: &'a Resources,
    host_ports: &'a [HostPort],
    volumes: NeedIx,
    has_resource_claims: bool,
    /// Claims it uses, with their namespace, where it uses any.
    claims: Option<(&'a Namespace, &'a [ResourceClaimName])>,
    /// Its name, where claims will be made for it alone.
    own_claims: Option<&'a PodKey>,
    /// It has a node and would have to leave it.
    moves: bool,
}

/// Limits on the place of a pod, and the properties that other pods select it by. Together with its [`Footprint`] that is
/// everything that can change its place: two pods that have both in common are interchangeable. They are two keys because
/// there are few of either, and many pairs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Constraints<'a> {
    node_selector: &'a Labels,
    required_terms: &'a [NodeTerm],
    preferred_terms: &'a [(i32, NodeTerm)],
    tolerations: &'a [Toleration],
    spread: &'a [SpreadConstraint],
    affinity: &'a PodAffinity,
    anti_affinity: &'a PodAffinity,
    /// Further input of its default spread, if it gets one.
    spread_by_default: Option<&'a str>,
    /// Namespace and labels that rules of other pods select it by; `None` when no pod has any: names do not split classes then.
    identity: Option<(&'a Namespace, &'a Labels)>,
    /// Places where its volumes can be attached; `None` for all that mount none, and when no pod has rules about others.
    places: Option<Arc<[Requirements]>>,
    /// Claims without a volume that other pods use too, which puts them all into one zone.
    one_zone: Vec<SharedClaim>,
}

impl<'a> Footprint<'a> {
    /// Returns the requests of the pods.
    pub(crate) fn requests(&self) -> &'a Resources {
        self.requests
    }

    /// The footprint of `pod`, whose volumes ask for `volumes`; `moves` when it has a node that may be taken away.
    /// `own_claims` when claims are yet to be made for it.
    pub(crate) fn of(pod: &'a Pod, volumes: NeedIx, (moves, own_claims): (bool, bool)) -> Self {
        let PodTemplate { requests, host_ports, has_resource_claims, .. } = &*pod.template;
        let claims = Some((&pod.key.namespace, pod.resource_claims.as_slice()));
        Self {
            requests,
            host_ports,
            volumes,
            has_resource_claims: *has_resource_claims,
            claims: claims.filter(|(_, claims)| !claims.is_empty()),
            own_claims: own_claims.then_some(&pod.key),
            moves,
        }
    }
}

impl<'a> Constraints<'a> {
    /// The constraints of `pod`, whose volumes ask for `need`; `social` when labels and namespace matter.
    pub(crate) fn of(pod: &'a Pod, need: &Need, settings: &Settings, social: bool) -> Self {
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
            places: (social && !pod.volumes.is_empty()).then(|| Arc::clone(&need.places)),
            one_zone: need.one_zone.clone(),
        }
    }

    /// Returns the places where its volumes can be attached, if that limits where rules about other pods put it.
    pub(crate) fn places(&self) -> Option<Arc<[Requirements]>> {
        self.places.clone()
    }
}

/// A class of interchangeable pods.
#[derive(Debug, Clone)]
pub(crate) enum Class {
    /// Not placed at all.
    Refused(PodOutcome),
    /// Placed at the first of these levels that something accepts; each gives up one thing more.
    Levels(Box<[LevelIx]>),
}

impl Class {
    /// Its relaxation levels, the strictest first; none when it is refused.
    pub(crate) fn levels(&self) -> &[LevelIx] {
        match self {
            Self::Refused(_) => &[],
            Self::Levels(levels) => levels,
        }
    }
}
