//! Finds the nodes from which the volumes of a pod can be reached.
//!
//! A claim without volume waits for its first consumer, whose node decides where the volume is made; other pods that use the
//! claim wait for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::names::label;
use serde_json::Value;

use super::lists::Lists;
use super::node_selector;
use crate::apiserver::object::{self, Key, at, list, text};
use crate::kube_system::pod::Pod;
use crate::kube_system::template::controls;
use crate::kube_system::volumes::{brought, claims_of};

/// Claims and volumes during one pass.
#[derive(Default)]
pub(super) struct Volumes {
    claims: BTreeMap<Key, Arc<Value>>,
    by_name: BTreeMap<String, Arc<Value>>,
    classes: BTreeMap<String, Arc<Value>>,
    /// Most volumes that a node attaches, by its name.
    limits: BTreeMap<String, usize>,
    /// Claims whose volume is made for a pod that was placed in this pass.
    being_made: BTreeSet<Key>,
}

impl Volumes {
    /// Reads claims and volumes.
    pub(super) fn of(objects: &impl Lists) -> Self {
        let claims = objects.list("", "persistentvolumeclaims");
        let by_name = |group: &str, plural: &str| {
            let listed = objects.list(group, plural).into_iter();
            listed.map(|object| (object::name(&object).to_owned(), object)).collect()
        };
        Self {
            claims: claims.into_iter().map(|claim| (Key::of(&claim), claim)).collect(),
            by_name: by_name("", "persistentvolumes"),
            classes: by_name("storage.k8s.io", "storageclasses"),
            limits: objects.list("storage.k8s.io", "csinodes").iter().filter_map(limit).collect(),
            being_made: BTreeSet::new(),
        }
    }

    /// Returns whether the pod waits for a volume that is being made.
    pub(super) fn keep_waiting(&self, pod: &Value) -> bool {
        claims_of(pod).any(|claim| self.being_made.contains(&claim))
    }

    /// The pod has a node: its claims that have no volume get one.
    pub(super) fn place(&mut self, pod: &Value) {
        let unbound =
            claims_of(pod).filter(|claim| self.claims.get(claim).is_some_and(|one| volume(one).is_empty()));
        self.being_made.extend(unbound);
    }

    /// Returns the nodes that the volumes of the pod allow; a volume to be made is where its class allows it.
    pub(super) fn reach<'p>(
        &self,
        pod: &Value,
        others: &(impl Iterator<Item = &'p Arc<Pod>> + Clone),
    ) -> Reach<'_> {
        let mut reach = Places {
            selectors: Vec::new(),
            zones: Vec::new(),
            allowed: Vec::new(),
            in_use: false,
            claims: claims_of(pod).collect(),
            limits: &self.limits,
        };
        for key in claims_of(pod) {
            let there = self.claims.get(&key);
            let brings = || brought(pod).any(|(brought, _)| brought == key);
            let Some(claim) = there.filter(|claim| controls(pod, claim) || !brings()) else {
                return Reach::Nowhere;
            };
            if volume(claim).is_empty() {
                let class = self.classes.get(text(claim, "/spec/storageClassName"));
                reach.allowed.extend(
                    class.map(|class| list(class, "/allowedTopologies")).filter(|terms| !terms.is_empty()),
                );
            } else {
                let volume = self.by_name.get(volume(claim));
                reach.selectors.extend(volume.and_then(|volume| at(volume, "/spec/nodeAffinity/required")));
                reach.zones.extend(volume.into_iter().flat_map(|volume| places(volume)));
            }
            let for_one = list(claim, "/spec/accessModes").iter().any(|mode| mode == "ReadWriteOncePod");
            reach.in_use |=
                for_one && others.clone().any(|other| claims_of(&other.object).any(|one| one == key));
        }
        Reach::From(reach)
    }
}

/// Nodes from which volumes can be reached.
pub(super) enum Reach<'v> {
    /// A claim is not there, or is not the pod's.
    Nowhere,
    From(Places<'v>),
}

/// Nodes that all of these select.
pub(super) struct Places<'v> {
    /// Node selectors of volumes.
    selectors: Vec<&'v Value>,
    /// Labels of volumes that name zones or regions, with their values.
    zones: Vec<(&'static str, &'v str)>,
    /// Topologies that storage classes allow, each a list of alternatives.
    allowed: Vec<&'v [Value]>,
    /// True if another pod has a volume that is for one pod.
    in_use: bool,
    /// Claims of the pod.
    claims: BTreeSet<Key>,
    /// Most volumes that a node attaches, by its name.
    limits: &'v BTreeMap<String, usize>,
}

impl Reach<'_> {
    /// Returns the reason why they cannot be reached from a node with these pods.
    pub(super) fn refusal(&self, node: &Value, pods: &[Arc<Pod>]) -> Option<&'static str> {
        match self {
            Self::Nowhere => Some("persistentvolumeclaim not found"),
            Self::From(places) => {
                let reached = places.selectors.iter().all(|selector| node_selector::selects(selector, node));
                let is_there = |(key, values): &(&str, &str)| {
                    object::label(node, key)
                        .is_some_and(|label| values.split("__").any(|value| value == label))
                };
                let in_zone = places.zones.iter().all(is_there);
                let allowed = places.allowed.iter().all(|terms| terms.iter().any(|term| is_in(term, node)));
                if places.exceeds(node, pods) {
                    Some("node(s) exceed max volume count")
                } else if !reached {
                    Some("node(s) had volume node affinity conflict")
                } else if !in_zone {
                    Some("node(s) had no available volume zone")
                } else if !allowed {
                    Some("node(s) didn't find available persistent volumes to bind")
                } else if places.in_use {
                    Some(
                        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
                    )
                } else {
                    None
                }
            }
        }
    }
}

impl Places<'_> {
    /// Returns whether a node would have to attach more volumes than it can. There is one driver.
    fn exceeds(&self, node: &Value, pods: &[Arc<Pod>]) -> bool {
        let (Some(limit), false) = (self.limits.get(object::name(node)), self.claims.is_empty()) else {
            return false;
        };
        let mut attached: BTreeSet<Key> = pods.iter().flat_map(|pod| claims_of(&pod.object)).collect();
        let before = attached.len();
        attached.extend(self.claims.iter().cloned());
        attached.len() > before && attached.len() > *limit
    }
}

/// Zones and regions in the labels of a volume, under the present or the old names.
fn places(volume: &Value) -> impl Iterator<Item = (&'static str, &str)> {
    label::PLACES_OF_VOLUMES.into_iter().filter_map(|key| Some((key, object::label(volume, key)?)))
}

/// Name of a node and the number of volumes that it attaches, where its driver states one.
fn limit(node: &Arc<Value>) -> Option<(String, usize)> {
    let stated =
        list(node, "/spec/drivers").iter().filter_map(|driver| at(driver, "/allocatable/count")?.as_u64());
    Some((object::name(node).to_owned(), usize::try_from(stated.min()?).ok()?))
}

/// Returns whether a node is in a topology that a storage class allows.
fn is_in(term: &Value, node: &Value) -> bool {
    list(term, "/matchLabelExpressions").iter().all(|one| {
        let label = object::label(node, text(one, "/key"));
        label.is_some_and(|label| list(one, "/values").iter().any(|value| value == label))
    })
}

/// Returns whether a pod uses claims.
pub(super) fn uses_claims(pod: &Value) -> bool {
    claims_of(pod).next().is_some()
}

fn volume(claim: &Value) -> &str {
    text(claim, "/spec/volumeName")
}
