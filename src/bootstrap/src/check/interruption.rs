//! The interruption queue: there, of no other owner, and reached by every kind of notice.

use karpenter_aws_api::events;
use karpenter_iam::Request;
use serde_json::Value;

use super::Findings;
use super::rights::AccessDecision;
use crate::desired::{CLUSTER_TAG, Desired, OWNER_TAG};
use crate::observe::{Observed, Queue};
use crate::settings::Settings;

const APPLY: &str = "karpenter bootstrap apply";
/// Tags with the cluster that a queue belongs to.
const CLUSTER_TAGS: [&str; 2] = [OWNER_TAG, CLUSTER_TAG];

/// Looks at the queue and at the rules that send to it.
pub(super) fn check(
    settings: &Settings,
    desired: &Desired,
    observed: &Observed,
    senders: &[events::Rule],
    findings: &mut Findings,
) {
    let name = &desired.queue.name;
    let Some(queue) = &observed.queue else {
        let evidence = format!("queue `{name}` does not exist");
        return findings.missing("queue", evidence, format!("{APPLY}, or --queue-name for another one"));
    };
    let other =
        CLUSTER_TAGS.iter().find_map(|tag| queue.tags.get(*tag)).filter(|owner| **owner != settings.cluster);
    if let Some(owner) = other {
        let fix = "clusters that share a queue lose each other's notices: --queue-name".to_owned();
        findings.missing("queue", format!("queue `{name}` belongs to cluster `{owner}`"), fix);
    } else {
        match accepts_events(settings, desired, queue, senders) {
            AccessDecision::Granted => {
                findings.ready("queue", format!("queue `{name}` takes messages from EventBridge"));
            }
            AccessDecision::Unclear(why) => {
                let evidence =
                    format!("it is not known whether events.amazonaws.com may send to queue `{name}`");
                findings.warn("queue", format!("{evidence}: {why}"), APPLY.to_owned());
            }
            AccessDecision::Refused => {
                let evidence = format!("the policy of queue `{name}` does not let events.amazonaws.com send");
                findings.missing("queue", evidence, APPLY.to_owned());
            }
        }
    }
    let enabled: Vec<Value> = senders
        .iter()
        .filter(|rule| rule.enabled)
        .filter_map(|rule| serde_json::from_str(rule.pattern.as_deref()?).ok())
        .collect();
    for wanted in &desired.rules {
        let kind = wanted.pattern["detail-type"][0].as_str().unwrap_or_default();
        if enabled.iter().any(|pattern| lets_through(pattern, &wanted.pattern)) {
            findings.ready("rule", format!("\"{kind}\" reaches the queue"));
        } else {
            findings.warn("rule", format!("\"{kind}\" does not reach the queue"), APPLY.to_owned());
        }
    }
}

/// Returns the decision of the queue's policy on the best of the rules that send, or would.
fn accepts_events(
    settings: &Settings,
    desired: &Desired,
    queue: &Queue,
    senders: &[events::Rule],
) -> AccessDecision {
    let Some(policy) = &queue.policy else { return AccessDecision::Refused };
    let wanted = desired.rules.iter().map(|rule| settings.rule_arn(&rule.name));
    let rules = senders.iter().map(|rule| rule.arn.to_string()).chain(wanted);
    let verdicts = rules.map(|rule| {
        let request = Request::new("sqs:SendMessage", &settings.queue_arn())
            .by("Service", "events.amazonaws.com")
            .with("aws:SourceArn", &rule)
            .with("aws:SourceAccount", &settings.account)
            .with("aws:SecureTransport", "true");
        AccessDecision::of(policy, request)
    });
    verdicts.min().unwrap_or(AccessDecision::Refused)
}

/// Returns whether a rule's pattern takes the events of `wanted`, by source and kind.
fn lets_through(pattern: &Value, wanted: &Value) -> bool {
    ["source", "detail-type"].iter().all(|field| match pattern.get(field) {
        None => true,
        Some(allowed) => allowed.as_array().is_some_and(|allowed| allowed.contains(&wanted[field][0])),
    })
}
