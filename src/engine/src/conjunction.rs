//! Several statements about a node at once.

use karpenter_model::{Requirement, Requirements};

/// All of `stated` at once; `None` when they contradict each other. An intersection that came out empty would
/// read as `DoesNotExist`, which nodes without the label satisfy, so it must not be mistaken for one.
pub(crate) fn conjunction(stated: &[Requirement]) -> Option<Requirements> {
    let merged: Requirements = stated.iter().cloned().collect();
    let needs_value = |key: &str| {
        stated.iter().any(|requirement| requirement.key() == key && !requirement.accepts_absence())
    };
    let contradiction =
        merged.iter().any(|requirement| requirement.is_empty() && needs_value(requirement.key().as_str()));
    (!contradiction).then_some(merged)
}
