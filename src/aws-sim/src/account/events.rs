//! `EventBridge`: rules that carry matching events to queues, if the queue's policy lets them.

mod pattern;

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::events::{Event, Events, Rule, RuleSpec, Target};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Error, Result, Tags};
use serde_json::{Value, json};

use super::{Account, State};
use crate::policy;

/// Targets a rule may have.
const MAX_TARGETS: usize = 5;

/// The default event bus.
#[derive(Debug, Default)]
pub(super) struct Bus {
    pub(super) rules: BTreeMap<String, RuleEntry>,
}

#[derive(Debug)]
pub(super) struct RuleEntry {
    rule: Rule,
    pub(super) tags: Tags,
    targets: BTreeMap<String, Target>,
}

impl Bus {
    fn rule(&mut self, operation: &'static str, name: &str) -> Result<&mut RuleEntry> {
        self.rules.get_mut(name).ok_or_else(|| missing(operation, name))
    }

    fn by_arn(&mut self, operation: &'static str, arn: &Arn) -> Result<&mut RuleEntry> {
        self.rules
            .values_mut()
            .find(|entry| entry.rule.arn == *arn)
            .ok_or_else(|| missing(operation, arn.as_str()))
    }

    fn put(&mut self, arn: Arn, spec: &RuleSpec) -> Result<Arn> {
        if !pattern::is_well_formed(&spec.pattern) {
            let text = "Event pattern is not valid. Reason: Filter is not an object";
            return Err(Error::answered("PutRule", &spec.name, "InvalidEventPatternException", text));
        }
        let rule = Rule {
            name: spec.name.clone(),
            arn: arn.clone(),
            pattern: Some(spec.pattern.clone()),
            description: Some(spec.description.clone()).filter(|text| !text.is_empty()),
            enabled: true,
        };
        if let Some(entry) = self.rules.get_mut(&spec.name) {
            // Replacing keeps targets and tags.
            entry.rule = rule;
        } else {
            let entry = RuleEntry { rule, tags: spec.tags.clone(), targets: BTreeMap::new() };
            self.rules.insert(spec.name.clone(), entry);
        }
        Ok(arn)
    }

    fn delete(&mut self, name: &str) -> Result<()> {
        if self.rules.get(name).is_some_and(|entry| !entry.targets.is_empty()) {
            let text = "Rule can't be deleted since it has targets.";
            return Err(Error::answered("DeleteRule", name, "ValidationException", text));
        }
        self.rules.remove(name);
        Ok(())
    }

    fn put_targets(&mut self, name: &str, targets: &[Target]) -> Result<()> {
        let entry = self.rule("PutTargets", name)?;
        let mut merged = entry.targets.clone();
        merged.extend(targets.iter().map(|target| (target.id.clone(), target.clone())));
        if merged.len() > MAX_TARGETS {
            let text = "The requested resource exceeds the maximum number allowed.";
            return Err(Error::answered("PutTargets", name, "LimitExceededException", text));
        }
        entry.targets = merged;
        Ok(())
    }
}

impl State {
    /// Publishes an event: one copy per matching rule and target, into queues whose policy allows it.
    pub(super) fn publish(&mut self, event: &Event, at: Timestamp) {
        let detail: Value = serde_json::from_str(&event.detail).unwrap_or_else(|_| json!({}));
        let id = self.ids.next("event");
        let body = json!({
            "version": "0",
            "id": id,
            "detail-type": event.detail_type,
            "source": event.source,
            "account": self.account,
            "time": at.round(jiff::Unit::Second).unwrap_or(at).to_string(),
            "region": self.region,
            "resources": event.resources.iter().map(Arn::as_str).collect::<Vec<_>>(),
            "detail": detail,
        });
        let mut deliveries = Vec::new();
        for entry in self.bus.rules.values() {
            let fires = entry.rule.enabled
                && entry.rule.pattern.as_deref().is_some_and(|text| pattern::matches(text, &body));
            if !fires {
                continue;
            }
            for target in entry.targets.values() {
                if let Some(queue) = self.queues.by_arn(target.arn.as_str()) {
                    let request = policy::Request {
                        service: "events.amazonaws.com",
                        action: "sqs:SendMessage",
                        resource: &queue.arn,
                        source_arn: entry.rule.arn.as_str(),
                        source_account: &self.account,
                    };
                    if queue.policy().is_some_and(|document| policy::allows(document, request)) {
                        deliveries.push(queue.arn.rsplit(':').next().unwrap_or_default().to_owned());
                    }
                }
            }
        }
        for queue in deliveries {
            self.queues.send(&queue, &body.to_string(), at);
        }
    }
}

