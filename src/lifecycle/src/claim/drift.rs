//! Drift: the machine is no longer what its pool, its node class or the cloud would make today (spec disruption 4.1).
//!
//! Four questions in a fixed order; the first "yes" is the reason. What cannot be known (no pool, no list of
//! instance types, a provider that failed) is never drift.
//!
//! Two more are ours and off by default: whether the machine expires soon, and whether the cloud has recommended to move
//! off it. Expiry and the end of a spot machine heed no budget and wait for no replacement; drift does both, so a machine
//! that drifts some time before is gone by then, unless a budget or a pod holds it.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::{annotation, label, reason};
use karpenter_model::{
    Annotations, CapacityType, Claim, ConditionType, DisruptionSettings, InstanceType, LabelRegistry, Pool,
    Requirement, Requirements, Undefined,
};

use crate::claim::expiration;
use crate::step::{Change, Step, Wake};

/// Period between looks for drift without an event.
pub const PERIOD: Duration = Duration::from_mins(5);
/// Claims younger than this are not asked whether their instance type still exists.
pub(crate) const TYPE_CHECK_AGE: Duration = Duration::from_hours(1);
/// Time for which an instance type that was found is not looked for again.
pub(crate) const TYPE_CHECK_PERIOD: Duration = Duration::from_mins(30);

/// Facts that drift is judged by, besides the claim.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The claim's pool.
    pub pool: &'a Pool,
    /// The pool's annotations, for its stored hash.
    pub pool_annotations: &'a Annotations,
    /// The pool's instance types, unless they could not be listed.
    pub instance_types: Option<&'a [std::sync::Arc<InstanceType>]>,
    /// Facts about label keys.
    pub registry: &'a LabelRegistry,
    /// Time at which this process last found the claim's instance type.
    pub type_found: Option<Timestamp>,
    /// Settings for drift of machines that would otherwise go without a replacement.
    pub settings: &'a DisruptionSettings,
    /// The instant of the pass.
    pub now: Timestamp,
}

/// Result of the checks that need no provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// Nothing to judge: the claim has no machine yet, and a condition it may carry goes.
    NotLaunched,
    /// The claim drifted, for this reason.
    Drifted(&'static str),
    /// The claim has not drifted, as far as pool and instance types show; the provider decides last.
    AskProvider {
        /// The instance type was looked for and found: the answer may be kept for [`TYPE_CHECK_PERIOD`].
        type_found: bool,
    },
}

/// The provider's last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider<'a> {
    /// The provider sees no difference, or no machine at all.
    Same,
    /// The claim drifted, for this reason.
    Drifted(&'a str),
    /// The provider had no answer; the condition stays as it is.
    Failed,
}

/// Returns whether the claim's instance type is to be looked for now, so that the list of types is worth asking for.
pub fn asks_types(claim: &Claim, type_found: Option<Timestamp>, now: Timestamp) -> bool {
    claim.is_true(ConditionType::Launched)
        && since(claim.created_at, now) > TYPE_CHECK_AGE
        && type_found.is_none_or(|found| since(found, now) >= TYPE_CHECK_PERIOD)
}

/// Judges a claim by its pool and the instance types.
pub fn local(claim: &Claim, facts: Facts<'_>) -> Local {
    if !claim.is_true(ConditionType::Launched) {
        return Local::NotLaunched;
    }
    if template_changed(claim, facts.pool_annotations) {
        return Local::Drifted(reason::NODE_POOL_DRIFTED);
    }
    let labels = Requirements::from_labels(facts.registry, &claim.labels);
    // Not even a well-known label may be missing: one that the pool requires and the claim lacks was not
    // required when the claim was made (spec disruption 4.1).
    if labels.compatible(&facts.pool.template.requirements, Undefined::Nothing).is_err() {
        return Local::Drifted(reason::REQUIREMENTS_DRIFTED);
    }
    if expires_soon(claim, facts.settings.expiry_lead, facts.now) {
        return Local::Drifted(reason::EXPIRES_SOON);
    }
    if facts.settings.on_rebalance && claim.annotations.contains_key(annotation::REBALANCE_RECOMMENDED) {
        return Local::Drifted(reason::REBALANCE_RECOMMENDED);
    }
    let due = asks_types(claim, facts.type_found, facts.now);
    // An empty list is missing data, not a list without this type.
    let Some(types) = facts.instance_types.filter(|types| due && !types.is_empty()) else {
        return Local::AskProvider { type_found: false };
    };
    if sold(claim, labels, types, facts.registry) {
        Local::AskProvider { type_found: true }
    } else {
        Local::Drifted(reason::INSTANCE_TYPE_NOT_FOUND)
    }
}

