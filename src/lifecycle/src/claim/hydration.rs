//! Hydration: objects made by older versions get the node class label they lack (spec disruption 1.7).

use karpenter_model::{Claim, NodeObject};

use crate::step::{Effect, NodePatch, Step};

/// Adds the node class label to a claim.
pub fn claim(claim: &Claim) -> Step {
    let key = claim.node_class.label_key();
    if claim.labels.contains_key(&key) {
        return Step::idle();
    }
    Step::of([Effect::LabelClaim(key, claim.node_class.name.as_str().into())])
}

/// Adds the node class label to the Node of a claim.
pub fn node(node: &NodeObject, claim: &Claim) -> Step {
    let key = claim.node_class.label_key();
    if node.labels.contains_key(&key) {
        return Step::idle();
    }
    let mut patch = NodePatch::of(&node.name);
    patch.labels.insert(key, claim.node_class.name.as_str().into());
    Step::of([Effect::PatchNode(patch)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn adds_a_missing_label_and_keeps_a_present_one() {
        let bare = fixture::claim();
        let key = bare.node_class.label_key();
        assert_eq!(super::claim(&bare), Step::of([Effect::LabelClaim(key.clone(), "default".into())]));
        let mut labelled = bare.clone();
        labelled.labels.insert(key.clone(), "other".into());
        assert_eq!(super::claim(&labelled), Step::idle());

        let mut object = fixture::node();
        object.labels.clear();
        let step = node(&object, &bare);
        assert!(matches!(&step.effects[..], [Effect::PatchNode(patch)] if patch.labels.contains_key(&key)));
        object.labels.insert(key, "default".into());
        assert_eq!(node(&object, &bare), Step::idle());
    }
}
