//! Metrics, events and explanations of decisions.
//!
//! A cluster in which nothing changes gets the same decision again and again; that costs next to nothing here, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karpenter_engine::disrupt::{self, Brake, Decision, Note, NoteKind, Score};
use karpenter_lifecycle::step::About;
use karpenter_model::{
    ConsolidationPolicy, DisruptionReason, Method, Node, NodeId, NodeOutcome, PoolName, Snapshot,
};
use karpenter_telemetry::events::{Event, Reason, reason};
use karpenter_telemetry::metrics::{Metrics, Series};
use tokio::time::Instant;

use crate::Context;

/// Shown value of an infinite score: a sum of infinities is of no use.
const SCORE_MAX: f64 = 1_000.0;

/// Time for which the events of a decision that does not change are not published again.
const REMIND: Duration = Duration::from_mins(1);

/// Publishes decisions.
pub(in crate::disruption) struct DecisionPublisher {
    budgets: Budgets,
    /// The brakes that were on, for the log.
    brakes: BTreeSet<Brake>,
    /// The decision before, and when its events were published.
    last: Option<(Arc<Decision>, Instant)>,
}

impl DecisionPublisher {
    /// A publisher whose gauges about budgets are those of `metrics`.
    pub(in crate::disruption) fn of(metrics: &Metrics) -> Self {
        Self { budgets: Budgets::of(metrics), brakes: BTreeSet::new(), last: None }
    }

    /// Publishes a decision and the time it took. One that is the same as before gets only a new time, and its events
    /// again every minute, because events expire.
    pub(in crate::disruption) fn publish(
        &mut self,
        context: &Context,
        snapshot: &Snapshot,
        decision: &Arc<Decision>,
        took: Duration,
    ) {
        durations(&context.metrics, decision, took);
        let published = self.last.as_ref().filter(|(last, _)| Arc::ptr_eq(last, decision)).map(|(_, at)| *at);
        if published.is_some() {
            context.explanations.looked_again(snapshot.now);
        } else {
            self.budgets.publish(decision);
            methods(&context.metrics, decision);
            moves(&context.metrics, decision);
            kept(&context.metrics, decision);
            self.log_brakes(decision);
            context.explanations.disrupted(snapshot, decision);
        }
        if published.is_none_or(|at| at.elapsed() >= REMIND) {
            events(context, snapshot, decision);
            self.last = Some((Arc::clone(decision), Instant::now()));
        }
    }

    /// Logs the start and the end of a brake.
    fn log_brakes(&mut self, decision: &Decision) {
        for brake in Brake::ALL {
            let held = decision.held.get(&brake).copied().unwrap_or_default();
            let name = brake.as_str();
            if held > 0 && self.brakes.insert(brake) {
                tracing::info!(brake = name, nodes = held, "a brake holds disruption back");
            } else if held == 0 && self.brakes.remove(&brake) {
                tracing::info!(brake = name, "a brake no longer holds disruption back");
            }
        }
    }
}

/// The gauges about budgets, which vanish with their pools.
struct Budgets {
    allowed: Series<2>,
    consuming: Series<2>,
}

impl Budgets {
    fn of(metrics: &Metrics) -> Self {
        Self {
            allowed: Series::new(&metrics.nodepools.allowed_disruptions),
            consuming: Series::new(&metrics.nodepools.nodes_consuming_budgets),
        }
    }

    fn publish(&self, decision: &Decision) {
        let mut pools: BTreeMap<&PoolName, Vec<_>> = BTreeMap::new();
        for ((pool, reason), state) in &decision.budgets {
            pools.entry(pool).or_default().push((reason, state));
        }
        for (pool, states) in &pools {
            let labels = |reason: &DisruptionReason| [pool.to_string(), reason.to_string()];
            let allowed = states.iter().map(|(reason, state)| (labels(reason), f64::from(state.allowed)));
            self.allowed.replace(pool.as_str(), allowed);
            let consuming = states.iter().map(|(reason, state)| (labels(reason), f64::from(state.consuming)));
            self.consuming.replace(pool.as_str(), consuming);
        }
        for series in [&self.allowed, &self.consuming] {
            series.retain(|pool| pools.keys().any(|known| known.as_str() == pool));
        }
    }
}

fn events(context: &Context, snapshot: &Snapshot, decision: &Decision) {
    let nodes: BTreeMap<&NodeId, &Node> = snapshot.nodes.iter().map(|node| (&node.id, &**node)).collect();
    for note in &decision.notes {
        for about in subjects(note, &nodes) {
            if let Some(object) = context.object(&about) {
                let mut event = Event::new(object, event_reason(note), note.message.as_str());
                if !note.distinguished_by.is_empty() {
                    event = event.distinguished_by(note.distinguished_by.as_str());
                }
                context.recorder.publish(event);
            }
        }
    }
}

