//! The `Balanced` policy: a move must save at least half the share of the pool's cost that it disturbs of the pool's
//! pods (spec disruption 3.13). Whole numbers throughout; the factor is fixed at two.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::{ConsolidationPolicy, Pool, PoolName, Price};

use crate::disrupt::candidate::Candidate;
use crate::disrupt::cost::Cost;
use crate::disrupt::decision::{Move, MoveDecision};
use crate::disrupt::lookup::Lookup;
use crate::disrupt::note::{Note, NoteKind};
use crate::disrupt::score::Score;

/// Factor by which disturbance may exceed savings; part of events.
const K: u32 = 2;

/// Cost of each pool, and the cost of disturbing all of it, before anything is filtered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pools: BTreeMap<PoolName, (Price, i128)>,
}

/// Result of weighing a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// One entry per pool of the candidates, by name.
    pub(crate) pools: Vec<Weighed>,
}

/// Gain and disturbance of one pool by a move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weighed {
    pub(crate) outcome: Move,
    savings_permille: i128,
    disruption_permille: i128,
}

impl Totals {
    /// The totals of every `Balanced` pool: all its nodes, candidates or not.
    pub(crate) fn new(lookup: &Lookup<'_>) -> Self {
        let snapshot = lookup.snapshot();
        let balanced = |pool: &&Arc<Pool>| pool.disruption.policy == ConsolidationPolicy::Balanced;
        let mut pools: BTreeMap<PoolName, (Price, i128)> = snapshot
            .pools
            .iter()
            .filter(balanced)
            .map(|pool| (pool.name.clone(), Default::default()))
            .collect();
        if pools.is_empty() {
            return Self::default();
        }
        for node in &snapshot.nodes {
            let Some(pool) = node.pool() else { continue };
            let Some(total) = pools.get_mut(&pool) else { continue };
            let price = if node.is_managed() { lookup.price(node, &pool) } else { Price::ZERO };
            let moving = node.pods.iter().map(AsRef::as_ref).filter(|pod| pod.is_reschedulable());
            *total = (total.0.saturating_add(price), total.1 + Cost::of(moving).units());
        }
        Self { pools }
    }

    /// The score of a move that saves `savings` in `pool` and costs `disruption`, in units of [`Cost`].
    fn score(&self, pool: &PoolName, savings: i128, disruption: i128) -> Score {
        let Some((cost, total)) = self.pools.get(pool) else { return Score::ZERO };
        let cost = i128::from(cost.nanos());
        if cost <= 0 || *total <= 0 {
            return Score::ZERO;
        }
        Score::new(savings.saturating_mul(*total), cost.saturating_mul(disruption))
    }

    /// Returns whether even removing the node without replacement could not pass, so that nothing needs to be
    /// simulated. Unknown totals let it pass, as the reference does.
    pub(crate) fn rules_out(&self, candidate: &Candidate<'_>) -> bool {
        let known = self.pools.get(&candidate.pool.name).is_some_and(|(cost, _)| *cost > Price::ZERO);
        let balanced = candidate.pool.disruption.policy == ConsolidationPolicy::Balanced;
        let savings = i128::from(candidate.price.nanos());
        balanced && known && !self.score(&candidate.pool.name, savings, candidate.cost.units()).approves()
    }

    /// Weighs the removal of `candidates` for nodes that cost `replacement` together. Savings are split by what
    /// each pool's nodes cost.
    pub(crate) fn judge(&self, candidates: &[&Candidate<'_>], replacement: Price) -> Judgement {
        let mut by_pool: BTreeMap<&PoolName, (ConsolidationPolicy, i128, i128)> = BTreeMap::new();
        for candidate in candidates {
            let policy = candidate.pool.disruption.policy;
            let entry = by_pool.entry(&candidate.pool.name).or_insert((policy, 0, 0));
            entry.1 += i128::from(candidate.price.nanos());
            entry.2 += candidate.cost.units();
        }
        let source: i128 = by_pool.values().map(|(_, price, _)| price).sum();
        let savings = source - i128::from(replacement.nanos());
        let weigh =
            |(pool, (policy, price, disruption)): (&&PoolName, &(ConsolidationPolicy, i128, i128))| {
                // In whole billionths of a dollar, towards zero: less than the price of anything that is sold.
                let share = if source > 0 { savings.saturating_mul(*price) / source } else { 0 };
                let balanced = *policy == ConsolidationPolicy::Balanced;
                let score = balanced.then(|| self.score(pool, share, *disruption));
                let approved = score.is_none_or(|score| score.approves());
                let (cost, total) = self.pools.get(*pool).copied().unwrap_or_default();
                Weighed {
                    outcome: Move {
                        pool: (*pool).clone(),
                        policy: *policy,
                        decision: if approved { MoveDecision::Approved } else { MoveDecision::Rejected },
                        score,
                    },
                    savings_permille: permille(share, i128::from(cost.nanos())),
                    disruption_permille: permille(*disruption, total),
                }
            };
        Judgement { pools: by_pool.iter().map(weigh).collect() }
    }
}

impl Judgement {
    /// Returns whether every pool approves; a move without pools is not approved.
    pub(crate) fn approves(&self) -> bool {
        !self.pools.is_empty()
            && self.pools.iter().all(|pool| pool.outcome.decision == MoveDecision::Approved)
    }

    /// The first pool that rejects.
    pub(crate) fn rejection(&self) -> Option<&Weighed> {
        self.pools.iter().find(|pool| pool.outcome.decision == MoveDecision::Rejected)
    }

    /// Returns the moves for metrics, one entry per pool.
    pub(crate) fn moves(&self) -> impl Iterator<Item = Move> {
        self.pools.iter().map(|pool| pool.outcome.clone())
    }

    /// Events of approval for a command of several nodes: one per pool that was scored.
    pub(crate) fn pool_notes(&self) -> impl Iterator<Item = Note> {
        let scored = self.pools.iter().filter(|pool| pool.outcome.score.is_some());
        scored.map(|pool| Note::pool(&pool.outcome.pool, NoteKind::ConsolidationApproved, pool.text()))
    }

    /// The event of approval for a command of one node, if its pool was scored.
    pub(crate) fn machine_note(&self, candidate: &Candidate<'_>) -> Option<Note> {
        let scored = self.pools.iter().find(|pool| pool.outcome.score.is_some())?;
        Some(Note::machine(&candidate.node.id, NoteKind::ConsolidationApproved, scored.text()))
    }
}

impl Weighed {
    /// The text of events and reasons: score and threshold, factor, savings and disruption.
    pub(crate) fn text(&self) -> String {
        let score = self.outcome.score.unwrap_or(Score::INFINITE);
        let percent = |permille: i128| {
            let sign = if permille < 0 { "-" } else { "" };
            format!("{sign}{}.{}%", permille.abs() / 10, permille.abs() % 10)
        };
        format!(
            "score {score} (threshold {}, k={K}), savings {} of pool cost, disruption {} of pool disruption",
            Score::THRESHOLD,
            percent(self.savings_permille),
            percent(self.disruption_permille)
        )
    }
}

/// `part` of `whole` in thousandths, rounded to the nearest; zero of nothing.
fn permille(part: i128, whole: i128) -> i128 {
    if whole <= 0 { 0 } else { (part.saturating_mul(1_000) + whole / 2).div_euclid(whole) }
}

#[cfg(test)]
mod tests;
