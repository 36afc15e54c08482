//! The working copy of a NodeClaim during one pass.
//!
//! Stages change the copy and see each other's changes; at the end the difference to what was read is written as
//! one metadata patch and one status patch, the second locked when conditions changed because they are a list. The
//! first is not: it names single labels and annotations, so it takes nothing from others, and the result of a
//! launch is not lost because another client wrote meanwhile, be it the claim's deletion.
//!
//! Most passes change nothing. One of those copies no object, reads none and compares none.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_api::conditions::{Conditions, Dependents};
use karpenter_api::{NodeClaim, NodeClaimStatus, resource_map};
use karpenter_lifecycle::step::{Change, Launched};
use karpenter_model::{Annotations, Claim, LabelKey, LabelRegistry, LabelValue, NodeName, ProviderId};
use serde::Serialize;
use serde_json::{Map, Value, json};

use karpenter_kube_harness::write::locked;

use super::conditions;
use crate::view::{KnownClaim, read};

/// A NodeClaim as it was read and as it is to become.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    base: Arc<NodeClaim>,
    /// Claim with the changes; shares the allocation of `base` as long as there are none.
    object: Arc<NodeClaim>,
    /// `object` as steps read it; empty until one asks after a change.
    read: OnceLock<Arc<Claim>>,
    now: Timestamp,
}

impl Draft {
    /// A working copy of what is known, at `now`.
    pub(crate) fn of(known: &KnownClaim, now: Timestamp) -> Self {
        Self { read: Arc::clone(&known.model).into(), ..Self::new(Arc::clone(&known.object), now) }
    }

    /// A working copy of what was written a moment ago, at `now`.
    pub(crate) fn new(base: Arc<NodeClaim>, now: Timestamp) -> Self {
        Self { object: Arc::clone(&base), base, read: OnceLock::new(), now }
    }

    /// Adds the conditions every claim must have.
    pub(crate) fn open_conditions(&mut self) {
        self.conditions(|_| ());
    }

    /// The claim as it was read.
    pub(crate) fn base(&self) -> &Arc<NodeClaim> {
        &self.base
    }

    /// Name of the claim.
    pub(crate) fn name(&self) -> &str {
        self.base.metadata.name.as_deref().unwrap_or_default()
    }

    /// The claim with all changes so far.
    pub(crate) fn object(&self) -> &NodeClaim {
        &self.object
    }

    /// The claim with all changes so far, as steps read it.
    pub(crate) fn claim(&self, registry: &LabelRegistry) -> Arc<Claim> {
        Arc::clone(self.read.get_or_init(|| Arc::new(read::claim(&self.object, registry))))
    }

    /// Carries out a change of a condition.
    pub(crate) fn change(&mut self, change: &Change) {
        self.conditions(|conditions| conditions::change(conditions, change));
    }

    /// Takes over what the provider resolved.
    pub(crate) fn record_launch(&mut self, launched: &Launched) {
        let texts = launched.labels.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        self.edit().metadata.labels.get_or_insert_default().extend(texts);
        self.annotate(&launched.annotations);
        let status = self.status();
        status.provider_id = Some(launched.provider_id.to_string());
        status.image_id = launched.image_id.as_ref().map(ToString::to_string);
        status.capacity = Some(resource_map(&launched.capacity));
        status.allocatable = Some(resource_map(&launched.allocatable));
    }

    /// Writes the id of a machine that was found.
    pub(crate) fn record_machine(&mut self, id: &ProviderId) {
        self.status().provider_id = Some(id.to_string());
    }

    /// Writes `status.nodeName`.
    pub(crate) fn record_node(&mut self, node: &NodeName) {
        self.status().node_name = Some(node.to_string());
    }

    /// Writes `status.lastPodEventTime`.
    pub(crate) fn record_pod_event(&mut self, at: Timestamp) {
        self.status().last_pod_event_time = Some(Time(at));
    }

    /// Sets a label.
    pub(crate) fn label(&mut self, key: &LabelKey, value: &LabelValue) {
        self.edit().metadata.labels.get_or_insert_default().insert(key.to_string(), value.to_string());
    }

    /// Sets annotations.
    pub(crate) fn annotate(&mut self, annotations: &Annotations) {
        self.edit().metadata.annotations.get_or_insert_default().extend(annotations.clone());
    }

