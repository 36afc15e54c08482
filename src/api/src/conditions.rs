//! The rules by which status conditions change (spec scheduling 1, spec disruption 0.2,
//! spec aws-provider 1.7). Pure: the clock is an argument.
//!
//! Every kind of ours has a root condition, always `Ready`, that follows from its *dependents*; any other condition
//! stands alone. Kinds shared with others have no root ([`Conditions::without_root`]). Invariants kept by
//! [`Conditions`]:
//! - root and dependents, where there are any, always exist;
//! - `lastTransitionTime` moves only with `status`;
//! - what is set is stamped with the current generation, and a dependent stamped with an older one does not
//!   count as healthy;
//! - the list is ordered by transition time, the root last.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use karpenter_model::names::{condition, reason};

use karpenter_model::ConditionStatus;

use crate::condition::Condition;

#[cfg(test)]
mod tests;

const AWAITING_MESSAGE: &str = "object is awaiting reconciliation";

/// The conditions that decide the root of one kind, in the order they are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependents(pub &'static [&'static str]);

impl Dependents {
    /// Conditions of NodeClaims (spec scheduling 4).
    pub const NODE_CLAIM: Self = Self(&[condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED]);
    /// Conditions of NodePools (spec scheduling 3.3).
    pub const NODE_POOL: Self = Self(&[condition::VALIDATION_SUCCEEDED, condition::NODE_CLASS_READY]);
    /// Conditions of NodeOverlays (spec scheduling 5).
    pub const NODE_OVERLAY: Self = Self(&[condition::VALIDATION_SUCCEEDED]);

    /// Conditions of EC2NodeClasses (spec aws-provider 1.7); reservations count only with the gate `ReservedCapacity`.
    pub const fn ec2_node_class(reserved_capacity: bool) -> Self {
        const ALL: &[&str] = &[
            condition::aws::AMIS_READY,
            condition::aws::SUBNETS_READY,
            condition::aws::SECURITY_GROUPS_READY,
            condition::aws::INSTANCE_PROFILE_READY,
            condition::VALIDATION_SUCCEEDED,
            condition::aws::PLACEMENT_GROUP_READY,
            condition::aws::CAPACITY_RESERVATIONS_READY,
        ];
        match ALL.split_last() {
            Some((_, without)) if !reserved_capacity => Self(without),
            _ => Self(ALL),
        }
    }
}

/// The conditions of one object while they are being changed.
#[derive(Debug)]
pub struct Conditions<'a> {
    /// Conditions that the root follows from; without them there is no root.
    dependents: Option<Dependents>,
    list: &'a mut Vec<Condition>,
    generation: i64,
    now: Time,
    changed: bool,
}

/// An attempt to remove a condition that must always exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("condition `{kind}` decides `Ready` and cannot be removed; set it to Unknown instead")]
pub struct NotClearable {
    /// The condition's type.
    pub kind: String,
}

impl<'a> Conditions<'a> {
    /// Opens the conditions of an object, creating root and dependents where missing.
    ///
    /// A created dependent counts from the object's creation, so that time limits do too. On an object that
    /// is being deleted every condition is stamped with the current generation, because no controller will
    /// decide them again.
    pub fn open(
        dependents: Dependents,
        list: &'a mut Vec<Condition>,
        metadata: &ObjectMeta,
        now: Timestamp,
    ) -> Self {
        let now = to_the_second(now);
        let generation = metadata.generation.unwrap_or_default();
        let created = metadata.creation_timestamp.clone().unwrap_or_else(|| now.clone());
        let mut conditions = Self { dependents: Some(dependents), list, generation, now, changed: false };
        for kind in dependents.0 {
            conditions.create(kind, created.clone());
        }
        conditions.create(condition::READY, conditions.now.clone());
        if metadata.deletion_timestamp.is_some() {
            conditions.restamp();
        }
        conditions
    }

    /// Opens the conditions of an object whose kind has no root: all of them stand alone.
    pub fn without_root(list: &'a mut Vec<Condition>, metadata: &ObjectMeta, now: Timestamp) -> Self {
        let generation = metadata.generation.unwrap_or_default();
        Self { dependents: None, list, generation, now: to_the_second(now), changed: false }
    }

