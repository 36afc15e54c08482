//! `EventBridge` rules over the SDK. Batch calls that answer 200 with refused entries become errors here.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_eventbridge::types::{PutEventsRequestEntry, RuleState, Tag, Target as SdkTarget};

use super::call::Call;
use super::meter::{Meter, measured};
use karpenter_aws_api::events::{Event, Events, Rule, RuleSpec, Target};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Result, Tags};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_eventbridge::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_eventbridge, config, meter))
    }
}

#[async_trait]
impl Events for Client {
    async fn put_rule(&self, rule: &RuleSpec) -> Result<Arn> {
        let call = Call::new("PutRule", &rule.name);
        let tags = to_sdk(&call, &rule.tags)?;
        let answer = self
            .0
            .put_rule()
            .name(&rule.name)
            .description(&rule.description)
            .event_pattern(&rule.pattern)
            .state(RuleState::Enabled)
            .set_tags(Some(tags).filter(|tags| !tags.is_empty()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(call.field(answer.rule_arn, "RuleArn")?.into())
    }

    async fn describe_rule(&self, name: &str) -> Result<Rule> {
        let call = Call::new("DescribeRule", name);
        let answer =
            self.0.describe_rule().name(name).send().await.map_err(|failure| call.failed(failure))?;
        Ok(Rule {
            name: call.field(answer.name, "Name")?,
            arn: call.field(answer.arn, "Arn")?.into(),
            pattern: answer.event_pattern,
            description: answer.description,
            enabled: answer.state.is_some_and(|state| state != RuleState::Disabled),
        })
    }

    async fn list_rules(&self, prefix: &str) -> Result<Vec<Rule>> {
        let call = Call::new("ListRules", prefix);
        let mut rules = Vec::new();
        let mut token = None;
        loop {
            let mut request = self.0.list_rules().set_next_token(token);
            if !prefix.is_empty() {
                request = request.name_prefix(prefix);
            }
            let page = request.send().await.map_err(|failure| call.failed(failure))?;
            for rule in page.rules.unwrap_or_default() {
                rules.push(Rule {
                    name: call.field(rule.name, "Name")?,
                    arn: call.field(rule.arn, "Arn")?.into(),
                    pattern: rule.event_pattern,
                    description: rule.description,
                    enabled: rule.state.is_some_and(|state| state != RuleState::Disabled),
                });
            }
            match page.next_token {
                Some(next) => token = Some(next),
                None => return Ok(rules),
            }
        }
    }

    async fn list_rules_sending_to(&self, target: &Arn) -> Result<Vec<String>> {
        let call = Call::new("ListRuleNamesByTarget", target.as_str());
        let mut names = Vec::new();
        let mut token = None;
        loop {
            let request = self.0.list_rule_names_by_target().target_arn(target.as_str());
            let page = request.set_next_token(token).send().await.map_err(|failure| call.failed(failure))?;
            names.extend(page.rule_names.unwrap_or_default());
            match page.next_token {
                Some(next) => token = Some(next),
                None => return Ok(names),
            }
        }
    }

    async fn delete_rule(&self, name: &str) -> Result<()> {
        let call = Call::new("DeleteRule", name);
        self.0.delete_rule().name(name).send().await.map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn put_targets(&self, rule: &str, targets: &[Target]) -> Result<()> {
        let call = Call::new("PutTargets", rule);
        let targets = targets
            .iter()
            .map(|target| SdkTarget::builder().id(&target.id).arn(target.arn.as_str()).build())
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|failure| call.invalid(failure.to_string()))?;
        let answer = self
            .0
            .put_targets()
            .rule(rule)
            .set_targets(Some(targets))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        match answer.failed_entries.unwrap_or_default().into_iter().next() {
            None => Ok(()),
            Some(entry) => Err(refused(&call, entry.target_id, entry.error_code, entry.error_message)),
        }
    }

    async fn list_targets(&self, rule: &str) -> Result<Vec<Target>> {
        let call = Call::new("ListTargetsByRule", rule);
        let mut targets = Vec::new();
        let mut token = None;
        loop {
            let page = self
                .0
                .list_targets_by_rule()
                .rule(rule)
                .set_next_token(token)
                .send()
                .await
                .map_err(|failure| call.failed(failure))?;
            targets.extend(
                page.targets
                    .unwrap_or_default()
                    .into_iter()
                    .map(|target| Target { id: target.id, arn: target.arn.into() }),
            );
            match page.next_token {
                Some(next) => token = Some(next),
                None => return Ok(targets),
            }
        }
    }

    async fn remove_targets(&self, rule: &str, ids: &[String]) -> Result<()> {
        let call = Call::new("RemoveTargets", rule);
        let answer = self
            .0
            .remove_targets()
            .rule(rule)
            .set_ids(Some(ids.to_vec()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        match answer.failed_entries.unwrap_or_default().into_iter().next() {
            None => Ok(()),
            Some(entry) => Err(refused(&call, entry.target_id, entry.error_code, entry.error_message)),
        }
    }

    async fn list_tags(&self, rule: &Arn) -> Result<Tags> {
        let call = Call::new("ListTagsForResource", rule.as_str());
        let answer = self
            .0
            .list_tags_for_resource()
            .resource_arn(rule.as_str())
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(answer.tags.unwrap_or_default().into_iter().map(|tag| (tag.key, tag.value)).collect())
    }

    async fn tag_resource(&self, rule: &Arn, tags: &Tags) -> Result<()> {
        let call = Call::new("TagResource", rule.as_str());
        let tags = to_sdk(&call, tags)?;
        self.0
            .tag_resource()
            .resource_arn(rule.as_str())
            .set_tags(Some(tags))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn untag_resource(&self, rule: &Arn, keys: &[String]) -> Result<()> {
        let call = Call::new("UntagResource", rule.as_str());
        self.0
            .untag_resource()
            .resource_arn(rule.as_str())
            .set_tag_keys(Some(keys.to_vec()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn put_event(&self, event: &Event) -> Result<()> {
        let call = Call::new("PutEvents", &event.detail_type);
        let entry = PutEventsRequestEntry::builder()
            .source(&event.source)
            .detail_type(&event.detail_type)
            .detail(&event.detail)
            .set_resources(Some(event.resources.iter().map(|arn| arn.as_str().to_owned()).collect()))
            .build();
        let answer =
            self.0.put_events().entries(entry).send().await.map_err(|failure| call.failed(failure))?;
        match answer.entries.unwrap_or_default().into_iter().find(|entry| entry.error_code.is_some()) {
            None => Ok(()),
            Some(entry) => Err(refused(&call, None, entry.error_code, entry.error_message)),
        }
    }
}

fn refused(
    call: &Call,
    entry: Option<String>,
    code: Option<String>,
    message: Option<String>,
) -> karpenter_aws_api::Error {
    let entry = entry.map_or_else(String::new, |id| format!("entry `{id}`: "));
    call.answered(
        code.unwrap_or_else(|| "FailedEntry".to_owned()),
        format!("{entry}{}", message.unwrap_or_else(|| "no message".to_owned())),
    )
}

fn to_sdk(call: &Call, tags: &Tags) -> Result<Vec<Tag>> {
    tags.iter()
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .collect::<std::result::Result<_, _>>()
        .map_err(|failure| call.invalid(failure.to_string()))
}
