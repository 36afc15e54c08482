//! Devices, as a pass sees them (spec scheduling 22.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::device::{Consumer, DeviceTemplates, Reach};
use karpenter_model::{
    ConditionType, Devices, InstanceTypeName, NodeName, Pod, PodKey, PodUid, PoolName, ResourceClaim,
    ResourceSlice,
};

use super::Cluster;
use super::kind::{Shown, UsedClaim};
use crate::brought::Contradiction;

impl<O: Shown> Cluster<O> {
    /// Returns the devices and their claims; nothing while resource claims are ignored.
    pub(super) fn devices(&self) -> Arc<Devices> {
        if self.settings.ignore_dra_requests {
            return Arc::default();
        }
        let (classes, claims) = (self.facts.device_classes.iter(), self.facts.device_claims.iter());
        Arc::new(Devices {
            slices: self.facts.slices.models().map(|slice| self.tainted(slice)).collect(),
            classes: classes.map(|(name, known)| (name.clone(), Arc::clone(&known.model))).collect(),
            claims: claims.map(|(key, known)| (key.clone(), self.reserved(&known.model))).collect(),
            templates: self.templates(),
        })
    }

    /// The slice with the taints that rules put on its devices.
    fn tainted(&self, slice: &Arc<ResourceSlice>) -> Arc<ResourceSlice> {
        let rules = self.facts.device_taint_rules.models();
        rules.fold(Arc::clone(slice), |slice, rule| rule.on(&slice).map_or(slice, Arc::new))
    }

    /// The devices that new machines will bring along.
    fn templates(&self) -> BTreeMap<(PoolName, InstanceTypeName), Arc<DeviceTemplates>> {
        let types =
            self.instance_types.iter().flat_map(|(pool, types)| types.iter().map(move |one| (pool, one)));
        let templates = types.filter_map(|(pool, one)| {
            let templates = self.own.brought.templates(pool, &one.name, one.devices.as_ref())?;
            Some(((pool.clone(), one.name.clone()), templates))
        });
        templates.collect()
    }

    /// The nodes that came with other devices than their types were to bring along.
    pub fn device_contradictions(&self) -> Vec<Contradiction> {
        let types =
            self.instance_types.iter().flat_map(|(pool, types)| types.iter().map(move |one| (pool, one)));
        let described = types.filter_map(|(pool, one)| Some((pool, &one.name, one.devices.as_ref()?)));
        described
            .flat_map(|(pool, kind, devices)| self.own.brought.contradictions(pool, kind, devices))
            .collect()
    }

    /// The resource slices that belong to a Node, in name order: those of that Node only, and those it owns.
    pub fn slices_of(&self, node: &NodeName) -> impl Iterator<Item = &Arc<ResourceSlice>> {
        let names = self.derived.slices_of.get(node).into_iter().flatten();
        names.filter_map(|name| self.facts.slices.model(name))
    }

    pub(crate) fn slice_changed(
        &mut self,
        name: &String,
        old: Option<&ResourceSlice>,
        new: Option<&ResourceSlice>,
    ) {
        let slices_of = &mut self.derived.slices_of;
        for node in old.into_iter().flat_map(nodes_of) {
            if let Some(names) = slices_of.get_mut(node) {
                names.remove(name);
                if names.is_empty() {
                    slices_of.remove(node);
                }
            }
        }
        for node in new.into_iter().flat_map(nodes_of) {
            slices_of.entry(node.clone()).or_default().insert(name.clone());
        }
        // What their machines have shown of their types may be something else now.
        new.into_iter().flat_map(nodes_of).for_each(|node| self.touch_node(node));
    }

    /// The claim without the pods that are no more, or will not be when their node has been rebooted: the API server frees it
    /// later.
    fn reserved(&self, used: &UsedClaim) -> Arc<ResourceClaim> {
        let exists = |(key, uid): &&(PodKey, PodUid)| {
            let pod = self.facts.pods.model(key);
            pod.is_some_and(|pod| pod.uid == *uid && !(pod.is_terminating() && self.is_on_rebooting(pod)))
        };
        let gone = used.pods.iter().filter(|pod| !exists(pod));
        let gone: BTreeSet<&PodUid> = gone.map(|(_, uid)| uid).collect();
        let mut claim = Arc::clone(&used.claim);
        if !gone.is_empty() {
            for consumer in &mut Arc::make_mut(&mut claim).reserved_for {
                if let Consumer::Pod(uid) = consumer
                    && gone.contains(uid)
                {
                    *consumer = Consumer::Gone(uid.clone());
                }
            }
        }
        claim
    }

    /// Returns whether the node of `pod` is being rebooted.
    fn is_on_rebooting(&self, pod: &Pod) -> bool {
        let node = pod.node_name.as_ref().and_then(|name| self.facts.nodes.model(name));
        let id = node.and_then(|node| node.provider_id.as_ref());
        let mut claims = id.into_iter().flat_map(|id| self.claims_of(id));
        claims.any(|claim| claim.model.is_true(ConditionType::Rebooting))
    }
}

/// The Nodes that `slice` belongs to.
fn nodes_of(slice: &ResourceSlice) -> impl Iterator<Item = &NodeName> {
    let reached = if let Reach::Node(node) = &slice.reach { Some(node) } else { None };
    slice.owner.iter().chain(reached)
}