    /// The condition of this type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.list.iter().find(|c| c.kind == kind)
    }

    /// Returns whether anything differs from what was opened; if not, nothing needs to be written.
    pub const fn changed(&self) -> bool {
        self.changed
    }

    /// Sets the condition True with its own type as reason and no message. Returns whether it changed.
    pub fn set_true(&mut self, kind: &str) -> bool {
        self.set(kind, ConditionStatus::True, kind, "")
    }

    /// Sets the condition False. Returns whether it changed.
    pub fn set_false(&mut self, kind: &str, reason: &str, message: &str) -> bool {
        self.set(kind, ConditionStatus::False, reason, message)
    }

    /// Sets the condition Unknown. Returns whether it changed.
    pub fn set_unknown(&mut self, kind: &str, reason: &str, message: &str) -> bool {
        self.set(kind, ConditionStatus::Unknown, reason, message)
    }

    /// Sets a condition and recomputes the root. Returns whether the condition changed.
    pub fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let changed = self.store(kind, status, reason, message);
        if kind != condition::READY {
            self.recompute_root();
        }
        self.sort();
        changed
    }

    /// Removes a condition that stands alone. Returns whether it was there.
    pub fn clear(&mut self, kind: &str) -> Result<bool, NotClearable> {
        if kind == condition::READY || self.dependents.is_some_and(|dependents| dependents.0.contains(&kind))
        {
            return Err(NotClearable { kind: kind.to_owned() });
        }
        let before = self.list.len();
        self.list.retain(|c| c.kind != kind);
        let removed = self.list.len() != before;
        self.changed |= removed;
        Ok(removed)
    }

    fn create(&mut self, kind: &str, since: Time) {
        if self.get(kind).is_some() {
            return;
        }
        self.list.push(Condition {
            kind: kind.to_owned(),
            status: ConditionStatus::Unknown,
            last_transition_time: since,
            reason: reason::AWAITING_RECONCILIATION.to_owned(),
            message: AWAITING_MESSAGE.to_owned(),
            observed_generation: Some(self.generation),
        });
        self.changed = true;
        self.sort();
    }

    fn restamp(&mut self) {
        for condition in self.list.iter_mut() {
            if condition.observed_generation != Some(self.generation) {
                condition.observed_generation = Some(self.generation);
                self.changed = true;
            }
        }
    }

    fn store(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let wanted = Condition {
            kind: kind.to_owned(),
            status,
            last_transition_time: match self.get(kind) {
                Some(present) if present.status == status => present.last_transition_time.clone(),
                _ => self.now.clone(),
            },
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(self.generation),
        };
        if self.get(kind) == Some(&wanted) {
            return false;
        }
        self.list.retain(|c| c.kind != kind);
        self.list.push(wanted);
        self.changed = true;
        true
    }

    /// The root is True when every dependent is True at the current generation, False when one is False at
    /// it, else Unknown.
    fn recompute_root(&mut self) {
        let Some(dependents) = self.dependents else { return };
        let generation = Some(self.generation);
        let mut unhealthy: Vec<&Condition> = dependents
            .0
            .iter()
            .filter_map(|kind| self.get(kind))
            .filter(|c| c.status != ConditionStatus::True || c.observed_generation != generation)
            .collect();
        // Conditions refused in the same second: what follows from the others is decided after them, and so is first.
        let decided = |one: &Condition| {
            let position = dependents.0.iter().position(|kind| one.kind == *kind).unwrap_or_default();
            if one.status == ConditionStatus::False { (0, Reverse(position)) } else { (1, Reverse(0)) }
        };
        unhealthy.sort_by(|a, b| {
            b.last_transition_time.cmp(&a.last_transition_time).then_with(|| decided(a).cmp(&decided(b)))
        });
        if unhealthy.is_empty() {
            self.store(condition::READY, ConditionStatus::True, condition::READY, "");
            return;
        }
        let refused = unhealthy
            .iter()
            .any(|c| c.status == ConditionStatus::False && c.observed_generation == generation);
        let message: Vec<String> =
            unhealthy.iter().map(|c| format!("{}={}", c.kind, c.status.as_str())).collect();
        let (status, reason) = if refused {
            (ConditionStatus::False, reason::UNHEALTHY_DEPENDENTS)
        } else {
            (ConditionStatus::Unknown, reason::RECONCILING_DEPENDENTS)
        };
        self.store(condition::READY, status, reason, &message.join(", "));
    }

    fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            let root = |c: &Condition| c.kind == condition::READY;
            root(a).cmp(&root(b)).then_with(|| a.last_transition_time.cmp(&b.last_transition_time))
        });
    }
}

/// The wire format has no fractions; dropping them here keeps memory and wire equal.
fn to_the_second(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
