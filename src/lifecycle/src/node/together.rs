//! Nodes of one plan that take pods together (setting `ready-together`).
//!
//! The scheduler fills the first node that is ready with any pods that wait, also with those that the plan has on nodes which
//! are not ready yet. Pods that name their node keep its room, but of pods that spread few can be named at a time
//! ([`crate::pods::nomination`]). So claims of one plan may have a startup taint, with the plan as its value. It is taken off
//! once nothing else keeps pods off any of their nodes, or once the node has waited for the others as long as it may.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::clock::since;
use karpenter_model::names::condition;
use karpenter_model::taint::Effect as TaintEffect;
use karpenter_model::{Claim, NodeObject, Taint};

use crate::step::{Effect, NodePatch, Step, Wake};

/// Key of the startup taint.
const KEY: &str = "karpenter.sh/waits-for-plan";

/// The startup taint of nodes whose plan was made at `planned`.
pub fn taint(planned: Timestamp) -> Taint {
    Taint::new(KEY, &planned.as_millisecond().to_string(), TaintEffect::NoSchedule)
}

/// Returns the startup taint of `claim`, which the claims of its plan share.
pub fn of(claim: &Claim) -> Option<&Taint> {
    claim.startup_taints.iter().find(|taint| taint.key == KEY)
}

/// Returns the taint if `node`, the Node of `claim`, waits for the others of its plan and for nothing else.
pub fn waits<'a>(claim: &'a Claim, node: &NodeObject) -> Option<&'a Taint> {
    let has = |taint: &&Taint| node.taints.iter().any(|one| one.matches(taint));
    of(claim).filter(has).filter(|_| is_up(claim, node))
}

/// Takes the taint off `node`, the Node of `claim`, if all Nodes of its plan are [up](is_up), or if it has waited `longest` for
/// them.
pub fn step(claim: &Claim, node: &NodeObject, all_up: bool, longest: Duration, now: Timestamp) -> Step {
    let Some(taint) = waits(claim, node) else { return Step::idle() };
    let ready = node.conditions.get(condition::READY).map_or(node.created_at, |ready| ready.last_transition);
    let left = longest.saturating_sub(since(ready, now));
    if !all_up && !left.is_zero() {
        return Step { wake: Wake::After(left), ..Step::idle() };
    }
    let patch = NodePatch { remove_taints: vec![taint.clone()], ..NodePatch::of(&node.name) };
    Step::of([Effect::PatchNode(patch)])
}

/// Returns whether `node`, the Node of `claim`, takes pods but for the taint: it is ready, and has no other taint of its
/// start.
pub fn is_up(claim: &Claim, node: &NodeObject) -> bool {
    let starts = |taint: &Taint| {
        taint.is_ephemeral() || claim.startup_taints.iter().any(|own| own.key != KEY && own.matches(taint))
    };
    node.is_ready() && !node.taints.iter().any(starts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim, node, ready};

    const LONGEST: Duration = Duration::from_secs(5);

    /// A claim and its Node, ready at 0, with the taint of a plan and these taints.
    fn held(others: &[Taint]) -> (Claim, NodeObject) {
        let startup_taints: Vec<Taint> = others.iter().cloned().chain([taint(at(0))]).collect();
        let node = NodeObject { taints: startup_taints.clone(), ..node() };
        (Claim { startup_taints, ..claim() }, node)
    }

    #[test]
    fn the_taint_goes_when_all_are_up_or_the_node_has_waited() {
        let (claim, node) = held(&[]);
        let patch = NodePatch { remove_taints: vec![taint(at(0))], ..NodePatch::of(&node.name) };
        let released = Step::of([Effect::PatchNode(patch)]);
        assert_eq!(step(&claim, &node, true, LONGEST, at(1)), released);
        let waits = step(&claim, &node, false, LONGEST, at(1));
        assert_eq!(waits, Step { wake: Wake::After(Duration::from_secs(4)), ..Step::idle() });
        assert_eq!(step(&claim, &node, false, LONGEST, at(5)), released);
    }

    #[test]
    fn a_node_that_takes_no_pods_yet_keeps_it() {
        let agent = Taint::new("agent", "", TaintEffect::NoSchedule);
        let (with_agent, tainted) = held(&[agent]);
        let (claim, node) = held(&[]);
        for (claim, node) in [(&with_agent, tainted), (&claim, ready(node.clone(), false))] {
            assert!(!is_up(claim, &node));
            assert_eq!(step(claim, &node, true, LONGEST, at(9)), Step::idle());
        }
        let done = NodeObject { taints: Vec::new(), ..node };
        assert_eq!(step(&claim, &done, true, LONGEST, at(9)), Step::idle());
    }
}
