//! The `NodeClassReady` condition of a pool (spec disruption 1.14).

use karpenter_model::ConditionStatus;
use karpenter_model::names::{condition, reason};

use crate::step::ConditionValue;

/// State of a pool's node class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeClass {
    /// There is none of that name.
    Missing,
    /// The node class is being deleted.
    Terminating,
    /// The node class exists and this is its Ready condition, if it has one.
    Present(Option<ConditionValue>),
}

/// Value of the pool's condition.
pub fn verdict(class: NodeClass) -> ConditionValue {
    let fails = |reason: &str, message: &str| ConditionValue {
        status: ConditionStatus::False,
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match class {
        NodeClass::Missing => fails(reason::NODE_CLASS_NOT_FOUND, "NodeClass not found on cluster"),
        NodeClass::Terminating => fails(reason::NODE_CLASS_TERMINATING, "NodeClass is Terminating"),
        NodeClass::Present(None) => {
            fails(reason::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown")
        }
        NodeClass::Present(Some(ready)) => match ready.status {
            ConditionStatus::Unknown => {
                fails(reason::NODE_CLASS_READINESS_UNKNOWN, "Node Class Readiness Unknown")
            }
            // Reason and message of the class name what is to be corrected.
            ConditionStatus::False => ready,
            ConditionStatus::True => ConditionValue {
                status: ConditionStatus::True,
                reason: condition::NODE_CLASS_READY.to_owned(),
                message: String::new(),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_class() {
        use ConditionStatus::{False, True, Unknown};
        let class = |status, reason: &str| {
            NodeClass::Present(Some(ConditionValue {
                status,
                reason: reason.to_owned(),
                message: "m".to_owned(),
            }))
        };
        let table = [
            (NodeClass::Missing, False, "NodeClassNotFound"),
            (NodeClass::Terminating, False, "NodeClassTerminating"),
            (NodeClass::Present(None), False, "NodeClassReadinessUnknown"),
            (class(Unknown, "AwaitingReconciliation"), False, "NodeClassReadinessUnknown"),
            (class(False, "SubnetsNotFound"), False, "SubnetsNotFound"),
            (class(True, "Ready"), True, "NodeClassReady"),
        ];
        for (class, status, reason) in table {
            let verdict = verdict(class.clone());
            assert_eq!((verdict.status, verdict.reason.as_str()), (status, reason), "{class:?}");
        }
    }
}
