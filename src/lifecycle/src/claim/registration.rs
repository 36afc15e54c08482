//! Registration: finding the Node of a launched claim and making it ours (spec disruption 1.4).
//!
//! Runs while `Registered` is unknown, and only then are labels, annotations and taints copied: later changes of
//! the claim are not propagated. The unregistered taint keeps pods away until everything is in place, and is
//! removed last. A registered claim whose Node has that taint again has a Node that joined again; it is
//! copied once more.

use std::time::Duration;

use karpenter_model::names::{finalizer, label, reason};
use karpenter_model::{Claim, ConditionStatus, ConditionType, Labels, NodeObject, Taint};

use crate::step::{About, Change, Effect, Event, Milestone, NodePatch, RegistrationOutcome, Step, Wake};

/// Answer of one registration hook of the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name, shown while it holds registration up.
    pub name: String,
    pub state: HookState,
    /// Labels the provider has learnt since the launch, for claim and Node.
    pub labels: Labels,
}

/// The answer of a registration hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookState {
    /// Nothing to wait for.
    Ready,
    /// Not yet; ask again after this long, if given.
    Pending(Option<Duration>),
    /// The hook failed.
    Failed,
}

/// Returns whether the provider's hooks have to be run before [`step`]: the claim waits for registration and has its Node.
pub fn asks_hooks(claim: &Claim, nodes: &[&NodeObject]) -> bool {
    let decided = claim.status(ConditionType::Registered).is_some_and(|it| it != ConditionStatus::Unknown);
    !decided && nodes.len() == 1
}

/// Brings one claim closer to being registered. `nodes` are all Nodes with the claim's provider id; `hooks` are the
/// answers of all hooks of the provider, those that wait included.
pub fn step(claim: &Claim, nodes: &[&NodeObject], hooks: &[Hook]) -> Step {
    let learnt: Labels = hooks.iter().flat_map(|hook| hook.labels.clone()).collect();
    if learnt.is_empty() {
        return joined(claim, nodes, hooks);
    }
    let labelled = differing(&learnt, &claim.labels);
    let labelled = labelled.into_iter().map(|(key, value)| Effect::LabelClaim(key, value));
    let mut claim = claim.clone();
    claim.labels.extend(learnt);
    Step::of(labelled).then(joined(&claim, nodes, hooks))
}

fn joined(claim: &Claim, nodes: &[&NodeObject], hooks: &[Hook]) -> Step {
    let kind = ConditionType::Registered;
    match claim.status(kind) {
        Some(ConditionStatus::True) => {
            return Step::of(rejoined(claim, nodes)).and_condition(Change::restamp(claim, kind));
        }
        Some(ConditionStatus::False) => return Step::idle().and_condition(Change::restamp(claim, kind)),
        Some(ConditionStatus::Unknown) | None => {}
    }
    let node = match nodes {
        [] => {
            return Step::idle().and_condition(Change::unknown(
                kind,
                reason::NODE_NOT_FOUND,
                "Node not registered with cluster",
            ));
        }
        [node] => *node,
        _ => {
            // Final: neither Node can be trusted to be this instance, so liveness ends the claim.
            return Step::idle().and_condition(Change::fails(
                kind,
                reason::MULTIPLE_NODES_FOUND,
                "Invariant violated, matched multiple nodes",
            ));
        }
    };
    let warning = missing_taint(claim, node).map(Effect::Event);
    let waiting: Vec<&Hook> = hooks.iter().filter(|hook| hook.state != HookState::Ready).collect();
    let step = if waiting.is_empty() { registered(claim, node) } else { held_up(claim, node, &waiting) };
    Step::of(warning).then(step)
}

/// Adopts the Node again when its object was deleted by another client and the kubelet has joined again: its
/// taint would keep pods away for ever.
fn rejoined(claim: &Claim, nodes: &[&NodeObject]) -> Option<Effect> {
    let [node] = nodes else { return None };
    let tainted = node.taints.iter().any(|taint| taint.matches(&Taint::unregistered()));
    if !tainted || node.deletion.is_some() {
        return None;
    }
    let mut patch = ours(claim, node);
    // Initialization is not repeated, so nothing else would set the label that went with the old object.
    if claim.is_true(ConditionType::Initialized) {
        patch.labels.insert(label::INITIALIZED.into(), "true".into());
    }
    Some(Effect::PatchNode(patch))
}

