//! `CloudFormation`: the life of stacks and change sets, without the resources.
//!
//! Statuses, refusals and events are AWS's, and as there an answer comes before the work is done: a change set is
//! complete, and a stack at rest, from the second look on. Resources are named in changes and events but never made,
//! and conditions are not evaluated: every resource of a template counts. Whether a template makes the right things is
//! for an emulator to say.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_aws_api::id::{ChangeSetId, StackId};
use karpenter_aws_api::{Error, Result};
use serde_json::Value;

use super::{Account, State};
use karpenter_aws_api::cloudformation::{
    Change, ChangeSet, ChangeSetSpec, CloudFormation, Stack, StackEvent, TEMPLATE_BODY_MAX,
};

const NOTHING: &str =
    "The submitted information didn't contain changes. Submit different information to create a change set.";
const STACK: &str = "AWS::CloudFormation::Stack";

/// Stacks of the account, deleted ones too, and change sets that were not executed.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    by_id: BTreeMap<StackId, StackEntry>,
    change_sets: BTreeMap<ChangeSetId, ChangeSetEntry>,
    /// Reason for which the next change of a stack is refused.
    pub(super) refusal: Option<String>,
}

#[derive(Debug)]
struct StackEntry {
    stack: Stack,
    /// The status this one comes to at the next look.
    becomes: Option<&'static str>,
    template: Option<Value>,
    events: Vec<StackEvent>,
}

#[derive(Debug)]
struct ChangeSetEntry {
    spec: ChangeSetSpec,
    template: Value,
    change_set: ChangeSet,
}

impl Stacks {
    /// A stack by name, among those that are not deleted, or by id.
    fn find(&mut self, operation: &'static str, name: &str) -> Result<&mut StackEntry> {
        let found = self.by_id.values_mut().find(|entry| {
            entry.stack.id.as_str() == name
                || (entry.stack.name == name && entry.stack.status != "DELETE_COMPLETE")
        });
        found.ok_or_else(|| {
            let text = format!("Stack with id {name} does not exist");
            Error::answered(operation, name, "ValidationError", text)
        })
    }

    fn change_set(&mut self, operation: &'static str, id: &ChangeSetId) -> Result<&mut ChangeSetEntry> {
        self.change_sets.get_mut(id).ok_or_else(|| {
            let text = format!("ChangeSet [{id}] does not exist");
            Error::answered(operation, id.as_str(), "ChangeSetNotFound", text)
        })
    }

    fn put(&mut self, stack: Stack) {
        let entry = StackEntry { stack, becomes: None, template: None, events: Vec::new() };
        self.by_id.insert(entry.stack.id.clone(), entry);
    }
}

impl StackEntry {
    fn event(&mut self, at: Timestamp, logical_id: &str, kind: &str, status: &str, reason: Option<&str>) {
        self.events.push(StackEvent {
            id: format!("{logical_id}-{:04}", self.events.len()),
            at,
            logical_id: logical_id.to_owned(),
            physical_id: (kind == STACK).then(|| self.stack.id.to_string()),
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
        });
    }

    /// Takes the status, and remembers which one it comes to.
    fn enter(&mut self, at: Timestamp, status: &str, becomes: &'static str) {
        status.clone_into(&mut self.stack.status);
        self.becomes = Some(becomes);
        let name = self.stack.name.clone();
        self.event(at, &name, STACK, status, None);
    }

    /// Finishes the operation that was begun.
    fn settle(&mut self, at: Timestamp) {
        if let Some(status) = self.becomes.take() {
            status.clone_into(&mut self.stack.status);
            let name = self.stack.name.clone();
            self.event(at, &name, STACK, status, None);
        }
    }