    /// Removes annotations.
    pub(crate) fn forget_annotations(&mut self, keys: &[String]) {
        let present = self.object.metadata.annotations.as_ref();
        if present.is_some_and(|present| keys.iter().any(|key| present.contains_key(key))) {
            let annotations = self.edit().metadata.annotations.get_or_insert_default();
            annotations.retain(|key, _| !keys.contains(key));
        }
    }

    /// Changes of labels and annotations, as a merge patch.
    pub(crate) fn metadata_patch(&self) -> Option<Value> {
        let labels = difference(&self.base.metadata.labels, &self.object.metadata.labels);
        let annotations = difference(&self.base.metadata.annotations, &self.object.metadata.annotations);
        let metadata: Map<String, Value> = [("labels", labels), ("annotations", annotations)]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect();
        (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
    }

    /// Returns whether the status has changed.
    pub(crate) fn changes_status(&self) -> bool {
        self.base.status != self.object.status
    }

    /// Changes of the status, as a merge patch against `present`, the claim as it is now on the server.
    pub(crate) fn status_patch(&self, present: &NodeClaim) -> Option<Value> {
        let status = difference(&self.base.status, &self.object.status)?;
        // A merge patch replaces lists as a whole, and with it conditions that another client has written
        // since.
        let replaces_list = status.get("conditions").is_some();
        let patch = json!({"status": status});
        Some(if replaces_list { locked(present, patch) } else { patch })
    }

    fn status(&mut self) -> &mut NodeClaimStatus {
        self.edit().status.get_or_insert_default()
    }

    /// Changes conditions, beginning with those that must exist. What comes out as it was is no change.
    fn conditions(&mut self, change: impl FnOnce(&mut Conditions<'_>)) {
        let before = self.object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let mut list = before.to_vec();
        change(&mut Conditions::open(Dependents::NODE_CLAIM, &mut list, &self.object.metadata, self.now));
        if list != before {
            self.status().conditions = list;
        }
    }

    fn edit(&mut self) -> &mut NodeClaim {
        self.read = OnceLock::new();
        Arc::make_mut(&mut self.object)
    }
}

/// The fields of `after` that differ from `before`; null for those that are gone.
fn difference<T: PartialEq + Serialize>(before: &T, after: &T) -> Option<Value> {
    if before == after {
        return None;
    }
    let fields = |value: &T| match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (before, after) = (fields(before), fields(after));
    let gone: Vec<_> = before.keys().filter(|name| !after.contains_key(*name)).cloned().collect();
    let changed = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
    let changed: Map<String, Value> =
        changed.chain(gone.into_iter().map(|name| (name, Value::Null))).collect();
    (!changed.is_empty()).then_some(Value::Object(changed))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use karpenter_api::{NodeClaim, NodeClaimSpec};
    use karpenter_lifecycle::step::Change;
    use karpenter_model::ConditionType;
    use serde_json::json;

    use super::Draft;

    fn draft() -> Draft {
        let mut claim = NodeClaim::new("a", NodeClaimSpec::default());
        claim.metadata.resource_version = Some("7".to_owned());
        claim.metadata.generation = Some(1);
        let mut draft = Draft::new(Arc::new(claim), Timestamp::UNIX_EPOCH);
        draft.open_conditions();
        draft
    }

    #[test]
    fn an_untouched_claim_with_conditions_is_not_written() {
        let claim = draft().object().clone();
        let mut draft = Draft::new(Arc::new(claim), Timestamp::UNIX_EPOCH);
        draft.open_conditions();
        assert_eq!(draft.metadata_patch(), None);
        assert_eq!(draft.status_patch(draft.object()), None);
    }

    #[test]
    fn only_what_changed_is_written_and_only_conditions_are_locked() {
        let mut draft = Draft::new(Arc::new(draft().object().clone()), Timestamp::UNIX_EPOCH);
        draft.label(&"a".into(), &"b".into());
        draft.record_node(&"node-1".into());
        assert_eq!(draft.metadata_patch(), Some(json!({"metadata": {"labels": {"a": "b"}}})));
        assert_eq!(draft.status_patch(draft.object()), Some(json!({"status": {"nodeName": "node-1"}})));
        draft.change(&Change::holds(ConditionType::Launched));
        let patch = draft.status_patch(draft.object()).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], json!("7"));
        assert_eq!(patch["status"]["conditions"].as_array().map(Vec::len), Some(4));
    }
}
