//! The broken promises of one workload: how many nodes they cost, how long it is held, and what must change before
//! another node could fare better.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::{Claim, ClaimName, ConditionType, PoolName};

use super::Saved;
use super::arrival::{Arrival, Stage};
use super::world::World;

/// Nodes that are bought for a workload which none of them serves.
pub(crate) const NODES: u32 = 3;
/// Looks in a row at nodes that have come up and are not used until the workload is held.
pub(super) const LOOKS: u32 = 3;
/// The shortest hold, and the longest one once another client has taken the nodes away.
pub(crate) const HOLD_MIN: Duration = Duration::from_mins(2);
/// The longest hold while nothing shows that another node would be no better.
pub(crate) const HOLD_MAX: Duration = Duration::from_hours(1);
/// The hold once [`NODES`] nodes have come and were no use. What ends it earlier is a change; a day is for causes
/// that cannot be seen from here.
pub(crate) const HOLD_FIRM: Duration = Duration::from_hours(24);
/// Unused nodes seen closer together than this count as one: they come from one plan.
pub(super) const ONE_LOOK: Duration = Duration::from_secs(30);
/// The time without another broken promise after which a workload is forgotten.
const MEMORY: Duration = Duration::from_hours(4);

/// One workload that nodes have not served.
#[derive(Debug)]
pub(super) struct Record {
    /// Nodes that were bought and did not serve.
    pub(super) nodes: u32,
    /// Looks at nodes that are up and not used.
    pub(super) looks: u32,
    /// Holds so far.
    holds: u32,
    /// Another node would fare the same: one of those that came differs from what was announced, does not take the pod
    /// by the planner's own rules, or was removed unused.
    firm: bool,
    last: Timestamp,
    pub(super) until: Option<Timestamp>,
    /// The machines that did not serve, as they were.
    unused: BTreeMap<ClaimName, Arrival>,
    /// The last of them, and why it did not serve, for a time when none is left.
    latest: Option<ClaimName>,
    why: String,
    /// The pools of these nodes, each with the version of its template.
    templates: BTreeMap<PoolName, String>,
    /// Requirements of the daemon sets; `None` after a change of leader, until the first look.
    daemons: Option<BTreeSet<String>>,
}