    fn changes(&self, spec: &ChangeSetSpec, template: &Value) -> Vec<Change> {
        let nothing = Value::Null;
        let (old, new) = (self.template.as_ref().unwrap_or(&nothing), template);
        let names = |template: &Value| -> BTreeSet<String> {
            template["Resources"].as_object().into_iter().flat_map(|all| all.keys().cloned()).collect()
        };
        let touched: BTreeSet<&String> = spec
            .parameters
            .keys()
            .chain(self.stack.parameters.keys())
            .filter(|name| spec.parameters.get(*name) != self.stack.parameters.get(*name))
            .collect();
        let all = names(old).into_iter().chain(names(new)).collect::<BTreeSet<_>>();
        let change = |name: String| {
            let (before, after) = (&old["Resources"][&name], &new["Resources"][&name]);
            let action = match (before.is_null(), after.is_null()) {
                (true, _) => "Add",
                (_, true) => "Remove",
                _ if before != after || spec.tags != self.stack.tags => "Modify",
                _ if touched.iter().any(|parameter| after.to_string().contains(*parameter)) => "Modify",
                _ => return None,
            };
            let definition = if after.is_null() { before } else { after };
            Some(Change {
                action: action.to_owned(),
                logical_id: name,
                kind: definition["Type"].as_str().unwrap_or_default().to_owned(),
                physical_id: None,
                replacement: (action == "Modify").then(|| "False".to_owned()),
            })
        };
        all.into_iter().filter_map(change).collect()
    }
}

fn parse(spec: &ChangeSetSpec) -> Result<Value> {
    let refuse = |text: String| Error::answered("CreateChangeSet", &spec.stack, "ValidationError", text);
    if spec.template.len() > TEMPLATE_BODY_MAX {
        let text = "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to 51200";
        return Err(refuse(text.to_owned()));
    }
    let template: Value = serde_saphyr::from_str(&spec.template)
        .map_err(|error| refuse(format!("Template format error: YAML not well-formed. {error}")))?;
    let declared = template["Parameters"].as_object();
    let unknown: Vec<_> =
        spec.parameters.keys().filter(|name| declared.is_none_or(|all| !all.contains_key(*name))).collect();
    if !unknown.is_empty() {
        return Err(refuse(format!("Parameters: {unknown:?} do not exist in the template")));
    }
    Ok(template)
}

/// Puts a stack that holds nothing yet and exists for its first change set.
fn put_reviewed(state: &mut State, name: &str) -> StackId {
    let unique = state.ids.next("stack");
    let id = StackId::from(state.arn("cloudformation", &format!("stack/{name}/{unique}")));
    state.stacks.put(Stack {
        id: id.clone(),
        name: name.to_owned(),
        status: "REVIEW_IN_PROGRESS".to_owned(),
        reason: None,
        parameters: BTreeMap::new(),
        outputs: BTreeMap::new(),
        tags: BTreeMap::new(),
    });
    id
}

fn create_change_set(state: &mut State, spec: &ChangeSetSpec) -> Result<ChangeSetId> {
    let refuse = |code: &str, text: String| Err(Error::answered("CreateChangeSet", &spec.stack, code, text));
    let template = parse(spec)?;
    let found = state.stacks.find("CreateChangeSet", &spec.stack).ok().map(|entry| entry.stack.clone());
    let reviewed = found.as_ref().is_some_and(|stack| stack.status == "REVIEW_IN_PROGRESS");
    match &found {
        None if !spec.creates => {
            return refuse("ValidationError", format!("Stack [{}] does not exist", spec.stack));
        }
        Some(_) if spec.creates && !reviewed => {
            let text = format!("Stack [{}] already exists and cannot be created again", spec.stack);
            return refuse("ValidationError", text);
        }
        Some(stack) if !spec.creates && !may_be_updated(&stack.status) => {
            let text = format!("Stack:{} is in {} state and can not be updated.", stack.id, stack.status);
            return refuse("ValidationError", text);
        }
        _ => {}
    }
    let stack_id = found.map_or_else(|| put_reviewed(state, &spec.stack), |stack| stack.id);
    let taken = state.stacks.change_sets.values();
    if taken.into_iter().any(|other| other.change_set.stack == stack_id && other.spec.name == spec.name) {
        let text =
            format!("ChangeSet {} cannot be created due to a mismatch with existing attribute", spec.name);
        return refuse("AlreadyExistsException", text);
    }
    let unique = state.ids.next("changes");
    let id = ChangeSetId::from(state.arn("cloudformation", &format!("changeSet/{}/{unique}", spec.name)));
    let changes = state.stacks.find("CreateChangeSet", stack_id.as_str())?.changes(spec, &template);
    let change_set = ChangeSet {
        id: id.clone(),
        stack: stack_id,
        status: "CREATE_IN_PROGRESS".to_owned(),
        reason: None,
        changes,
    };
    let entry = ChangeSetEntry { spec: spec.clone(), template, change_set };
    state.stacks.change_sets.insert(id.clone(), entry);
    Ok(id)
}

