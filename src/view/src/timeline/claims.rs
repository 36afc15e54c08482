//! The life of each NodeClaim: asked for, launched at a price, ready, removed and why.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::{Condition, ConditionStatus, NodeClaim, Operator};
use karpenter_kube_harness::watch::{Readable, Undecoded};
use karpenter_model::names::{
    condition,
    label::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
};
use kube::ResourceExt;

use super::{Change, Line};
use crate::PriceBook;

/// Lines printed of every claim so far.
pub(crate) struct Claims {
    prices: PriceBook,
    known: BTreeMap<String, Told>,
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each line of a claim is printed once, in any order")]
struct Told {
    unread: bool,
    asked: bool,
    launched: bool,
    ready: bool,
    removing: bool,
}

impl Claims {
    /// Knows no claim yet.
    pub(crate) fn new(prices: PriceBook) -> Self {
        Self { prices, known: BTreeMap::new() }
    }

    /// The lines that a change is worth; `now` dates what has no time of its own. Of a claim that this release cannot decode
    /// there is but one, until it can.
    pub(crate) fn observe(&mut self, change: &Change<Readable<NodeClaim>>, now: Timestamp) -> Vec<Line> {
        let claim = match change {
            Change::Gone(name) => {
                return self
                    .known
                    .remove(name)
                    .map(|_| Line::new("gone", name.clone()))
                    .into_iter()
                    .collect();
            }
            Change::Present(Readable::Undecoded(object)) => {
                let told = self.known.entry(object.key().1).or_default();
                return if std::mem::replace(&mut told.unread, true) {
                    Vec::new()
                } else {
                    vec![unread(object)]
                };
            }
            Change::Present(Readable::Whole(claim)) => claim,
        };
        let name = claim.name_any();
        let mut told = self.known.get(&name).copied().unwrap_or_default();
        let mut lines = Vec::new();
        let mut tell = |told: &mut bool, due: bool, line: &dyn Fn() -> Line| {
            if due && !*told {
                *told = true;
                lines.push(line());
            }
        };
        tell(&mut told.asked, true, &|| asked(claim));
        tell(&mut told.launched, is_true(claim, condition::LAUNCHED), &|| self.launched(claim));
        tell(&mut told.ready, is_true(claim, condition::INITIALIZED), &|| ready(claim, now));
        tell(&mut told.removing, claim.metadata.deletion_timestamp.is_some(), &|| removing(claim));
        self.known.insert(name, told);
        lines
    }

    fn launched(&self, claim: &NodeClaim) -> Line {
        let label = |key: &str| claim.labels().get(key).map_or("?", String::as_str);
        let (instance_type, zone, capacity) = (label(INSTANCE_TYPE), label(ZONE), label(CAPACITY_TYPE));
        let price = (self.prices)(instance_type, zone, capacity)
            .map_or_else(String::new, |price| format!(" at {price}/h"));
        let instance =
            claim.status.as_ref().and_then(|status| status.provider_id.as_deref()).unwrap_or_default();
        let instance = instance.rsplit('/').next().unwrap_or_default();
        Line::new(
            "launch",
            format!("{}: {instance_type} {capacity} in {zone}{price} ({instance})", claim.name_any()),
        )
        .at(since(claim, condition::LAUNCHED))
    }
}

fn unread(object: &Undecoded) -> Line {
    let (_, name) = object.key();
    Line::new(
        "unread",
        format!("{name}: cannot decode it, another release has written it: {}", object.problem),
    )
}

fn asked(claim: &NodeClaim) -> Line {
    let requests = claim.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let room = requests.map_or_else(String::new, |requests| {
        let parts: Vec<_> = requests.iter().map(|(name, quantity)| format!("{quantity} {name}")).collect();
        parts.join(", ")
    });
    let types = claim
        .spec
        .requirements
        .iter()
        .find(|requirement| requirement.key == INSTANCE_TYPE && requirement.operator == Operator::In)
        .and_then(|requirement| requirement.values.as_ref())
        .map_or_else(String::new, |values| format!("; cheapest of {} types that fit", values.len()));
    let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Line::new("claim", format!("{}: room for {room}{types}", claim.name_any())).at(created)
}

fn ready(claim: &NodeClaim, now: Timestamp) -> Line {
    let node = claim.status.as_ref().and_then(|status| status.node_name.as_deref()).unwrap_or("?");
    let created = claim.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    // The node may have been there for long when it is seen first.
    let initialized = since(claim, condition::INITIALIZED);
    let seconds = initialized.unwrap_or(now).duration_since(created).as_secs();
    let text = format!("{}: node {node}, {seconds}s after it was asked for", claim.name_any());
    Line::new("ready", text).at(initialized)
}

fn removing(claim: &NodeClaim) -> Line {
    let reason = condition(claim, condition::DISRUPTION_REASON)
        .filter(|condition| condition.status == ConditionStatus::True);
    let reason = reason
        .map_or_else(String::new, |condition| format!(" because it is {}", condition.reason.to_lowercase()));
    let deleted = claim.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    Line::new("remove", format!("{}{reason}", claim.name_any())).at(deleted)
}

fn is_true(claim: &NodeClaim, kind: &str) -> bool {
    condition(claim, kind).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Time of the last transition of a condition.
fn since(claim: &NodeClaim, kind: &str) -> Option<Timestamp> {
    condition(claim, kind).map(|known| known.last_transition_time.0)
}

fn condition<'a>(claim: &'a NodeClaim, kind: &str) -> Option<&'a Condition> {
    claim.status.as_ref()?.conditions.iter().find(|condition| condition.kind == kind)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn claim(conditions: &[(&str, &str)], deletion: Option<&str>) -> Change<Readable<NodeClaim>> {
        Change::Present(serde_json::from_value(object(conditions, deletion)).unwrap())
    }

