//! The interruption queue: there, nobody else's, and reached by every kind of notice.

use karpenter_aws_api::events;
use serde_json::Value;

use super::Findings;
use crate::desired::{CLUSTER_TAG, Desired, OWNER_TAG};
use crate::observe::{Observed, Queue};
use crate::policy::{Effect, Principal};
use crate::settings::Settings;

const APPLY: &str = "karpenter bootstrap apply";
/// Tags that say which cluster a queue belongs to.
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
    } else if accepts_events(queue) {
        findings.ready("queue", format!("queue `{name}` takes messages from EventBridge"));
    } else {
        let evidence = format!("the policy of queue `{name}` does not let events.amazonaws.com send");
        findings.missing("queue", evidence, APPLY.to_owned());
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

fn accepts_events(queue: &Queue) -> bool {
    let statements = queue.policy.iter().flat_map(|policy| &policy.statements);
    statements.into_iter().any(|statement| {
        let sender = match &statement.principal {
            Some(Principal::Of(kind, names)) => {
                kind == "Service" && names.iter().any(|name| name == "events.amazonaws.com")
            }
            Some(Principal::Everybody) => true,
            None => false,
        };
        let sends = |action: &String| action.eq_ignore_ascii_case("sqs:SendMessage") || action == "sqs:*";
        statement.effect == Effect::Allow && sender && statement.actions.iter().any(sends)
    })
}

/// Whether a rule's pattern takes the events of `wanted`, as far as source and kind go.
fn lets_through(pattern: &Value, wanted: &Value) -> bool {
    ["source", "detail-type"].iter().all(|field| match pattern.get(field) {
        None => true,
        Some(allowed) => allowed.as_array().is_some_and(|allowed| allowed.contains(&wanted[field][0])),
    })
}
