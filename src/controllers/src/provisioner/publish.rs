//! Publishes why pods got no place, in one short reason each, and counts them; and which pools cannot take any pod.
//!
//! The event of a pod names the pools that come closest to hosting it: those that refused it by the last check of all. An
//! event is repeated within its period only when its message differs; amounts that change with every pass are
//! not something else.

use std::collections::BTreeMap;

use karpenter_lifecycle::step::PodRef;
use karpenter_model::report::ReasonCode;
use karpenter_model::{Pod, PodKey, PodOutcome, PoolName, PoolOutcome, PoolRefusal, Reason, Report};
use karpenter_telemetry::events::{Event, reason};

use crate::Context;
use crate::publish::step::pod_object;

/// Publishes one event per pod that was left without a place, and the counts of them.
pub(super) fn publish(context: &Context, pods: &BTreeMap<&PodKey, &Pod>, report: &Report) {
    for (key, outcome) in &report.pods {
        if let (Some(said), Some(pod)) = (event_text(outcome), pods.get(key)) {
            let message = format!("Failed to schedule pod, {}", said.text);
            let event = Event::new(pod_object(&PodRef::of(pod)), reason::FAILED_SCHEDULING, message);
            context.recorder.publish(event.distinguished_by(said.gist));
        }
    }
    for (name, outcome) in &report.pools {
        if let PoolOutcome::Skipped(reason) = outcome
            && reason.code == ReasonCode::NoCompatibleInstanceTypes
            && let Some(pool) = context.pool_object(name)
        {
            // The exact words of the reference, with ours behind them when there is more.
            let detail =
                if reason.detail.is_empty() { String::new() } else { format!(" ({})", reason.detail) };
            let message =
                format!("NodePool requirements filtered out all compatible available instance types{detail}");
            context.recorder.publish(Event::new(pool, reason::NO_COMPATIBLE_INSTANCE_TYPES, message));
        }
    }
    let count = |of: fn(&PodOutcome) -> bool| report.pods.values().filter(|outcome| of(outcome)).count();
    let metrics = &context.metrics.scheduler;
    metrics.ignored_pods_count.set_count([], count(|outcome| matches!(outcome, PodOutcome::Ignored(_))));
    let unschedulable = count(|outcome| match outcome {
        // Waiting for a reservation that this pass has given away is not being unschedulable.
        PodOutcome::Unschedulable(refusals) => {
            refusals.iter().all(|refusal| refusal.reason.code != ReasonCode::Reservation)
        }
        _ => false,
    });
    metrics.unschedulable_pods_count.set_count([super::NAME], unschedulable);
}

/// Text of the event of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventText {
    pub(super) text: String,
    /// Part of the text whose change makes another event.
    pub(super) gist: String,
}

/// Text of the event of a pod about its outcome; `None` if the pod has a place, or has opted out.
pub(super) fn event_text(outcome: &PodOutcome) -> Option<EventText> {
    match outcome {
        PodOutcome::Existing(_) | PodOutcome::InFlight(_) | PodOutcome::New(_) => None,
        PodOutcome::Ignored(reasons) => {
            // The author of a pod that opts out needs no event.
            let reasons: Vec<String> = reasons
                .iter()
                .filter(|one| one.code != ReasonCode::OptedOut)
                .map(ToString::to_string)
                .collect();
            let text = reasons.join("; ");
            (!reasons.is_empty()).then(|| EventText { gist: text.clone(), text })
        }
        PodOutcome::Unschedulable(refusals) => closest(refusals),
    }
}

/// The refusals by the last of the checks, pools of the same reason together.
fn closest(refusals: &[PoolRefusal]) -> Option<EventText> {
    let code = refusals.iter().map(|refusal| refusal.reason.code).max()?;
    // Without any pool there is no event about the pod; for a reservation it is its turn in a later pass.
    if matches!(code, ReasonCode::NoPools | ReasonCode::Reservation) {
        return None;
    }
    let mut pools: BTreeMap<&Reason, Vec<&str>> = BTreeMap::new();
    for refusal in refusals.iter().filter(|refusal| refusal.reason.code == code) {
        pools.entry(&refusal.reason).or_default().extend(refusal.pool.as_ref().map(PoolName::as_str));
    }
    let mut parts: Vec<String> = pools
        .iter()
        .map(|(reason, pools)| match pools.as_slice() {
            [] => reason.to_string(),
            pools => format!("{reason} (NodePool={})", pools.join(", ")),
        })
        .collect();
    let others = refusals.iter().filter(|refusal| refusal.reason.code != code).count();
    if others > 0 {
        let pools = if others == 1 { "NodePool is" } else { "NodePools are" };
        parts.push(format!("{others} other {pools} further off"));
    }
    let names: Vec<&str> = pools.into_values().flatten().collect();
    Some(EventText { text: parts.join("; "), gist: format!("{code} {}", names.join(",")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pool: &str, code: ReasonCode, detail: &str) -> PoolRefusal {
        PoolRefusal { pool: Some(pool.into()), reason: Reason::new(code, detail) }
    }

    #[test]
    fn pools_that_come_closest_speak_and_equal_reasons_are_said_once() {
        let outcome = PodOutcome::Unschedulable(vec![
            refusal("gpu", ReasonCode::Taint, "gpu=true:NoSchedule"),
            refusal("a", ReasonCode::InstanceTypes, "would fit on `m5.large` with 1 cpu more"),
            refusal("b", ReasonCode::InstanceTypes, "would fit on `m5.large` with 1 cpu more"),
        ]);
        let said = event_text(&outcome).unwrap();
        assert_eq!(
            said.text,
            "no instance type satisfies requirements, resources and offerings at once: would fit on \
             `m5.large` with 1 cpu more (NodePool=a, b); 1 other NodePool is further off"
        );
        assert_eq!(said.gist, "InstanceTypes a,b");
    }

    #[test]
    fn amounts_that_change_are_no_news_and_another_reason_is() {
        let gist = |code, detail| {
            event_text(&PodOutcome::Unschedulable(vec![refusal("a", code, detail)])).unwrap().gist
        };
        assert_eq!(gist(ReasonCode::Topology, "counts 1"), gist(ReasonCode::Topology, "counts 2"));
        assert_ne!(gist(ReasonCode::Topology, ""), gist(ReasonCode::Limits, ""));
    }

    #[test]
    fn who_opts_out_or_has_no_pool_is_told_nothing() {
        let opted_out = Reason::bare(ReasonCode::OptedOut);
        assert_eq!(event_text(&PodOutcome::Ignored(vec![opted_out.clone()])), None);
        let volume = Reason::new(ReasonCode::InvalidVolume, "`data`: it does not exist");
        let both = event_text(&PodOutcome::Ignored(vec![opted_out, volume])).unwrap();
        assert_eq!(
            both.text,
            "pod has a persistent volume claim that cannot be used: `data`: it does not exist"
        );
        let no_pools = PoolRefusal { pool: None, reason: Reason::bare(ReasonCode::NoPools) };
        assert_eq!(event_text(&PodOutcome::Unschedulable(vec![no_pools])), None);
    }

    #[test]
    fn who_waits_for_a_reservation_is_told_nothing() {
        let refusals = vec![refusal("a", ReasonCode::Taint, "x"), refusal("b", ReasonCode::Reservation, "")];
        assert_eq!(event_text(&PodOutcome::Unschedulable(refusals)), None);
    }
}
