//! Stacks and change sets over the SDK.

use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_cloudformation::types::{self, Capability, ChangeSetType, Parameter, Tag};

use super::call::Call;
use super::convert::{instant, text};
use super::meter::{Meter, measured};
use karpenter_aws_api::cloudformation::{
    Change, ChangeSet, ChangeSetSpec, CloudFormation, Stack, StackEvent,
};
use karpenter_aws_api::id::{ChangeSetId, StackId};
use karpenter_aws_api::{Result, Tags};

#[derive(Clone, Debug)]
pub(super) struct Client(aws_sdk_cloudformation::Client);

impl Client {
    pub(super) fn new(config: &SdkConfig, meter: &Meter) -> Self {
        Self(measured!(aws_sdk_cloudformation, config, meter))
    }
}

#[async_trait]
impl CloudFormation for Client {
    async fn describe_stack(&self, stack: &str) -> Result<Stack> {
        let call = Call::new("DescribeStacks", stack);
        let request = self.0.describe_stacks().stack_name(stack);
        let answer = request.send().await.map_err(|failure| call.failed(failure))?;
        // Asked for one by name, AWS answers with one or refuses.
        let found = answer.stacks.unwrap_or_default().into_iter().next();
        stack_of(&call, call.field(found, "Stacks")?)
    }

    async fn create_change_set(&self, spec: &ChangeSetSpec) -> Result<ChangeSetId> {
        let call = Call::new("CreateChangeSet", &spec.stack);
        let kind = if spec.creates { ChangeSetType::Create } else { ChangeSetType::Update };
        let parameter =
            |(name, value)| Parameter::builder().parameter_key(name).parameter_value(value).build();
        let tag = |(key, value)| Tag::builder().key(key).value(value).build();
        let answer = self
            .0
            .create_change_set()
            .stack_name(&spec.stack)
            .change_set_name(&spec.name)
            .change_set_type(kind)
            .template_body(&spec.template)
            .capabilities(Capability::CapabilityNamedIam)
            .set_parameters(Some(spec.parameters.iter().map(parameter).collect()))
            .set_tags(Some(spec.tags.iter().map(tag).collect()))
            .send()
            .await
            .map_err(|failure| call.failed(failure))?;
        Ok(call.field(answer.id, "Id")?.into())
    }

    async fn describe_change_set(&self, change_set: &ChangeSetId) -> Result<ChangeSet> {
        let call = Call::new("DescribeChangeSet", change_set.as_str());
        let mut changes = Vec::new();
        let mut token = None;
        loop {
            let request = self.0.describe_change_set().change_set_name(change_set.as_str());
            let page = request.set_next_token(token).send().await.map_err(|failure| call.failed(failure))?;
            let found =
                page.changes.unwrap_or_default().into_iter().filter_map(|change| change.resource_change);
            for change in found {
                changes.push(change_of(&call, change)?);
            }
            token = page.next_token;
            if token.is_none() {
                let status = call.field(page.status, "Status")?;
                return Ok(ChangeSet {
                    id: change_set.clone(),
                    stack: call.field(page.stack_id, "StackId")?.into(),
                    status: status.as_str().to_owned(),
                    reason: text(page.status_reason.as_deref()),
                    changes,
                });
            }
        }
    }

    async fn execute_change_set(&self, change_set: &ChangeSetId) -> Result<()> {
        let call = Call::new("ExecuteChangeSet", change_set.as_str());
        let request = self.0.execute_change_set().change_set_name(change_set.as_str());
        request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn delete_change_set(&self, stack: &str, name: &str) -> Result<()> {
        let call = Call::new("DeleteChangeSet", name);
        let request = self.0.delete_change_set().stack_name(stack).change_set_name(name);
        request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn events_after(&self, stack: &StackId, seen: Option<&str>) -> Result<Vec<StackEvent>> {
        let call = Call::new("DescribeStackEvents", stack.as_str());
        let mut newest_first = Vec::new();
        let mut token = None;
        'pages: loop {
            let request = self.0.describe_stack_events().stack_name(stack.as_str());
            let page = request.set_next_token(token).send().await.map_err(|failure| call.failed(failure))?;
            for event in page.stack_events.unwrap_or_default() {
                let event = event_of(&call, event)?;
                if seen == Some(event.id.as_str()) {
                    break 'pages;
                }
                newest_first.push(event);
            }
            token = page.next_token;
            if token.is_none() {
                break;
            }
        }
        newest_first.reverse();
        Ok(newest_first)
    }

    async fn continue_update_rollback(&self, stack: &StackId) -> Result<()> {
        let call = Call::new("ContinueUpdateRollback", stack.as_str());
        let request = self.0.continue_update_rollback().stack_name(stack.as_str());
        request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(())
    }

    async fn delete_stack(&self, stack: &StackId) -> Result<()> {
        let call = Call::new("DeleteStack", stack.as_str());
        let request = self.0.delete_stack().stack_name(stack.as_str());
        request.send().await.map_err(|failure| call.failed(failure))?;
        Ok(())
    }
}

fn stack_of(call: &Call, stack: types::Stack) -> Result<Stack> {
    let parameters = stack.parameters.unwrap_or_default().into_iter();
    let outputs = stack.outputs.unwrap_or_default().into_iter();
    let tags = stack.tags.unwrap_or_default().into_iter();
    Ok(Stack {
        id: call.field(stack.stack_id, "StackId")?.into(),
        name: call.field(stack.stack_name, "StackName")?,
        status: call.field(stack.stack_status, "StackStatus")?.as_str().to_owned(),
        reason: text(stack.stack_status_reason.as_deref()),
        parameters: pairs(parameters.map(|one| (one.parameter_key, one.parameter_value))),
        outputs: pairs(outputs.map(|one| (one.output_key, one.output_value))),
        tags: pairs(tags.map(|one| (one.key, one.value))),
    })
}

/// Returns the pairs that have a name. An empty value is left out of an XML answer.
fn pairs(found: impl Iterator<Item = (Option<String>, Option<String>)>) -> Tags {
    found.filter_map(|(name, value)| Some((name?, value.unwrap_or_default()))).collect()
}

fn change_of(call: &Call, change: types::ResourceChange) -> Result<Change> {
    Ok(Change {
        action: call.field(change.action, "Action")?.as_str().to_owned(),
        logical_id: call.field(change.logical_resource_id, "LogicalResourceId")?,
        kind: call.field(change.resource_type, "ResourceType")?,
        physical_id: text(change.physical_resource_id.as_deref()),
        replacement: change.replacement.map(|replacement| replacement.as_str().to_owned()),
    })
}

fn event_of(call: &Call, event: types::StackEvent) -> Result<StackEvent> {
    Ok(StackEvent {
        at: call.field(instant(event.timestamp.as_ref()), "Timestamp")?,
        id: call.field(event.event_id, "EventId")?,
        logical_id: call.field(event.logical_resource_id, "LogicalResourceId")?,
        physical_id: text(event.physical_resource_id.as_deref()),
        kind: call.field(event.resource_type, "ResourceType")?,
        status: call.field(event.resource_status, "ResourceStatus")?.as_str().to_owned(),
        reason: text(event.resource_status_reason.as_deref()),
    })
}
