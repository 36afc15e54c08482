//! `CloudFormation`.

use super::{Outcome, Subject, Violation, ensure, refused, same, tags};
use crate::Kind;
use crate::cloudformation::{ChangeSet, ChangeSetSpec, Stack, says_nothing_to_change};
use crate::id::ChangeSetId;

/// Number of looks at a status before something is wrong.
const LOOKS: usize = 30;

fn spec(subject: &Subject, name: &str, seconds: &str, creates: bool) -> ChangeSetSpec {
    let queue = subject.name("stack-queue");
    let template = format!(
        r#"{{"Parameters":{{"Seconds":{{"Type":"String"}}}},"Resources":{{"Queue":{{"Type":"AWS::SQS::Queue","Properties":{{"QueueName":"{queue}","MessageRetentionPeriod":{{"Ref":"Seconds"}}}}}}}}}}"#
    );
    ChangeSetSpec {
        stack: subject.name("stack"),
        name: name.to_owned(),
        creates,
        template,
        parameters: tags(&[("Seconds", seconds)]),
        tags: tags(&[("suite", "conformance")]),
    }
}

/// Makes a change set and waits until it is whole.
async fn change_set(subject: &Subject, spec: &ChangeSetSpec) -> Result<(ChangeSetId, ChangeSet), Violation> {
    let stacks = &subject.clients.cloudformation;
    let id = stacks.create_change_set(spec).await?;
    for _ in 0..LOOKS {
        let found = stacks.describe_change_set(&id).await?;
        if !matches!(found.status.as_str(), "CREATE_PENDING" | "CREATE_IN_PROGRESS") {
            return Ok((id, found));
        }
        (subject.pass_time)().await;
    }
    Err(Violation(format!("change set {id} is never complete")))
}

/// Waits until the stack is at rest.
async fn at_rest(subject: &Subject, stack: &str) -> Result<Stack, Violation> {
    for _ in 0..LOOKS {
        let found = subject.clients.cloudformation.describe_stack(stack).await?;
        if !found.status.ends_with("_IN_PROGRESS") {
            return Ok(found);
        }
        (subject.pass_time)().await;
    }
    Err(Violation(format!("stack {stack} never comes to rest")))
}

pub(super) async fn stacks_live_and_die(subject: &Subject) -> Outcome {
    let stacks = &subject.clients.cloudformation;
    let name = subject.name("stack");
    refused(stacks.describe_stack(&name).await, Kind::NotFound, "DescribeStacks before")?;
    let wrong = stacks.create_change_set(&spec(subject, "early", "60", false)).await;
    ensure(wrong.is_err(), || "a stack that does not exist was updated".to_owned())?;

    let (id, found) = change_set(subject, &spec(subject, "first", "60", true)).await?;
    same(&found.status.as_str(), &"CREATE_COMPLETE", "status of the first change set")?;
    same(&found.changes.len(), &1, "changes of the first change set")?;
    same(
        &(found.changes[0].action.as_str(), found.changes[0].kind.as_str()),
        &("Add", "AWS::SQS::Queue"),
        "change",
    )?;
    same(&stacks.describe_stack(&name).await?.status.as_str(), &"REVIEW_IN_PROGRESS", "status before")?;
    stacks.execute_change_set(&id).await?;
    let stack = at_rest(subject, &name).await?;
    same(&stack.status.as_str(), &"CREATE_COMPLETE", "status of the new stack")?;
    same(&stack.parameters, &tags(&[("Seconds", "60")]), "parameters")?;
    same(&stack.tags, &tags(&[("suite", "conformance")]), "tags")?;
    let events = stacks.events_after(&stack.id, None).await?;
    let last = events.last().ok_or_else(|| Violation("no events".to_owned()))?;
    same(
        &(last.logical_id.as_str(), last.status.as_str()),
        &(name.as_str(), "CREATE_COMPLETE"),
        "last event",
    )?;
    same(&stacks.events_after(&stack.id, Some(&last.id)).await?, &Vec::new(), "events after the last")?;

    let (_, found) = change_set(subject, &spec(subject, "same", "60", false)).await?;
    same(&found.status.as_str(), &"FAILED", "status of an empty change set")?;
    ensure(found.reason.as_deref().is_some_and(says_nothing_to_change), || format!("{:?}", found.reason))?;
    stacks.delete_change_set(&name, "same").await?;

    let (id, found) = change_set(subject, &spec(subject, "longer", "120", false)).await?;
    same(&found.changes[0].action.as_str(), &"Modify", "change of a parameter")?;
    stacks.execute_change_set(&id).await?;
    same(&at_rest(subject, &name).await?.status.as_str(), &"UPDATE_COMPLETE", "status after an update")?;

    stacks.delete_stack(&stack.id).await?;
    same(
        &at_rest(subject, stack.id.as_str()).await?.status.as_str(),
        &"DELETE_COMPLETE",
        "status after deletion",
    )?;
    refused(stacks.describe_stack(&name).await, Kind::NotFound, "DescribeStacks after deletion")?;
    stacks.delete_stack(&stack.id).await?;
    Ok(())
}