/// Changes that adopt a Node.
fn ours(claim: &Claim, node: &NodeObject) -> NodePatch {
    let mut patch = synced(claim, node);
    patch.remove_taints = vec![Taint::unregistered()];
    // A pool may list this taint among its own; copied with them it would come back as it is taken off.
    patch.add_taints.retain(|taint| !taint.matches(&Taint::unregistered()));
    patch.labels.insert(label::REGISTERED.into(), "true".into());
    patch
}

fn registered(claim: &Claim, node: &NodeObject) -> Step {
    Step::of([
        // Before the taint goes: from then on the scheduler gives the room to the pod that comes first.
        Effect::Nominate(node.name.clone()),
        Effect::PatchNode(ours(claim, node)),
        Effect::RecordNode(node.name.clone()),
        Effect::RegistrationHealth(RegistrationOutcome::Success),
        Effect::Milestone(Milestone::Registered(node.name.clone())),
    ])
    .and_condition(Change::holds(ConditionType::Registered))
}

fn held_up(claim: &Claim, node: &NodeObject, waiting: &[&Hook]) -> Step {
    let names: Vec<&str> = waiting.iter().map(|hook| hook.name.as_str()).collect();
    // Everything but the removal of the taint: it alone keeps pods away while a hook waits.
    let patch = synced(claim, node);
    let effect = (!patch.is_empty()).then_some(Effect::PatchNode(patch));
    let wake = waiting.iter().fold(Wake::OnEvent, |wake, hook| {
        wake.sooner(match hook.state {
            HookState::Ready | HookState::Pending(None) => Wake::OnEvent,
            HookState::Pending(Some(after)) => Wake::After(after),
            HookState::Failed => Wake::Backoff,
        })
    });
    Step::of(effect)
        .and_condition(Change::unknown(
            ConditionType::Registered,
            reason::REGISTRATION_HOOK_PENDING,
            names.join(", "),
        ))
        .and_wake(wake)
}

/// The warning about a Node that could have taken pods before it was registered.
fn missing_taint(claim: &Claim, node: &NodeObject) -> Option<Event> {
    let tainted = node.taints.iter().any(|taint| taint.matches(&Taint::unregistered()));
    if tainted || node.labels.contains_key(label::REGISTERED) {
        return None;
    }
    Some(Event::new(
        About::Claim(claim.name.clone()),
        reason::UNREGISTERED_TAINT_MISSING,
        format!(
            "Missing {} taint which prevents registration-related race conditions on Karpenter-managed nodes",
            Taint::unregistered()
        ),
    ))
}

/// Fields of the claim that the Node still lacks: finalizer, owner, labels, annotations and, unless the Node opts out,
/// taints. The claim wins where both have a value; nothing is removed.
fn synced(claim: &Claim, node: &NodeObject) -> NodePatch {
    let mut patch = NodePatch::of(&node.name);
    patch.add_finalizer = !node.finalizers.iter().any(|name| name == finalizer::TERMINATION);
    patch.add_owner = (!node.owners.contains(&claim.uid)).then(|| (claim.name.clone(), claim.uid.clone()));
    patch.labels = differing(&claim.labels, &node.labels);
    patch.annotations = differing(&claim.annotations, &node.annotations);
    if !node.has_true_label(label::DO_NOT_SYNC_TAINTS) {
        for taint in claim.taints.iter().chain(&claim.startup_taints) {
            let known = node.taints.iter().chain(&patch.add_taints).any(|one| one.matches(taint));
            if !known {
                patch.add_taints.push(taint.clone());
            }
        }
    }
    patch
}

fn differing<K: Ord + Clone, V: PartialEq + Clone>(
    wanted: &std::collections::BTreeMap<K, V>,
    present: &std::collections::BTreeMap<K, V>,
) -> std::collections::BTreeMap<K, V> {
    wanted
        .iter()
        .filter(|(key, value)| present.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
