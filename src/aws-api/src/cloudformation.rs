//! Stacks, always changed through change sets (spec aws-operations 1.1 and 1.15).
//!
//! The backend over AWS is the SDK's own crate rather than hand-made requests: it adds one crate and changes no feature
//! of another, takes 35 s of processor time to compile once, and brings paging, retries and error codes that would have
//! to be written and kept otherwise.

use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::id::{ChangeSetId, StackId};
use crate::{Result, Tags};

/// The longest template that fits into a request, in bytes; a longer one has to be read from a bucket.
pub const TEMPLATE_BODY_MAX: usize = 51_200;

/// The `CloudFormation` calls of this product.
#[async_trait]
pub trait CloudFormation: Send + Sync + Debug {
    /// `DescribeStacks` for one stack, by name or id. None of that name is [`crate::Kind::NotFound`]; a stack that was
    /// deleted is found by its id only, as `DELETE_COMPLETE`.
    async fn describe_stack(&self, stack: &str) -> Result<Stack>;

    /// `CreateChangeSet`. Answers before the set is complete; see [`ChangeSet::status`].
    async fn create_change_set(&self, spec: &ChangeSetSpec) -> Result<ChangeSetId>;

    /// `DescribeChangeSet`, all pages.
    async fn describe_change_set(&self, change_set: &ChangeSetId) -> Result<ChangeSet>;

    /// `ExecuteChangeSet`. Answers before the work is done; see [`Stack::status`].
    async fn execute_change_set(&self, change_set: &ChangeSetId) -> Result<()>;

    /// `DeleteChangeSet`, by the names of stack and change set.
    async fn delete_change_set(&self, stack: &str, name: &str) -> Result<()>;

    /// `DescribeStackEvents`: those after the event `seen`, or all of them, oldest first.
    async fn events_after(&self, stack: &StackId, seen: Option<&str>) -> Result<Vec<StackEvent>>;

    /// `ContinueUpdateRollback`, for a stack in `UPDATE_ROLLBACK_FAILED`.
    async fn continue_update_rollback(&self, stack: &StackId) -> Result<()>;

    /// `DeleteStack`. Answers before the work is done; a stack that does not exist is fine.
    async fn delete_stack(&self, stack: &StackId) -> Result<()>;
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Its ARN, unique for ever.
    pub id: StackId,
    /// Its name, unique among the stacks of a region that are not deleted.
    pub name: String,
    /// `CREATE_COMPLETE`, `UPDATE_ROLLBACK_FAILED`, ...
    pub status: String,
    /// Reason for that status, where AWS gives one.
    pub reason: Option<String>,
    /// Parameters by name.
    pub parameters: Tags,
    /// Outputs by name.
    pub outputs: Tags,
    pub tags: Tags,
}

/// A change set to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSetSpec {
    /// Name of the stack.
    pub stack: String,
    /// Name of the change set, unique in its stack.
    pub name: String,
    /// True if the stack has to be made first.
    pub creates: bool,
    /// The template, at most [`TEMPLATE_BODY_MAX`] bytes.
    pub template: String,
    /// Parameters by name; all others get their defaults.
    pub parameters: Tags,
    /// Tags of the stack, which hands them on to its resources.
    pub tags: Tags,
}

/// A change set that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// Its ARN.
    pub id: ChangeSetId,
    pub stack: StackId,
    /// `CREATE_PENDING`, `CREATE_IN_PROGRESS`, `CREATE_COMPLETE` or `FAILED`.
    pub status: String,
    /// Reason why it failed; also when there is nothing to change.
    pub reason: Option<String>,
    /// Changes it would make, in AWS's order.
    pub changes: Vec<Change>,
}

/// Change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `Add`, `Modify`, `Remove`, ...
    pub action: String,
    /// The resource's name in the template.
    pub logical_id: String,
    /// `AWS::IAM::Role`, ...
    pub kind: String,
    /// Name or id in the account, once it exists.
    pub physical_id: Option<String>,
    /// Replacement by a modification: `True`, `False` or `Conditional`.
    pub replacement: Option<String>,
}

/// Something that happened to a stack or to one of its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackEvent {
    /// Unique in its stack.
    pub id: String,
    /// Time of the event.
    pub at: Timestamp,
    /// The resource's name in the template; the stack's name for the stack itself.
    pub logical_id: String,
    /// Name or id in the account; the stack's ARN for the stack itself.
    pub physical_id: Option<String>,
    /// `AWS::IAM::Role`, `AWS::CloudFormation::Stack`, ...
    pub kind: String,
    /// `CREATE_IN_PROGRESS`, `CREATE_FAILED`, ...
    pub status: String,
    /// Reason, where AWS gives one.
    pub reason: Option<String>,
}

/// Returns whether AWS calls a change set empty. It does so by failing, in one of two wordings.
pub fn says_nothing_to_change(reason: &str) -> bool {
    reason.contains("didn't contain changes") || reason.contains("No updates are to be performed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wordings_of_an_empty_change_set_are_known() {
        for (reason, nothing) in [
            ("The submitted information didn't contain changes. Submit different information.", true),
            ("No updates are to be performed.", true),
            ("Parameters: [ClusterName] must have values", false),
        ] {
            assert_eq!(says_nothing_to_change(reason), nothing, "{reason}");
        }
    }
}
