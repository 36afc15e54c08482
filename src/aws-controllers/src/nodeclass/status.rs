//! The status of a `NodeClass`: every part in its order, then one patch.

use std::time::Duration;

use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::ec2nodeclass::{EC2NodeClass, Ec2NodeClassStatus};
use karpenter_api::{Condition, ConditionStatus};
use karpenter_kube_harness::queue::Done;
use karpenter_kube_harness::write;
use karpenter_model::names::condition;
use karpenter_telemetry::events::Reason;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::Reconciler;
use super::conditions::Part;
use super::{images, network, placement, profile, reservations};
use crate::Error;

/// Results of one pass.
#[derive(Default)]
struct Findings {
    again: Option<Duration>,
    errors: Vec<Error>,
}

impl Findings {
    fn add(&mut self, result: Result<Option<Duration>, Error>) {
        match result {
            Ok(again) => self.again = [self.again, again].into_iter().flatten().min(),
            Err(error) => self.errors.push(error),
        }
    }
}

impl Reconciler {
    /// Resolves every part and writes the status if it changed.
    pub(super) async fn status(&self, class: EC2NodeClass) -> Result<Done, Error> {
        let before = class.status.clone().unwrap_or_default();
        let mut working = class.clone();
        let mut list = before.conditions.clone();
        let gate = self.context.aws.settings.reserved_capacity;
        let now = self.context.common.now();
        let mut conditions =
            Conditions::open(Dependents::ec2_node_class(gate), &mut list, &class.metadata, now);
        let mut findings = Findings::default();
        self.parts(&mut working, &mut conditions, &mut findings).await;
        let mut status = working.status.take().unwrap_or_default();
        status.conditions = list;
        let changed = status != before;
        if changed {
            self.write(&class, &before, &status).await?;
        }
        Error::combined(findings.errors)?;
        let done = if changed { Done::applied() } else { Done::idle() };
        Ok(findings.again.map_or(done, |again| done.after(again)))
    }

    async fn parts(
        &self,
        class: &mut EC2NodeClass,
        conditions: &mut Conditions<'_>,
        findings: &mut Findings,
    ) {
        let mut status = class.status.clone().unwrap_or_default();
        let context = &self.context;
        findings.add(images::resolve(Part { context, class, conditions }, &mut status).await);
        let reserved = reservations::resolve(Part { context, class, conditions }, &mut status).await;
        findings.add(reserved);
        let placed = placement::resolve(Part { context, class, conditions }).await;
        findings.add(placed.map(|()| None));
        findings.add(network::subnets(Part { context, class, conditions }, &mut status).await);
        findings.add(network::groups(Part { context, class, conditions }, &mut status).await);
        let profiled = profile::resolve(Part { context, class, conditions }, &mut status).await;
        findings.add(profiled.map(|()| None));
        // The validation looks at the status as it is going to be.
        class.status = Some(status);
        let checked = self.validate(Part { context, class, conditions }).await;
        findings.add(checked);
    }

    async fn write(
        &self,
        class: &EC2NodeClass,
        before: &Ec2NodeClassStatus,
        after: &Ec2NodeClassStatus,
    ) -> Result<(), Error> {
        let change = write::locked(class, json!({"status": difference(before, after)}));
        let api = self.context.common.all::<EC2NodeClass>();
        if let Some(written) = write::merge_status(&api, &class.name_any(), &change).await? {
            self.publish_transitions(&written, &before.conditions, &after.conditions);
            self.take(written);
        }
        Ok(())
    }

    /// One event per condition whose status moved (spec disruption 7).
    fn publish_transitions(&self, class: &EC2NodeClass, before: &[Condition], after: &[Condition]) {
        for condition in after {
            let old = before.iter().find(|old| old.kind == condition.kind);
            if old.is_some_and(|old| old.status != condition.status) || (old.is_none() && decided(condition))
            {
                let from = old.map_or("", |old| old.status.as_str());
                let message = format!(
                    "Status condition transitioned, Type: {}, Status: {from} -> {}, Reason: {}{}",
                    condition.kind,
                    condition.status.as_str(),
                    condition.reason,
                    if condition.message.is_empty() {
                        String::new()
                    } else {
                        format!(", Message: {}", condition.message)
                    },
                );
                if let Some(kind) = known(&condition.kind) {
                    self.context.publish_event(class, Reason::condition(kind), message);
                }
            }
        }
    }
}

fn decided(condition: &Condition) -> bool {
    condition.status != ConditionStatus::Unknown
}

/// Event reasons are static texts.
fn known(kind: &str) -> Option<&'static str> {
    let dependents = Dependents::ec2_node_class(true).0.iter().copied();
    dependents.chain([condition::READY]).find(|known| *known == kind)
}

/// The fields that differ; a field that is left out of the new status is taken away explicitly.
fn difference(before: &Ec2NodeClassStatus, after: &Ec2NodeClassStatus) -> Value {
    let fields = |status: &Ec2NodeClassStatus| match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    };
    let (old, new) = (fields(before), fields(after));
    let mut change: Map<String, Value> =
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null)).collect();
    change.extend(new.into_iter().filter(|(key, value)| old.get(key) != Some(value)));
    Value::Object(change)
}