/// Writes a judgement into the `Drifted` condition.
pub fn step(claim: &Claim, local: Local, provider: Provider<'_>) -> Step {
    let kind = ConditionType::Drifted;
    let removed = || claim.conditions.contains_key(&kind).then(|| Change::removed(kind));
    let drifted = |reason: &str| Some(Change::drifted(reason));
    let change = match (local, provider) {
        (Local::Drifted(reason), _) | (Local::AskProvider { .. }, Provider::Drifted(reason)) => {
            drifted(reason)
        }
        (Local::NotLaunched, _) | (Local::AskProvider { .. }, Provider::Same) => removed(),
        // Missing data is no decision in either direction: the condition and its time stay.
        (Local::AskProvider { .. }, Provider::Failed) => return Step::idle().and_wake(Wake::Backoff),
    };
    Step::idle().and_condition(change).and_wake(Wake::After(PERIOD))
}

/// Both sides carry hash and version, the versions agree and the hashes do not.
fn template_changed(claim: &Claim, pool: &Annotations) -> bool {
    let both = |key: &str| claim.annotations.get(key).zip(pool.get(key));
    match (both(annotation::POOL_HASH), both(annotation::POOL_HASH_VERSION)) {
        (Some((own, current)), Some((own_version, version))) => own_version == version && own != current,
        // Two versions are two algorithms, whose hashes of one template differ; the claim is compared once it
        // is stamped with the version of the pool (spec disruption 1.7).
        _ => false,
    }
}

/// The claim expires within `lead`, of which no more than half of its time counts: a machine that drifts when it is made
/// would be replaced for ever.
fn expires_soon(claim: &Claim, lead: Duration, now: Timestamp) -> bool {
    claim.expire_after.zip(expiration::left(claim, now)).is_some_and(|(time, left)| {
        let lead = lead.min(time / 2);
        !lead.is_zero() && left <= lead
    })
}

/// The claim's type exists and some offering of it, available or not, carries the claim's labels. A reserved machine
/// may also have fallen back to on-demand, whatever its reservation was.
fn sold(
    claim: &Claim,
    mut labels: Requirements,
    types: &[std::sync::Arc<InstanceType>],
    registry: &LabelRegistry,
) -> bool {
    if claim.capacity_type() == Some(CapacityType::Reserved) {
        let fallback = [CapacityType::Reserved, CapacityType::OnDemand].map(|one| one.as_str().into());
        labels.replace(Requirement::one_of(label::CAPACITY_TYPE.into(), fallback));
        for key in registry.reserved_labels.iter().chain(&registry.reservation_id) {
            labels.remove(key.as_str());
        }
    }
    // A launched claim without the label has a type that is not sold, as in the reference (spec disruption
    // 4.1.3).
    let Some(name) = claim.instance_type() else { return false };
    types.iter().filter(|one| one.name == name).any(|one| {
        one.offerings.iter().any(|offering| {
            let mut offered = offering.requirements.clone();
            for key in registry.reserved_labels.iter().chain(&registry.reservation_id) {
                // The claim does not ask for a reservation, so that of the offering must not be a label that
                // the claim lacks.
                if !labels.contains(key.as_str()) {
                    offered.remove(key.as_str());
                }
            }
            labels.compatible(&offered, Undefined::WellKnown(registry)).is_ok()
        })
    })
}

#[cfg(test)]
mod tests;