/// A stack that has none of these can only be deleted, or waited for.
fn may_be_updated(status: &str) -> bool {
    matches!(
        status,
        "CREATE_COMPLETE"
            | "UPDATE_COMPLETE"
            | "UPDATE_ROLLBACK_COMPLETE"
            | "UPDATE_FAILED"
            | "IMPORT_COMPLETE"
            | "IMPORT_ROLLBACK_COMPLETE"
    )
}

fn execute(state: &mut State, id: &ChangeSetId, now: Timestamp) -> Result<()> {
    let entry = state.stacks.change_set("ExecuteChangeSet", id)?;
    if entry.change_set.status != "CREATE_COMPLETE" {
        let text = format!(
            "ChangeSet [{id}] cannot be executed in its current status of [{}]",
            entry.change_set.status
        );
        return Err(Error::answered("ExecuteChangeSet", id.as_str(), "InvalidChangeSetStatus", text));
    }
    let Some(taken) = state.stacks.change_sets.remove(id) else { return Ok(()) };
    let refusal = state.stacks.refusal.take();
    let entry = state.stacks.find("ExecuteChangeSet", taken.change_set.stack.as_str())?;
    let verb = if taken.spec.creates { "CREATE" } else { "UPDATE" };
    let name = entry.stack.name.clone();
    entry.event(now, &name, STACK, &format!("{verb}_IN_PROGRESS"), None);
    if taken.spec.creates {
        entry.stack.parameters.clone_from(&taken.spec.parameters);
        entry.stack.tags.clone_from(&taken.spec.tags);
    }
    if let Some(reason) = refusal {
        let first = taken.change_set.changes.first();
        let (resource, kind) =
            first.map_or(("Nothing", STACK), |change| (change.logical_id.as_str(), change.kind.as_str()));
        entry.event(now, resource, kind, &format!("{verb}_FAILED"), Some(&reason));
        let (status, becomes) = if taken.spec.creates {
            ("ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE")
        } else {
            ("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE")
        };
        entry.enter(now, status, becomes);
        return Ok(());
    }
    for change in &taken.change_set.changes {
        let status = match change.action.as_str() {
            "Add" => "CREATE_COMPLETE",
            "Remove" => "DELETE_COMPLETE",
            _ => "UPDATE_COMPLETE",
        };
        entry.event(now, &change.logical_id, &change.kind, status, None);
    }
    entry.template = Some(taken.template);
    entry.stack.parameters = taken.spec.parameters;
    entry.stack.tags = taken.spec.tags;
    entry.stack.status = format!("{verb}_IN_PROGRESS");
    entry.becomes = Some(if taken.spec.creates { "CREATE_COMPLETE" } else { "UPDATE_COMPLETE" });
    Ok(())
}

#[async_trait]
impl CloudFormation for Account {
    async fn describe_stack(&self, stack: &str) -> Result<Stack> {
        self.call("DescribeStacks", stack, |state, now| {
            let entry = state.stacks.find("DescribeStacks", stack)?;
            let seen = entry.stack.clone();
            entry.settle(now);
            Ok(seen)
        })
        .await
    }

    async fn create_change_set(&self, spec: &ChangeSetSpec) -> Result<ChangeSetId> {
        self.call("CreateChangeSet", &spec.stack, |state, _| create_change_set(state, spec)).await
    }