    fn object(conditions: &[(&str, &str)], deletion: Option<&str>) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, reason)| {
                json!({ "type": kind, "status": "True", "reason": reason, "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:42Z" })
            })
            .collect();
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {
                "name": "general-1", "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": deletion,
                "labels": { INSTANCE_TYPE: "c7g.large", ZONE: "eu-west-1a", CAPACITY_TYPE: "spot" },
            },
            "spec": {
                "nodeClassRef": { "group": "g", "kind": "k", "name": "n" },
                "requirements": [{ "key": INSTANCE_TYPE, "operator": "In", "values": ["c7g.large", "m7g.large"] }],
                "resources": { "requests": { "cpu": "1", "pods": "3" } },
            },
            "status": { "providerID": "aws:///eu-west-1a/i-1", "nodeName": "node-1", "conditions": conditions },
        })
    }

    #[test]
    fn lines_of_a_claim_that_was_there_before_have_the_times_of_its_life() {
        let mut claims = Claims::new(Arc::new(|_, _, _| None));
        let all = claim(&[("Launched", ""), ("Initialized", "")], Some("2026-01-01T01:00:00Z"));
        let lines = claims.observe(&all, "2026-01-02T00:00:00Z".parse().unwrap());
        let written: Vec<String> = lines
            .iter()
            .map(|line| crate::timeline::Printer::OfDay.written(line, Timestamp::MAX))
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "2026-01-01T00:00:00Z claim",
            "2026-01-01T00:00:42Z launch",
            "2026-01-01T00:00:42Z ready",
            "2026-01-01T01:00:00Z remove",
        ];
        assert_eq!(written, expected);
    }

    fn texts(lines: Vec<Line>) -> Vec<String> {
        lines.into_iter().map(|line| format!("{} {}", line.topic, line.text)).collect()
    }

    #[test]
    fn tells_a_life_once_and_in_order() {
        let mut claims = Claims::new(Arc::new(|_, _, _| "0.05".parse().ok()));
        let now = "2026-01-01T00:00:42Z".parse().unwrap();
        assert_eq!(
            texts(claims.observe(&claim(&[], None), now)),
            ["claim general-1: room for 1 cpu, 3 pods; cheapest of 2 types that fit"]
        );
        let launched = claim(&[("Launched", "Launched")], None);
        assert_eq!(
            texts(claims.observe(&launched, now)),
            ["launch general-1: c7g.large spot in eu-west-1a at $0.0500/h (i-1)"]
        );
        assert!(claims.observe(&launched, now).is_empty());
        let ready = claim(&[("Launched", "Launched"), ("Initialized", "Initialized")], None);
        let long_after = "2026-01-01T00:10:00Z".parse().unwrap();
        assert_eq!(
            texts(claims.observe(&ready, long_after)),
            ["ready general-1: node node-1, 42s after it was asked for"]
        );
        let going = claim(
            &[("DisruptionReason", "Empty"), ("Launched", ""), ("Initialized", "")],
            Some("2026-01-01T01:00:00Z"),
        );
        assert_eq!(texts(claims.observe(&going, now)), ["remove general-1 because it is empty"]);
        assert_eq!(texts(claims.observe(&Change::Gone("general-1".to_owned()), now)), ["gone general-1"]);
    }

    #[test]
    fn a_claim_that_cannot_be_decoded_is_told_once_and_its_life_when_it_can() {
        let mut claims = Claims::new(Arc::new(|_, _, _| None));
        let now = "2026-01-01T00:00:42Z".parse().unwrap();
        let mut newer = object(&[], None);
        newer["spec"]["requirements"][0]["operator"] = json!("Resembles");
        let newer = Change::Present(serde_json::from_value(newer).unwrap());
        let lines = texts(claims.observe(&newer, now));
        let lead = "unread general-1: cannot decode it, another release has written it: spec.requirements[0].operator: ";
        assert!(lines.len() == 1 && lines[0].starts_with(lead), "{lines:?}");
        assert!(claims.observe(&newer, now).is_empty());
        let lines = texts(claims.observe(&claim(&[], None), now));
        assert!(lines.len() == 1 && lines[0].starts_with("claim general-1: "), "{lines:?}");
    }
}
