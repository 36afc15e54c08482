//! Gauges of a pass for dashboards: its backlog, its age, and the effective zones of pods (spec scheduling 12 and 30).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use karpenter_model::names::label;
use karpenter_model::{
    Expression, LabelRegistry, LabelValue, Operator, Pod, PodPhase, Requirement, Requirements, Snapshot,
};
use karpenter_telemetry::metrics::{Metrics, Series};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::NAME;
use crate::Context;

/// Period in which the age of a running pass is published.
const PERIOD: Duration = Duration::from_millis(500);

/// Zone of pods that may go to several.
const FLEXIBLE: &str = "flexible";
/// Zone of pods that may go nowhere.
const NONE: &str = "none";

/// The gauges of one running pass; they are gone when it ends, however it ends.
pub(super) struct Running<'a> {
    context: &'a Context,
    pass: String,
    started: Instant,
}

impl<'a> Running<'a> {
    /// Publishes what the pass over `snapshot` has before it.
    pub(super) fn new(context: &'a Context, snapshot: &Snapshot) -> Self {
        let pass = snapshot.revision.to_string();
        context.metrics.scheduler.queue_depth.set_count([NAME, &pass], snapshot.pending.len());
        Self { context, pass, started: Instant::now() }
    }

    /// Awaits `work`, publishing the age of the pass meanwhile.
    pub(super) async fn until<T>(self, work: impl Future<Output = T>) -> T {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = ticks.tick() => {
                    let age = self.started.elapsed().as_secs_f64();
                    self.context.metrics.scheduler.unfinished_work_seconds.set([NAME, &self.pass], age);
                }
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let metrics = &self.context.metrics.scheduler;
        metrics.queue_depth.remove([NAME, &self.pass]);
        metrics.unfinished_work_seconds.remove([NAME, &self.pass]);
    }
}

/// Number of waiting pods by effective zone.
pub(super) struct Zones(Series<2>);

impl Zones {
    /// Creates them with nothing published.
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self(Series::new(&metrics.scheduler.pending_pods_by_effective_zone_count))
    }

    /// Publishes the zones of the pods that wait, and drops those without a waiting pod.
    pub(super) fn publish(&self, snapshot: &Snapshot) {
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        // Virtual pods have no phase, and the reference does not count them here (spec scheduling 12 and 23).
        for pod in snapshot.pending.iter().filter(|pod| pod.phase == PodPhase::Pending) {
            *counts.entry(effective_zone(snapshot, pod)).or_default() += 1.0;
        }
        self.0.replace(NAME, counts.into_iter().map(|(zone, count)| ([NAME.to_owned(), zone], count)));
    }
}

/// The one zone a pod can go to, `flexible` when there are several, `none` when there is no such zone. The requirements of
/// the pod and its volumes count, rules about other pods do not.
fn effective_zone(snapshot: &Snapshot, pod: &Pod) -> String {
    let registry = &snapshot.registry;
    let own = zones_of(registry, &wanted(pod));
    let volumes = pod
        .volumes
        .iter()
        .filter_map(|claim| snapshot.volumes.get(&(pod.key.namespace.clone(), claim.name.clone())));
    let of_volumes = volumes.filter_map(|volume| {
        // A volume that can be anywhere in one of its alternatives does not tie the pod to a zone.
        let zones: Option<Vec<_>> =
            volume.alternatives.iter().map(|alternative| zones_of(registry, alternative)).collect();
        zones.filter(|zones| !zones.is_empty()).map(|zones| zones.into_iter().flatten().collect())
    });
    let allowed: Option<BTreeSet<LabelValue>> = own
        .into_iter()
        .chain(of_volumes)
        .reduce(|all: BTreeSet<LabelValue>, more| all.intersection(&more).cloned().collect());
    match allowed {
        None => FLEXIBLE.to_owned(),
        Some(zones) => match zones.iter().next() {
            None => NONE.to_owned(),
            Some(zone) if zones.len() == 1 => zone.to_string(),
            Some(_) => FLEXIBLE.to_owned(),
        },
    }
}

/// Node selector and first required term: what the first attempt to place the pod asks for.
fn wanted(pod: &Pod) -> Vec<Expression> {
    let selected = pod
        .node_selector
        .iter()
        .map(|(key, value)| Expression::new(key.as_str(), Operator::In, &[value.as_str()]));
    // Terms are alternatives, and the planner tries the first one first.
    let term = pod.required_terms.iter().take(1).flat_map(|term| term.expressions.iter().cloned());
    selected.chain(term).collect()
}

/// The zones named by `expressions`; nothing when they name none.
fn zones_of(registry: &LabelRegistry, expressions: &[Expression]) -> Option<BTreeSet<LabelValue>> {
    let requirements = Requirements::from_expressions(registry, expressions);
    requirements.get(label::ZONE).and_then(Requirement::concrete).cloned()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use karpenter_model::{NodeTerm, PodKey, Volume, VolumeClaim};

    use super::*;

    fn zones(values: &[&str]) -> Expression {
        Expression::new(label::ZONE, Operator::In, values)
    }

    fn pod() -> Pod {
        Pod::pending(PodKey::new("ns", "web"), "uid", Timestamp::UNIX_EPOCH)
    }

    fn selecting(values: &[&str]) -> Pod {
        let term = NodeTerm { expressions: vec![zones(values)], ..NodeTerm::default() };
        pod().with(|pod| pod.required_terms = vec![term])
    }

    #[test]
    fn a_pod_counts_in_the_zone_it_is_tied_to() {
        let mut snapshot = Snapshot::empty(Timestamp::UNIX_EPOCH);
        let volume = |alternatives| Volume { alternatives, ..Volume::default() };
        snapshot.volumes = [
            (("ns".into(), "in-a".into()), volume(vec![vec![zones(&["a"])]]).into()),
            (
                ("ns".into(), "in-a-or-b".into()),
                volume(vec![vec![zones(&["a"])], vec![zones(&["b"])]]).into(),
            ),
            (("ns".into(), "anywhere".into()), volume(vec![vec![zones(&["a"])], vec![]]).into()),
        ]
        .into();
        let mounting =
            |name: &str, pod: Pod| pod.with(|pod| pod.volumes = vec![VolumeClaim { name: name.into() }]);
        let avoiding = Expression::new(label::ZONE, Operator::NotIn, &["a"]);
        let not_in = NodeTerm { expressions: vec![avoiding], ..NodeTerm::default() };
        for (case, pod, want) in [
            ("nothing asked for", pod(), "flexible"),
            (
                "selector",
                pod().with(|pod| pod.node_selector = [(label::ZONE.into(), "a".into())].into()),
                "a",
            ),
            ("one of two", selecting(&["a", "b"]), "flexible"),
            ("term", selecting(&["b"]), "b"),
            ("not in is no zone", pod().with(|pod| pod.required_terms = vec![not_in]), "flexible"),
            ("volume", mounting("in-a", pod()), "a"),
            ("volume of two zones", mounting("in-a-or-b", pod()), "flexible"),
            ("volume of two zones, pod of one", mounting("in-a-or-b", selecting(&["b"])), "b"),
            ("volume elsewhere", mounting("in-a", selecting(&["b"])), "none"),
            ("a volume that may be anywhere", mounting("anywhere", selecting(&["b"])), "b"),
        ] {
            assert_eq!(effective_zone(&snapshot, &pod), want, "{case}");
        }
    }
}
