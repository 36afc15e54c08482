//! Entry of a claim's pass: the steps that apply to the claim in its present state (spec disruption 1.2).
//!
//! Nothing happens to a claim before its finalizer is stored: a machine launched for a claim that could vanish
//! would have no owner.

use karpenter_model::names::finalizer;
use karpenter_model::{Claim, NodeClassRef};

use crate::step::{Effect, Step};

/// Steps that apply to a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// The claim is being deleted: [`crate::claim::finalize`].
    Finalize,
    /// The claim lacks the finalizer: the step adds it, and the watch brings the claim back.
    Prepare(Step),
    /// All of [`crate::claim::launch`], [`crate::claim::registration`], [`crate::claim::initialization`] and
    /// [`crate::claim::liveness`].
    Live,
}

/// Returns the steps that apply to a claim; `None` for a claim of another provider, which is left alone. `owned` returns whether
/// a node class is one of the provider's kinds.
pub fn way(claim: &Claim, owned: impl Fn(&NodeClassRef) -> bool) -> Option<Entry> {
    if !owned(&claim.node_class) {
        return None;
    }
    // Before the finalizer is looked at: the API server refuses a new one on an object that is being deleted.
    if claim.deletion.is_some() {
        return Some(Entry::Finalize);
    }
    if claim.finalizers.iter().any(|name| name == finalizer::TERMINATION) {
        return Some(Entry::Live);
    }
    Some(Entry::Prepare(Step::of([Effect::AddFinalizer])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{at, claim};

    #[test]
    fn foreign_claims_are_ignored_in_every_state() {
        let foreign = |_: &NodeClassRef| false;
        assert_eq!(way(&claim(), foreign), None);
        assert_eq!(way(&Claim { finalizers: Vec::new(), ..claim() }, foreign), None);
        assert_eq!(way(&Claim { deletion: Some(at(1)), ..claim() }, foreign), None);
    }

    #[test]
    fn the_finalizer_comes_first_and_never_on_a_deleted_claim() {
        let ours = |_: &NodeClassRef| true;
        let bare = Claim { finalizers: Vec::new(), ..claim() };
        assert_eq!(way(&bare, ours), Some(Entry::Prepare(Step::of([Effect::AddFinalizer]))));
        assert_eq!(way(&Claim { deletion: Some(at(1)), ..bare }, ours), Some(Entry::Finalize));
        assert_eq!(way(&claim(), ours), Some(Entry::Live));
    }
}