/// The engine decides in one go and reads no clock: methods share the time by the simulations each of them ran.
fn durations(metrics: &Metrics, decision: &Decision, took: Duration) {
    // A method that simulated nothing has its share as well, and no share divides by zero.
    let all: u32 = decision.methods.values().map(|stats| stats.simulations.saturating_add(1)).sum();
    for (method, stats) in &decision.methods {
        let share = f64::from(stats.simulations.saturating_add(1)) / f64::from(all);
        let (reason, kind) = (method.reason().to_string().to_lowercase(), method.consolidation_type());
        let histogram = &metrics.disruption.decision_evaluation_duration_seconds;
        histogram.observe([&reason, kind], took.mul_f64(share));
    }
}

fn methods(metrics: &Metrics, decision: &Decision) {
    let metrics = &metrics.disruption;
    let mut eligible: BTreeMap<DisruptionReason, u32> = BTreeMap::new();
    for method in Method::ALL {
        let stats = decision.methods.get(&method).copied().unwrap_or_default();
        let (reason, kind) = (method.reason(), method.consolidation_type());
        let sum = eligible.entry(reason).or_default();
        *sum = match reason {
            // Machines drift either here or there; the methods of consolidation look at the same ones.
            DisruptionReason::Drifted => sum.saturating_add(stats.eligible),
            DisruptionReason::Empty | DisruptionReason::Underutilized | DisruptionReason::Unhealthy => {
                (*sum).max(stats.eligible)
            }
        };
        if stats.timed_out && reason == DisruptionReason::Underutilized {
            metrics.consolidation_timeouts_total.inc([kind]);
        }
    }
    for (reason, count) in eligible {
        metrics.eligible_nodes.set([&reason.to_string().to_lowercase()], f64::from(count));
    }
}

fn moves(metrics: &Metrics, decision: &Decision) {
    for weighed in &decision.moves {
        let labels = [weighed.decision.as_str(), weighed.pool.as_str(), policy(weighed.policy)];
        metrics.disruption.consolidation_moves_total.inc(labels);
        if let Some(score) = &weighed.score {
            metrics.disruption.consolidation_score.observe_value(labels, sample(score));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "samples are doubles by format")]
fn sample(score: &Score) -> f64 {
    score.hundredths().map_or(SCORE_MAX, |hundredths| (hundredths as f64 / 100.0).min(SCORE_MAX))
}

const fn policy(policy: ConsolidationPolicy) -> &'static str {
    match policy {
        ConsolidationPolicy::WhenEmpty => "WhenEmpty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
        ConsolidationPolicy::Balanced => "Balanced",
    }
}

/// Records the number of machines that stay, by reason, and of those held by a brake, by brake.
fn kept(metrics: &Metrics, decision: &Decision) {
    for brake in Brake::ALL {
        let held = decision.held.get(&brake).copied().unwrap_or_default();
        metrics.disruption.held_nodes.set([brake.as_str()], f64::from(held));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in decision.nodes.values() {
        if let NodeOutcome::Kept(reason) = outcome {
            *counts.entry(reason.code.as_str()).or_default() += 1;
        }
    }
    let gauge = &metrics.disruption.kept_nodes;
    for code in karpenter_model::report::ReasonCode::ALL {
        match counts.get(code.as_str()) {
            Some(count) => gauge.set_count([code.as_str()], *count),
            None => gauge.remove([code.as_str()]),
        }
    }
}

fn subjects(note: &Note, nodes: &BTreeMap<&NodeId, &Node>) -> Vec<About> {
    match &note.about {
        disrupt::About::Pool(pool) => vec![About::Pool(pool.clone())],
        disrupt::About::Machine(id) => nodes.get(id).map_or_else(Vec::new, |node| {
            let claim = node.claim.as_ref().map(|claim| About::Claim(claim.name.clone()));
            node.name.clone().map(About::Node).into_iter().chain(claim).collect()
        }),
    }
}

fn event_reason(note: &Note) -> Reason {
    match (note.kind, &note.about) {
        (NoteKind::DisruptionBlocked, disrupt::About::Pool(_)) => reason::DISRUPTION_BLOCKED_BY_BUDGET,
        (NoteKind::DisruptionBlocked, disrupt::About::Machine(_)) => reason::DISRUPTION_BLOCKED,
        (NoteKind::Unconsolidatable, _) => reason::UNCONSOLIDATABLE,
        (NoteKind::ConsolidationCandidate, _) => reason::CONSOLIDATION_CANDIDATE,
        (NoteKind::ConsolidationApproved, _) => reason::CONSOLIDATION_APPROVED,
        (NoteKind::NodeRepairBlocked, _) => reason::NODE_REPAIR_BLOCKED,
        (NoteKind::DisruptionHeld, _) => reason::DISRUPTION_HELD,
    }
}

#[cfg(test)]
mod tests;
