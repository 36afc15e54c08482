//! Results of placement about demands and levels, so that nothing is computed twice.
//!
//! Nodes only get fuller and in-flight nodes only get narrower during a pass, so a refusal within a pass is final. It
//! is remembered where its cause is: what labels, taints and room refuse is refused to every level with the demand,
//! what other pods refuse only to the level. Each simulation is a pass of its own.

use std::collections::BTreeMap;

use karpenter_model::Price;

use crate::bits::Bits;
use crate::index::{DemandIx, InFlightIx, IxVec, KindIx, LevelIx, NodeIx, PoolIx, ProfileIx, VariantIx};
use crate::place::level::{Demand, Level, Levels};
use crate::rules::RuleSetId;

/// Least price of a node for a demand alone, by requirements, which name the pool; `None` if there is no such node.
pub(crate) type Prices = BTreeMap<RuleSetId, Option<Price>>;

/// Results about a demand: those valid as long as the solver lives, then those valid in one pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct DemandMemo {
    /// Existing nodes that refuse in every pass from one filling: labels, taints, or no room even before anything moves.
    pub(crate) unsuitable: Bits<NodeIx>,
    /// Verdict on labels and taints of each kind of node, once known.
    pub(crate) kinds: IxVec<KindIx, Option<bool>>,
    /// Instance types of each pool, once known, that could host the demand alone if there were no limits.
    pub(crate) hosts: BTreeMap<PoolIx, Option<Bits<VariantIx>>>,
    /// The least price of a node for the demand alone, by requirements.
    pub(crate) prices: Prices,
    /// The filling that `unsuitable` is about.
    filling: u64,
    /// The pass that the fields below are about.
    pass: u64,
    /// Existing nodes that have no room in this pass.
    pub(crate) nodes: Bits<NodeIx>,
    /// In-flight nodes that cannot take it in this pass.
    pub(crate) in_flight: Bits<InFlightIx>,
}

/// Results about a level in one pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct LevelMemo {
    pass: u64,
    /// Existing nodes that other pods keep it out of.
    pub(crate) nodes: Bits<NodeIx>,
    /// In-flight nodes that other pods keep it out of.
    pub(crate) in_flight: Bits<InFlightIx>,
    /// Every node and every pool refuses, and nothing in this pass can change that.
    pub(crate) exhausted: bool,
    /// Version of what was in the way and may change: worth another try once it has grown.
    pub(crate) stuck_at: Option<u64>,
    /// The pool whose reservations were in the way.
    pub(crate) used_up: Option<PoolIx>,
}

/// A level, with what has been learnt about it.
pub(crate) struct Known<'w> {
    pub(crate) demand: &'w Demand,
    pub(crate) profile: Option<ProfileIx>,
    pub(crate) demand_memo: &'w mut DemandMemo,
    pub(crate) level_memo: &'w mut LevelMemo,
}

/// Results about all demands and levels.
#[derive(Debug, Clone, Default)]
pub(crate) struct Learnt {
    demands: IxVec<DemandIx, DemandMemo>,
    levels: IxVec<LevelIx, LevelMemo>,
    /// Number of the filling that passes begin with.
    filling: u64,
    /// Number of the pass; simulations are passes of their own.
    pass: u64,
}

impl Learnt {
    /// Results for `levels`, none of which is known yet.
    pub(crate) fn new(levels: &Levels) -> Self {
        let (demands, levels) = (levels.demands().len(), levels.len());
        Self {
            demands: IxVec::filled(DemandMemo::default(), demands),
            levels: IxVec::filled(LevelMemo::default(), levels),
            filling: 0,
            pass: 0,
        }
    }

    /// Everything about `id`, one of `levels`. What held in an earlier pass only is dropped here, when it is next
    /// looked at: a simulation touches few levels, so clearing all of them between passes would cost more.
    pub(crate) fn known<'w>(&'w mut self, levels: &'w Levels, id: LevelIx) -> Known<'w> {
        let Level { demand, profile } = levels.level(id);
        let (demand_memo, level_memo) = (&mut self.demands[demand], &mut self.levels[id]);
        let pass = self.pass;
        if level_memo.pass != pass {
            *level_memo = LevelMemo { pass, ..LevelMemo::default() };
        }
        if demand_memo.pass != pass {
            demand_memo.pass = pass;
            (demand_memo.nodes, demand_memo.in_flight) = Default::default();
        }
        if demand_memo.filling != self.filling {
            demand_memo.filling = self.filling;
            demand_memo.unsuitable = Bits::default();
        }
        Known { demand: levels.demand(id), profile, demand_memo, level_memo }
    }

    /// Returns whether there is nothing more to try for `id`.
    pub(crate) fn is_exhausted(&self, id: LevelIx) -> bool {
        self.levels[id].exhausted
    }

    /// Begins another pass.
    pub(crate) fn next_pass(&mut self) {
        self.pass += 1;
    }

    /// Begins a pass with another filling: a node that was full in the one before may have room in it.
    pub(crate) fn next_filling(&mut self) {
        self.pass += 1;
        self.filling += 1;
    }
}
