//! Which nodes may be disrupted at all (spec disruption 3.2), in the order of the checks.

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

/// What a price rests on. Published prices are not compared with estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The cloud, or people, said so.
    Published,
    /// It was worked out from other prices.
    Estimated,
}

impl Basis {
    /// That of an offering; a reservation costs nothing more, whatever its type costs.
    pub(crate) fn of(offering: &Offering) -> Option<Self> {
        let basis = if offering.estimated { Self::Estimated } else { Self::Published };
        (offering.capacity_type != CapacityType::Reserved).then_some(basis)
    }
}

/// A node that may be disrupted, with what the methods ask about it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) node: &'a Node,
    pub(crate) claim: &'a Claim,
    pub(crate) pool: &'a Pool,
    /// The type it says it is, if its pool still has it.
    pub(crate) instance_type: Option<&'a InstanceType>,
    /// What it costs; zero when unknown.
    pub(crate) price: Price,
    /// What that price rests on; nothing is claimed about nodes that were paid for ahead.
    pub(crate) basis: Option<Basis>,
    /// What it costs to move its pods.
    pub(crate) cost: Cost,
    /// Number of pods that would be missed.
    pub(crate) missed: usize,
    name: &'a NodeName,
    /// What its pods have against it.
    pods: Option<Blocker>,
}

impl<'a> Candidate<'a> {
    /// The candidate for `node`, or the first thing that blocks it whatever the method. Objections of its
    /// pods are kept for later, because some methods may pass over them.
    pub(crate) fn of(node: &'a Node, lookup: &Lookup<'a>) -> Result<Self, Blocker> {
        Self::unless(node, lookup, |node| {
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

    /// The same for a node that is to be repaired: neither its own word nor that it has not come up protects it.
    pub(crate) fn broken(node: &'a Node, lookup: &Lookup<'a>) -> Result<Self, Blocker> {
        Self::unless(node, lookup, |_| None)
    }

    fn unless(
        node: &'a Node,
        lookup: &Lookup<'a>,
        protects: fn(&Node) -> Option<Blocker>,
    ) -> Result<Self, Blocker> {
        let now = lookup.snapshot().now;
        let Some(claim) = node.claim.as_deref() else { return Err(Blocker::Unmanaged) };
        let Some(name) = &node.name else { return Err(Blocker::NoNode) };
        let protected = protects(node);
        if protected == Some(Blocker::NotInitialized) {
            return Err(Blocker::NotInitialized);
        }
        if node.is_leaving() || node.deletion.is_some() {
            return Err(Blocker::Leaving);
        }
        if node.is_nominated(now) {
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

    /// What its pods have against being disrupted by `method`: nothing, if drift may run into the deadline of the
    /// claim's termination grace period, and for repair what its policy says.
    pub(crate) fn blocker(&self, method: Method) -> Option<&Blocker> {
        let eventual = method.reason() == DisruptionReason::Drifted;
        let waived = method == Method::Repair || eventual && self.claim.termination_grace_period.is_some();
        self.pods.as_ref().filter(|_| !waived)
    }

    /// What its pods have against a drain.
    pub(crate) fn pods(&self) -> Option<&Blocker> {
        self.pods.as_ref()
    }

    /// Whether a drain would run into pods that cannot leave now, and last until its deadline.
    pub(crate) fn cannot_drain(&self) -> bool {
        self.pods.is_some()
    }

    /// Whether nothing on it would be missed.
    pub(crate) fn is_empty(&self) -> bool {
        self.cost.is_base()
    }

    /// Whether it no longer is what its pool or class asks for.
    pub(crate) fn is_drifted(&self) -> bool {
        self.claim.is_true(ConditionType::Drifted)
    }

    /// Pods that would come back elsewhere.
    pub(crate) fn moving(&self) -> impl Iterator<Item = &'a Pod> {
        moving(self.node)
    }

    /// What a command says about it.
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

/// Pods of `node` that would come back elsewhere if it went away.
fn moving(node: &Node) -> impl Iterator<Item = &Pod> {
    node.pods.iter().map(AsRef::as_ref).filter(|pod| pod.is_reschedulable())
}
