//! `EventBridge` rules that bring interruption notices to the queue (spec aws-operations 1.4).
//!
//! Everything is on the default event bus, the only one AWS services publish to.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::id::Arn;
use crate::{Result, Tags};

/// The `EventBridge` calls of this product.
#[async_trait]
pub trait Events: Send + Sync + Debug {
    /// `PutRule`: creates or replaces. Tags only count on creation; use `tag_resource` on what exists.
    async fn put_rule(&self, rule: &RuleSpec) -> Result<Arn>;

    /// `DescribeRule`.
    async fn describe_rule(&self, name: &str) -> Result<Rule>;

    /// `ListRules` whose name begins with `prefix`.
    async fn list_rules(&self, prefix: &str) -> Result<Vec<Rule>>;

    /// `ListRuleNamesByTarget`: names of the rules that send to `target`.
    async fn list_rules_sending_to(&self, target: &Arn) -> Result<Vec<String>>;

    /// `DeleteRule`. Rules with targets cannot be deleted ([`crate::Kind::Invalid`]); a missing one is fine.
    async fn delete_rule(&self, name: &str) -> Result<()>;

    /// `PutTargets`: adds, or replaces those with the same id. Any refused entry is an error.
    async fn put_targets(&self, rule: &str, targets: &[Target]) -> Result<()>;

    /// `ListTargetsByRule`.
    async fn list_targets(&self, rule: &str) -> Result<Vec<Target>>;

    /// `RemoveTargets`. Any refused entry is an error.
    async fn remove_targets(&self, rule: &str, ids: &[String]) -> Result<()>;

    /// `ListTagsForResource`.
    async fn list_tags(&self, rule: &Arn) -> Result<Tags>;

    /// `TagResource`.
    async fn tag_resource(&self, rule: &Arn, tags: &Tags) -> Result<()>;

    /// `UntagResource`.
    async fn untag_resource(&self, rule: &Arn, keys: &[String]) -> Result<()>;

    /// `PutEvents`, one event. Only tests publish; AWS refuses sources that begin with `aws.` from customers.
    async fn put_event(&self, event: &Event) -> Result<()>;
}

/// A rule to create or replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Up to 64 characters.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Event pattern, JSON.
    pub pattern: String,
    pub tags: Tags,
}

/// A rule that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub name: String,
    pub arn: Arn,
    /// Event pattern, JSON; `None` for schedules.
    pub pattern: Option<String>,
    /// Free text.
    pub description: Option<String>,
    /// Events flow.
    pub enabled: bool,
}

/// Target that a rule sends events to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Unique within the rule.
    pub id: String,
    /// ARN of the queue.
    pub arn: Arn,
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `aws.ec2`
    pub source: String,
    /// `EC2 Spot Instance Interruption Warning`
    pub detail_type: String,
    /// JSON object.
    pub detail: String,
    /// ARNs of what it is about.
    pub resources: Vec<Arn>,
}
