//! Candidates: nodes that may be disrupted at all (spec disruption 3.2), in the order of the checks.

mod blocker;
pub(crate) mod choice;
mod evictions;

use std::collections::BTreeSet;

use karpenter_model::names::annotation;
use karpenter_model::plan::command::{Candidate as Disrupted, Method};
use karpenter_model::{
    CapacityType, Claim, ConditionType, DisruptionReason, InstanceType, Node, NodeName, Offering, OwnerUid,
    Pod, Pool, Price, RemovalTarget,
};

pub(crate) use blocker::Blocker;
pub(crate) use evictions::Evictions;

use crate::disrupt::cost::Cost;
use crate::disrupt::lookup::Lookup;

/// Source of a price. Published prices are not compared with estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// Price stated by the cloud, or by people.
    Published,
    /// It was worked out from other prices.
    Estimated,
}

impl Basis {
    /// Returns the basis of an offering; a reservation costs nothing more, whatever its type costs.
    pub(crate) fn of(offering: &Offering) -> Option<Self> {
        let basis = if offering.estimated { Self::Estimated } else { Self::Published };
        (offering.capacity_type != CapacityType::Reserved).then_some(basis)
    }
}

/// A node that may be disrupted, with the facts that the methods use.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a Node,
    pub(crate) claim: &'a Claim,
    pub(crate) pool: &'a Pool,
    /// The type in its labels, if its pool still has it.
    pub(crate) instance_type: Option<&'a InstanceType>,
    /// Price of the node; zero when unknown.
    pub(crate) price: Price,
    /// Source of that price; `None` for nodes that were paid for ahead.
    pub(crate) basis: Option<Basis>,
    /// Cost of moving its pods.
    pub(crate) cost: Cost,
    /// Number of pods that would be missed.
    pub(crate) missed: usize,
    name: &'a NodeName,
    /// Objection of its pods to a drain.
    pods: Option<Blocker>,
}

impl<'a> Candidate<'a> {
    /// The candidate for `node`, or the first thing that blocks it whatever the method. Objections of its
    /// pods are kept for later, because some methods may pass over them.
    pub(crate) fn of(node: &'a Node, lookup: &Lookup<'a>) -> Result<Self, Blocker> {
        let nominated = node.is_nominated(lookup.snapshot().now);
        Self::unless(node, lookup, nominated, |node| {
            let annotations = node.effective_annotations();
            if !node.initialized() {
                Some(Blocker::NotInitialized)
            } else if annotations.get(annotation::DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
                Some(Blocker::NodeDoNotDisrupt)
            } else {
                None
            }
        })
    }

    /// The candidate for a `node` to repair: neither its annotation nor that it is not initialized protects it.
    pub(crate) fn broken(node: &'a Node, lookup: &Lookup<'a>) -> Result<Self, Blocker> {
        // One that is not ready takes no pod: the pod that was promised it waits, and is promised it again by every plan.
        let nominated = node.ready && node.is_nominated(lookup.snapshot().now);
        Self::unless(node, lookup, nominated, |_| None)
    }

    fn unless(
        node: &'a Node,
        lookup: &Lookup<'a>,
        nominated: bool,
        protects: fn(&Node) -> Option<Blocker>,
    ) -> Result<Self, Blocker> {
        let Some(claim) = node.claim.as_deref() else { return Err(Blocker::Unmanaged) };
        let Some(name) = &node.name else { return Err(Blocker::NoNode) };
        // Before the checks of the reference, because such a node counts as not initialized and would be
        // reported as that.
        if node.is_rebooting() {
            return Err(Blocker::Rebooting);
        }
        let protected = protects(node);
        // The order is that of the reference and shows in events: not initialized, leaving, nominated, then the annotation.
        if protected == Some(Blocker::NotInitialized) {
            return Err(Blocker::NotInitialized);
        }
        // A Node that is being deleted takes its claim along, but does not count as leaving before the claim
        // does (spec scheduling 27.3).
        if node.is_leaving() || node.deletion.is_some() {
            return Err(Blocker::Leaving);
        }
        if nominated {
            return Err(Blocker::Nominated);
        }
        if let Some(blocker) = protected {
            return Err(blocker);
        }
        let away = &lookup.snapshot().zones_away;
        if let Some(zone) = node.zone().filter(|zone| away.contains(zone)) {
            return Err(Blocker::ZoneAway(zone));
        }
        let Some(name_of_pool) = node.pool() else { return Err(Blocker::NoPoolLabel) };
        let Some(pool) = lookup.pool(&name_of_pool) else { return Err(Blocker::PoolMissing(name_of_pool)) };
        // Without types neither the price of the node nor a replacement can be judged.
        if !lookup.sells(&pool.name) {
            return Err(Blocker::NoInstanceTypes(pool.name.clone()));
        }
        Ok(Self {
            node,
            claim,
            pool,
            instance_type: lookup.instance_type(node, &pool.name),
            price: lookup.price(node, &pool.name),
            basis: lookup.offering(node, &pool.name).and_then(Basis::of),
            cost: Cost::of(moving(node)),
            missed: moving(node).filter(|pod| pod.eviction_cost() > 0).count(),
            name,
            pods: blocker::of_pods(node, lookup),
        })
    }

    /// Returns the objection of its pods to being disrupted by `method`: none for repair, which has a rule of its own about
    /// blocking pods, and none if drift may run into the deadline of the claim's termination grace period.
    pub(crate) fn blocker(&self, method: Method) -> Option<&Blocker> {
        let eventual = method.reason() == DisruptionReason::Drifted;
        let waived = method == Method::Repair || eventual && self.claim.termination_grace_period.is_some();
        self.pods.as_ref().filter(|_| !waived)
    }

    /// Returns the objection of its pods to a drain.
    pub(crate) fn pods(&self) -> Option<&Blocker> {
        self.pods.as_ref()
    }

    /// Returns whether a drain would meet pods that cannot leave now, and last until its deadline.
    pub(crate) fn cannot_drain(&self) -> bool {
        self.pods.is_some()
    }

    /// Returns whether no pod on it would need another place.
    pub(crate) fn is_empty(&self) -> bool {
        self.cost.is_base()
    }

    /// Returns whether it no longer matches its pool or class.
    pub(crate) fn is_drifted(&self) -> bool {
        self.claim.is_true(ConditionType::Drifted)
    }

    /// Pods that would be created elsewhere.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &'a Pod> {
        moving(self.node)
    }

    /// Returns its entry in a command.
    pub(crate) fn disrupted(&self) -> Disrupted {
        let workloads: BTreeSet<&OwnerUid> = self.moving().filter_map(|pod| pod.owner_uid.as_ref()).collect();
        Disrupted {
            target: RemovalTarget {
                id: self.node.id.clone(),
                claim: self.claim.name.clone(),
                node: self.name.clone(),
            },
            pool: self.pool.name.clone(),
            instance_type: self.node.instance_type(),
            zone: self.node.zone(),
            capacity_type: self.node.capacity_type(),
            price: self.price,
            pods: self.moving().map(|pod| pod.key.clone()).collect(),
            workloads: workloads.into_iter().cloned().collect(),
        }
    }
}

/// Pods of `node` that would be created elsewhere if it were removed.
fn moving(node: &Node) -> impl Iterator<Item = &Pod> {
    node.pods.iter().map(AsRef::as_ref).filter(|pod| pod.is_reschedulable())
}
