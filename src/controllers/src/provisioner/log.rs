//! Log of plans: how many pods wait and what is done about them, and why nothing is.
//!
//! A plan is made again every ten seconds for as long as a pod waits, and is mostly the same. Launches are logged every
//! time; everything else when it is new, and again after ten minutes. The texts are the reference's, which people's tools
//! look for.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::{Plan, PodKey, PodOutcome, PoolOutcome, Report, Snapshot};

use super::publish::{EventText, event_text};

/// Time for which a logged text is not logged again.
const REMIND: Duration = Duration::from_mins(10);
/// Most reasons logged for one plan; the rest is in events and in `karpenter explain`.
const REASONS: usize = 5;
/// Most pods named.
const PODS: usize = 5;

/// Logged texts, with the time.
#[derive(Debug, Default)]
pub(super) struct Log(BTreeMap<String, Timestamp>);

impl Log {
    /// Logs the result of a plan. Room of capacity buffers is no pod that waits.
    pub(super) fn plan(&mut self, snapshot: &Snapshot, plan: &Plan, report: &Report) {
        let found = Found::of(snapshot, report);
        let mut said = std::mem::take(&mut self.0);
        said.retain(|_, at| {
            Duration::try_from(snapshot.now.duration_since(*at)).is_ok_and(|age| age < REMIND)
        });
        let mut is_news = |gist: &str| {
            let before = said.get(gist).copied();
            // With the time of the first log, so that a text that stays is repeated after the period.
            self.0.insert(gist.to_owned(), before.unwrap_or(snapshot.now));
            before.is_none()
        };
        if !plan.launches.is_empty() {
            let first = found.named(|_| true);
            tracing::info!(pods = found.waiting.len(), first, "found provisionable pod(s)");
            tracing::info!(
                pods = found.new,
                nodeclaims = plan.launches.len(),
                first = found.named(|outcome| matches!(outcome, PodOutcome::New(_))),
                "computed new nodeclaim(s) to fit pod(s)"
            );
        }
        if found.coming > 0 && is_news("coming") {
            tracing::info!(pods = found.coming, "computed unready node(s) will fit pod(s)");
        }
        let mut reasons: Vec<_> = found.nowhere.iter().collect();
        reasons.sort_by_key(|(gist, stuck)| (std::cmp::Reverse(stuck.pods), (*gist).clone()));
        for (gist, stuck) in reasons.into_iter().take(REASONS) {
            if is_news(gist) {
                tracing::info!(
                    pods = stuck.pods,
                    first = %stuck.first,
                    reason = stuck.text,
                    "could not schedule pod(s)"
                );
            }
        }
    }
}

/// Pods that wait, by what a plan does about them.
struct Found<'a> {
    waiting: Vec<(&'a PodKey, &'a PodOutcome)>,
    new: usize,
    coming: usize,
    /// Pods that have no place, by the reason.
    nowhere: BTreeMap<String, Stuck<'a>>,
}

/// Pods without a place for the same reason.
struct Stuck<'a> {
    pods: usize,
    first: &'a PodKey,
    text: String,
}

impl<'a> Found<'a> {
    fn of(snapshot: &'a Snapshot, report: &'a Report) -> Self {
        let virtual_pods: std::collections::BTreeSet<&PodKey> =
            snapshot.pending.iter().filter(|pod| pod.is_virtual()).map(|pod| &pod.key).collect();
        let waiting: Vec<_> = report.pods.iter().filter(|(key, _)| !virtual_pods.contains(key)).collect();
        let count = |of: fn(&PodOutcome) -> bool| waiting.iter().filter(|(_, outcome)| of(outcome)).count();
        let (new, coming) = (
            count(|outcome| matches!(outcome, PodOutcome::New(_))),
            count(|outcome| matches!(outcome, PodOutcome::InFlight(_))),
        );
        let mut nowhere: BTreeMap<String, Stuck<'a>> = BTreeMap::new();
        for (key, outcome) in &waiting {
            if let Some(EventText { text, gist }) = event_text(outcome).or_else(|| no_pools(outcome, report))
            {
                nowhere.entry(gist).or_insert_with(|| Stuck { pods: 0, first: key, text }).pods += 1;
            }
        }
        Self { waiting, new, coming, nowhere }
    }

    /// The first few pods `which` holds for.
    fn named(&self, which: fn(&PodOutcome) -> bool) -> String {
        let names = self.waiting.iter().filter(|(_, outcome)| which(outcome)).take(PODS);
        names.map(|(key, _)| key.to_string()).collect::<Vec<_>>().join(", ")
    }
}

/// Reason why no pool could even be asked. No event of a pod has it, because it is not about them.
fn no_pools(outcome: &PodOutcome, report: &Report) -> Option<EventText> {
    let PodOutcome::Unschedulable(refusals) = outcome else { return None };
    let refusal = refusals.iter().find(|refusal| refusal.pool.is_none())?;
    let skipped = report.pools.iter().filter_map(|(name, outcome)| match outcome {
        PoolOutcome::Skipped(reason) => Some(format!("{name}: {reason}")),
        PoolOutcome::Used { .. } => None,
    });
    let skipped = skipped.collect::<Vec<_>>().join("; ");
    let text = if skipped.is_empty() {
        refusal.reason.to_string()
    } else {
        format!("{} ({skipped})", refusal.reason)
    };
    Some(EventText { gist: text.clone(), text })
}

#[cfg(test)]
mod tests;
