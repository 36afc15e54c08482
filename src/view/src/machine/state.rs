//! Phase of a machine in its life, and why it is not further.

use karpenter_model::names::condition;

use crate::facts::{ClaimFacts, NodeFacts};

/// Text for a machine whose claim belongs to another release.
const UNDECODED: &str = "not decoded";

/// Phase of a machine. In the order of attention it needs, which is the order when sorted by state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The kubelet does not report that it is ready.
    NotReady,
    /// The machine was chosen for disruption.
    Disrupted,
    /// The machine is being deleted.
    Removing,
    /// There is a claim, and no instance.
    Pending,
    /// The instance starts.
    Launching,
    /// The Node has joined, and is not ready for pods.
    Registered,
    /// Ready for pods.
    Ready,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub(crate) const ALL: [Self; 7] = [
        Self::Pending,
        Self::Launching,
        Self::Registered,
        Self::Ready,
        Self::NotReady,
        Self::Disrupted,
        Self::Removing,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Launching => "launching",
            Self::Registered => "registered",
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Disrupted => "disrupted",
            Self::Removing => "removing",
        }
    }
}

/// A phase, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State<'a> {
    pub(crate) phase: Phase,
    /// Reason for this phase, in the words of the condition; empty when there is nothing to say.
    pub(crate) why: &'a str,
}

/// The state of a machine of which at least one half is there.
pub(super) fn state<'a>(node: Option<&'a NodeFacts>, claim: Option<&'a ClaimFacts>) -> State<'a> {
    let known = known(node, claim);
    let undecoded = claim.is_some_and(|claim| claim.problem.is_some());
    if undecoded && known.why.is_empty() { State { why: UNDECODED, ..known } } else { known }
}

/// The state as far as it is known.
fn known<'a>(node: Option<&'a NodeFacts>, claim: Option<&'a ClaimFacts>) -> State<'a> {
    let disruption = claim
        .filter(|claim| claim.is(condition::DISRUPTION_REASON))
        .and_then(|claim| claim.condition(condition::DISRUPTION_REASON))
        .map(|chosen| &*chosen.reason);
    let deleted = claim.is_some_and(|claim| claim.deleted) || node.is_some_and(|node| node.deleted);
    if deleted {
        return State { phase: Phase::Removing, why: disruption.unwrap_or_default() };
    }
    if let Some(why) = disruption {
        return State { phase: Phase::Disrupted, why };
    }
    if node.is_some_and(|node| node.disrupted) {
        return State { phase: Phase::Disrupted, why: "" };
    }
    let steps = [
        (condition::LAUNCHED, Phase::Pending),
        (condition::REGISTERED, Phase::Launching),
        (condition::INITIALIZED, Phase::Registered),
    ];
    for (kind, phase) in steps {
        if let Some(claim) = claim.filter(|claim| !claim.is(kind)) {
            // A Node without a claim's word is still a Node: conditions come a moment after it.
            let why = claim.condition(kind).map(|waiting| &*waiting.reason).unwrap_or_default();
            // The reason of a condition that is not decided repeats its type.
            return State { phase, why: if why == kind { "" } else { why } };
        }
    }
    match node {
        None => State { phase: Phase::NotReady, why: "has no Node" },
        Some(node) if !node.ready => State { phase: Phase::NotReady, why: "" },
        Some(node) if node.cordoned => State { phase: Phase::Ready, why: "cordoned" },
        Some(_) => {
            let drifted = claim.is_some_and(|claim| claim.is(condition::DRIFTED));
            State { phase: Phase::Ready, why: if drifted { condition::DRIFTED } else { "" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::names::taint;
    use serde_json::{Value, json};

    use super::*;
    use crate::facts::{Shown, Texts};

    fn claim(conditions: &[(&str, &str, &str)], deleted: bool) -> ClaimFacts {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, reason)| {
                json!({"type": kind, "status": status, "reason": reason, "message": "",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let object = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "c", "deletionTimestamp": deleted.then_some("2026-01-01T00:00:00Z")},
            "spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []},
            "status": {"conditions": conditions},
        });
        let object = serde_json::from_value(object).unwrap();
        ClaimFacts::of(&object, &Shown::new(&[]), &mut Texts::default()).1
    }

    fn node(ready: &str, more: &Value) -> NodeFacts {
        let object = json!({
            "metadata": {"name": "n"}, "spec": more,
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        NodeFacts::of(&serde_json::from_value(object).unwrap(), &Shown::new(&[]), &mut Texts::default()).1
    }

    #[test]
    fn every_step_of_a_life_has_its_phase_and_reason() {
        let launched = ("Launched", "True", "Launched");
        let registered = ("Registered", "True", "Registered");
        let initialized = ("Initialized", "True", "Initialized");
        let chosen = ("DisruptionReason", "True", "Underutilized");
        let ready = || Some(node("True", &json!({})));
        let whole = [launched, registered, initialized];
        let table: Vec<(Option<ClaimFacts>, Option<NodeFacts>, &str, &str)> = vec![
            (Some(claim(&[], false)), None, "pending", ""),
            (Some(claim(&[("Launched", "False", "LaunchFailed")], false)), None, "pending", "LaunchFailed"),
            (
                Some(claim(&[launched, ("Registered", "Unknown", "NodeNotFound")], false)),
                None,
                "launching",
                "NodeNotFound",
            ),
            (
                Some(claim(&[launched, registered, ("Initialized", "False", "NodeNotReady")], false)),
                ready(),
                "registered",
                "NodeNotReady",
            ),
            (Some(claim(&whole, false)), ready(), "ready", ""),
            (
                Some(claim(&[&whole[..], &[("Drifted", "True", "NodePoolDrifted")]].concat(), false)),
                ready(),
                "ready",
                "Drifted",
            ),
            (Some(claim(&whole, false)), Some(node("Unknown", &json!({}))), "not ready", ""),
            (Some(claim(&whole, false)), None, "not ready", "has no Node"),
            (Some(claim(&[&whole[..], &[chosen]].concat(), false)), ready(), "disrupted", "Underutilized"),
            (Some(claim(&[&whole[..], &[chosen]].concat(), true)), ready(), "removing", "Underutilized"),
            (Some(claim(&whole, true)), ready(), "removing", ""),
            (None, ready(), "ready", ""),
            (None, Some(node("True", &json!({"unschedulable": true}))), "ready", "cordoned"),
            (None, Some(node("False", &json!({}))), "not ready", ""),
            (
                None,
                Some(node("True", &json!({"taints": [{"key": taint::DISRUPTED, "effect": "NoSchedule"}]}))),
                "disrupted",
                "",
            ),
        ];
        for (claim, node, phase, why) in table {
            let state = state(node.as_ref(), claim.as_ref());
            assert_eq!((state.phase.as_str(), state.why), (phase, why), "{claim:?}");
        }
    }
}