impl Record {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            nodes: 0,
            looks: 0,
            holds: 0,
            firm: false,
            last: now,
            until: None,
            unused: BTreeMap::new(),
            latest: None,
            why: String::new(),
            templates: BTreeMap::new(),
            daemons: None,
        }
    }

    /// Returns whether this node has been counted already.
    pub(super) fn counted(&self, claim: &ClaimName) -> bool {
        self.unused.contains_key(claim)
    }

    /// Returns whether a look at `now` belongs to the one before.
    pub(super) fn is_one_with_the_last(&self, now: Timestamp) -> bool {
        self.looks > 0 && since(self.last, now) < ONE_LOOK
    }

    /// Counts a node that did not serve: `why` in a sentence, `firm` when another one would fare the same.
    pub(super) fn add_node(&mut self, claim: &ClaimName, arrival: &Arrival, why: String, firm: bool) {
        if !self.counted(claim) {
            self.nodes += 1;
        }
        self.firm |= firm;
        self.keep(claim, arrival, why);
    }

    /// Keeps the facts about a node that did not serve.
    pub(super) fn keep(&mut self, claim: &ClaimName, arrival: &Arrival, why: String) {
        self.why = why;
        self.unused.insert(claim.clone(), arrival.clone());
        self.latest = Some(claim.clone());
    }

    /// Holds the workload if enough has been seen; returns whether it is held.
    pub(super) fn judge(&mut self, world: &World<'_>, now: Timestamp) -> bool {
        self.last = now;
        // Machines that were gone by now can neither be asked nor taken away.
        let latest = self.latest.clone();
        self.unused.retain(|name, _| world.claim(name).is_some() || latest.as_ref() == Some(name));
        let pools = self.unused.values().filter_map(|arrival| arrival.pool.as_ref());
        self.templates = pools.filter_map(|pool| Some((pool.clone(), world.template(pool)?))).collect();
        self.daemons = Some(world.daemons().clone());
        if self.nodes < NODES && self.looks < LOOKS {
            return false;
        }
        let doubled = HOLD_MIN.saturating_mul(2_u32.saturating_pow(self.holds)).min(HOLD_MAX);
        // The scheduler may only be late: nodes that came as announced are given up for good after three pauses.
        let seen_thrice = self.nodes >= NODES && self.looks >= LOOKS && self.holds >= NODES - 1;
        let length = if (self.firm && self.nodes >= NODES) || seen_thrice { HOLD_FIRM } else { doubled };
        self.holds += 1;
        self.until = Some(now + length);
        true
    }

    /// Looks at the world again: false when what the record rests on has changed, so that it means nothing any more.
    pub(super) fn still_stands(&mut self, world: &World<'_>, now: Timestamp) -> bool {
        if since(self.until.map_or(self.last, |until| until.max(self.last)), now) >= MEMORY {
            return false;
        }
        for (name, arrival) in &mut self.unused {
            let ours = |claim: &Claim| claim.is_true(ConditionType::DisruptionReason);
            arrival.removed_by_us |= world.claim(name).is_some_and(ours);
        }
        if self.has_changed(world) {
            return false;
        }
        if self.was_taken_away(world) {
            // The nodes may have served, had they been left: a day of holding would rest on no evidence.
            self.until = self.until.map(|until| until.min(self.last + HOLD_MIN));
        }
        true
    }

    /// Returns whether the counted nodes no longer prove that another one would fail: the pool is gone or has another
    /// template, the node class or image has changed since (the node has drifted), an unannounced taint has been removed,
    /// the daemon sets are others, or a younger node has come as announced.
    fn has_changed(&mut self, world: &World<'_>) -> bool {
        let other_template =
            |(pool, template): (&PoolName, &String)| world.template(pool).is_none_or(|now| now != *template);
        let daemons = world.daemons();
        let others = self.daemons.get_or_insert_with(|| daemons.clone()) != daemons;
        if others || self.templates.iter().any(other_template) {
            return true;
        }
        self.unused.iter().any(|(name, arrival)| {
            let drifted = world.claim(name).is_some_and(|claim| claim.is_true(ConditionType::Drifted));
            let untainted = world.staying(name).is_some_and(|node| {
                let taints = node.effective_taints();
                arrival.taints.iter().any(|taint| !taints.contains(taint))
            });
            drifted || untainted
        }) || self.came_right_since(world)
    }

    /// Returns whether a node that was initialized after the last disagreement is as its claim announced, although those
    /// before it were not.
    fn came_right_since(&self, world: &World<'_>) -> bool {
        let differing: Vec<&Arrival> = self.unused.values().filter(|arrival| arrival.differs()).collect();
        if differing.is_empty() || differing.len() < self.unused.len() {
            return false;
        }
        world.nodes().any(|(claim, node)| {
            let young = claim.true_since(ConditionType::Initialized).is_some_and(|since| since > self.last);
            let alike = |of: &&Arrival| {
                let same_type = of.lacks.is_empty() || of.instance_type == claim.instance_type();
                of.pool == claim.pool && same_type
            };
            young && differing.iter().all(alike) && !Arrival::of(claim, node).differs()
        })
    }

    /// Returns whether none of the nodes is left, and one of them was taken away by another client. The removal of an unused
    /// node by this controller is no evidence about the next one.
    fn was_taken_away(&self, world: &World<'_>) -> bool {
        !self.firm
            && !self.unused.is_empty()
            && self.unused.keys().all(|name| world.staying(name).is_none())
            && self
                .unused
                .values()
                // Before it has registered a machine cannot have been of use, whichever client has removed
                // it.
                .any(|arrival| !arrival.removed_by_us && arrival.stage >= Stage::Registered)
    }

    /// The pool of the nodes, when it is one.
    pub(super) fn pool(&self) -> Option<&PoolName> {
        let mut pools = self.templates.keys();
        pools.next().filter(|_| pools.next().is_none())
    }

    /// The claims whose nodes did not serve.
    pub(super) fn claims(&self) -> BTreeSet<ClaimName> {
        self.unused.keys().cloned().collect()
    }

    /// Name of a node that did not serve, and the reason.
    pub(super) fn text(&self) -> String {
        match self.nodes.max(u32::try_from(self.unused.len()).unwrap_or(u32::MAX)) {
            0 | 1 => self.why.clone(),
            2 => format!("{} (and one more node)", self.why),
            nodes => format!("{} (and {} more nodes)", self.why, nodes - 1),
        }
    }

    /// Parts that survive a change of leader, by pool.
    pub(super) fn saved(&self) -> impl Iterator<Item = (&PoolName, Saved)> {
        self.templates.iter().map(|(pool, template)| {
            let saved = Saved {
                nodes: self.nodes,
                looks: self.looks,
                holds: self.holds,
                firm: self.firm,
                last: self.last,
                until: self.until,
                why: self.why.clone(),
                template: template.clone(),
                claims: self.claims(),
            };
            (pool, saved)
        })
    }

    /// The record as another leader left it, with the machines it has counted as they are now.
    pub(super) fn restored(pool: &PoolName, saved: Saved, world: &World<'_>) -> Self {
        let counted = saved.claims.into_iter().filter_map(|name| {
            let (claim, node) = world.machine(&name)?;
            Some((name, Arrival::of(claim, node)))
        });
        Self {
            unused: counted.collect(),
            nodes: saved.nodes,
            looks: saved.looks,
            holds: saved.holds,
            firm: saved.firm,
            until: saved.until,
            why: saved.why,
            templates: [(pool.clone(), saved.template)].into(),
            ..Self::new(saved.last)
        }
    }
}