    async fn describe_change_set(&self, change_set: &ChangeSetId) -> Result<ChangeSet> {
        self.call("DescribeChangeSet", change_set.as_str(), |state, _| {
            let entry = state.stacks.change_set("DescribeChangeSet", change_set)?;
            let seen = entry.change_set.clone();
            let found = &mut entry.change_set;
            let empty = found.changes.is_empty();
            let status = if empty { "FAILED" } else { "CREATE_COMPLETE" };
            status.clone_into(&mut found.status);
            found.reason = empty.then(|| NOTHING.to_owned());
            Ok(seen)
        })
        .await
    }

    async fn execute_change_set(&self, change_set: &ChangeSetId) -> Result<()> {
        self.call("ExecuteChangeSet", change_set.as_str(), |state, now| execute(state, change_set, now)).await
    }

    async fn delete_change_set(&self, stack: &str, name: &str) -> Result<()> {
        self.call("DeleteChangeSet", name, |state, _| {
            let id = state.stacks.find("DeleteChangeSet", stack)?.stack.id.clone();
            // One that is not there is as good as deleted, as AWS has it.
            state
                .stacks
                .change_sets
                .retain(|_, entry| entry.change_set.stack != id || entry.spec.name != name);
            Ok(())
        })
        .await
    }

    async fn events_after(&self, stack: &StackId, seen: Option<&str>) -> Result<Vec<StackEvent>> {
        self.call("DescribeStackEvents", stack.as_str(), |state, _| {
            let events = &state.stacks.find("DescribeStackEvents", stack.as_str())?.events;
            let first =
                seen.and_then(|id| events.iter().position(|event| event.id == id)).map_or(0, |at| at + 1);
            Ok(events[first..].to_vec())
        })
        .await
    }

    async fn continue_update_rollback(&self, stack: &StackId) -> Result<()> {
        self.call("ContinueUpdateRollback", stack.as_str(), |state, now| {
            let entry = state.stacks.find("ContinueUpdateRollback", stack.as_str())?;
            if entry.stack.status != "UPDATE_ROLLBACK_FAILED" {
                let text = format!(
                    "Stack:{stack} is in {} state and can not continue rolling back",
                    entry.stack.status
                );
                return Err(Error::answered(
                    "ContinueUpdateRollback",
                    stack.as_str(),
                    "ValidationError",
                    text,
                ));
            }
            entry.enter(now, "UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE");
            Ok(())
        })
        .await
    }

    async fn delete_stack(&self, stack: &StackId) -> Result<()> {
        self.call("DeleteStack", stack.as_str(), |state, now| {
            let refusal = state.stacks.refusal.take();
            if let Ok(entry) = state.stacks.find("DeleteStack", stack.as_str())
                && entry.stack.status != "DELETE_COMPLETE"
            {
                if let Some(reason) = &refusal {
                    entry.event(now, "Queue", "AWS::SQS::Queue", "DELETE_FAILED", Some(reason));
                }
                let becomes = if refusal.is_some() { "DELETE_FAILED" } else { "DELETE_COMPLETE" };
                let empty = entry.stack.status == "REVIEW_IN_PROGRESS";
                entry.enter(now, "DELETE_IN_PROGRESS", becomes);
                if empty {
                    entry.settle(now);
                }
                state.stacks.change_sets.retain(|_, set| set.change_set.stack != *stack);
            }
            Ok(())
        })
        .await
    }
}

impl Account {
    /// Puts a stack there, in whatever status.
    pub fn put_stack(&self, stack: Stack) {
        self.truth(|state, _| state.stacks.put(stack));
    }

    /// The next change of a stack fails with this reason and is taken back.
    pub fn refuse_next_stack_change(&self, reason: &str) {
        self.truth(|state, _| state.stacks.refusal = Some(reason.to_owned()));
    }

    /// Change sets that were neither executed nor deleted.
    pub fn waiting_change_sets(&self) -> usize {
        self.truth(|state, _| state.stacks.change_sets.len())
    }
}
