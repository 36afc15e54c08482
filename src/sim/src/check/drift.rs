//! Drift needs a cause: a machine is said to have drifted only after what it is made from has changed, or to expire soon in
//! the second half of its time. And it ends: at rest no machine is left that its pool would make otherwise.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use karpenter_kube_sim::apiserver::object::{self, Key};
use karpenter_kube_sim::apiserver::store::{Change, ChangeKind};
use karpenter_model::names::{annotation, condition, reason};
use serde_json::Value;

use super::{Found, OUTDATED, Scene, pool_of};

/// Times of the last change to the inputs of machines, in seconds.
#[derive(Default)]
pub(super) struct Drift {
    /// Templates of pools, by name.
    templates: BTreeMap<String, u64>,
    /// A node class, or the images there are.
    classes: Option<u64>,
    born: BTreeMap<Key, u64>,
}

impl Drift {
    /// A pool changes.
    pub(super) fn pool(&mut self, change: &Change, now: u64) {
        if is_changed(change, "/spec/template") {
            self.templates.insert(object::name(&change.object).to_owned(), now);
        }
    }

    /// A node class changes.
    pub(super) fn class(&mut self, change: &Change, now: u64) {
        if is_changed(change, "/spec") {
            self.classes = Some(now);
        }
    }

    /// Other images are there.
    pub(super) fn images(&mut self, now: u64) {
        self.classes = Some(now);
    }

    /// A claim changes.
    pub(super) fn claim(&mut self, change: &Change, now: u64, found: &mut Found) {
        let key = Key::of(&change.object);
        match change.kind {
            ChangeKind::Added => drop(self.born.insert(key.clone(), now)),
            ChangeKind::Deleted => {
                self.born.remove(&key);
                return;
            }
            ChangeKind::Modified => {}
        }
        let drifted = |claim: &Value| object::condition(claim, condition::DRIFTED) == Some("True");
        if !drifted(&change.object) || change.previous.as_ref().is_some_and(|claim| drifted(claim)) {
            return;
        }
        let pool = pool_of(&change.object);
        let born = self.born.get(&key).copied().unwrap_or_default();
        let (is_said, is_so) = match object::condition_text(&change.object, condition::DRIFTED, "/reason")
            .unwrap_or_default()
        {
            reason::EXPIRES_SOON => {
                ("to expire soon, it is young", is_half_over(&change.object, now.saturating_sub(born)))
            }
            reason::REBALANCE_RECOMMENDED => {
                ("to be better left, no notice has recommended it", is_recommended_to_leave(&change.object))
            }
            // It may have been planned with an older template.
            _ => {
                let causes = [self.templates.get(pool).copied(), self.classes];
                let is_so = causes.iter().flatten().any(|at| at + OUTDATED >= born);
                ("to have drifted, nothing has changed", is_so)
            }
        };
        if !is_so {
            let what = format!("{} of pool {pool} is said {is_said}", key.name);
            found.push(("drift without cause", what));
        }
    }
}

/// Returns whether a claim that is `age` seconds old has lived half of its time.
fn is_half_over(claim: &Value, age: u64) -> bool {
    let time = object::text(claim, "/spec/expireAfter").parse::<SignedDuration>().ok();
    time.is_some_and(|time| SignedDuration::from_secs(age.cast_signed()) * 2 >= time)
}

/// Returns whether the claim carries a recommendation of the cloud to move off its machine.
fn is_recommended_to_leave(claim: &Value) -> bool {
    object::annotation(claim, annotation::REBALANCE_RECOMMENDED).is_some()
}

/// Returns whether a part of an object differs from before.
fn is_changed(change: &Change, part: &str) -> bool {
    change.previous.as_ref().is_some_and(|before| before.pointer(part) != change.object.pointer(part))
}

/// Returns whether a pool would make this claim with other labels today.
pub(super) fn is_outdated(scene: &Scene, claim: &Value) -> bool {
    let Some(pool) = scene.pools.get(&Key::new("", pool_of(claim))) else { return false };
    let wanted = pool.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    wanted.into_iter().flatten().any(|(key, value)| object::label(claim, key) != value.as_str())
}