fn missing(operation: &'static str, name: &str) -> Error {
    let text = format!("Rule {name} does not exist on EventBus default.");
    Error::answered(operation, name, "ResourceNotFoundException", text)
}

#[async_trait]
impl Events for Account {
    async fn put_rule(&self, rule: &RuleSpec) -> Result<Arn> {
        self.call("PutRule", &rule.name, |state, _| {
            let arn = state.arn("events", &format!("rule/{}", rule.name));
            state.bus.put(arn.into(), rule)
        })
        .await
    }

    async fn describe_rule(&self, name: &str) -> Result<Rule> {
        self.call("DescribeRule", name, |state, _| Ok(state.bus.rule("DescribeRule", name)?.rule.clone()))
            .await
    }

    async fn list_rules(&self, prefix: &str) -> Result<Vec<Rule>> {
        self.call("ListRules", prefix, |state, _| {
            let rules = state.bus.rules.values().map(|entry| entry.rule.clone());
            Ok(rules.filter(|rule| rule.name.starts_with(prefix)).collect())
        })
        .await
    }

    async fn list_rules_sending_to(&self, target: &Arn) -> Result<Vec<String>> {
        self.call("ListRuleNamesByTarget", target.as_str(), |state, _| {
            let sends = |entry: &&RuleEntry| entry.targets.values().any(|found| found.arn == *target);
            Ok(state.bus.rules.values().filter(sends).map(|entry| entry.rule.name.clone()).collect())
        })
        .await
    }

    async fn delete_rule(&self, name: &str) -> Result<()> {
        self.call("DeleteRule", name, |state, _| state.bus.delete(name)).await
    }

    async fn put_targets(&self, rule: &str, targets: &[Target]) -> Result<()> {
        self.call("PutTargets", rule, |state, _| state.bus.put_targets(rule, targets)).await
    }

    async fn list_targets(&self, rule: &str) -> Result<Vec<Target>> {
        self.call("ListTargetsByRule", rule, |state, _| {
            Ok(state.bus.rule("ListTargetsByRule", rule)?.targets.values().cloned().collect())
        })
        .await
    }

    async fn remove_targets(&self, rule: &str, ids: &[String]) -> Result<()> {
        self.call("RemoveTargets", rule, |state, _| {
            state.bus.rule("RemoveTargets", rule)?.targets.retain(|id, _| !ids.contains(id));
            Ok(())
        })
        .await
    }

    async fn list_tags(&self, rule: &Arn) -> Result<Tags> {
        self.call("ListTagsForResource", rule.as_str(), |state, _| {
            Ok(state.bus.by_arn("ListTagsForResource", rule)?.tags.clone())
        })
        .await
    }

    async fn tag_resource(&self, rule: &Arn, tags: &Tags) -> Result<()> {
        self.call("TagResource", rule.as_str(), |state, _| {
            state.bus.by_arn("TagResource", rule)?.tags.extend(tags.clone());
            Ok(())
        })
        .await
    }

    async fn untag_resource(&self, rule: &Arn, keys: &[String]) -> Result<()> {
        self.call("UntagResource", rule.as_str(), |state, _| {
            state.bus.by_arn("UntagResource", rule)?.tags.retain(|key, _| !keys.contains(key));
            Ok(())
        })
        .await
    }

    async fn put_event(&self, event: &Event) -> Result<()> {
        self.call("PutEvents", &event.detail_type, |state, now| {
            state.publish(event, now);
            Ok(())
        })
        .await
    }
}
