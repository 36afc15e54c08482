//! Starting points of the tests in this crate.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::names::{finalizer, label};
use karpenter_model::{
    Claim, Condition, ConditionStatus, ConditionType, Labels, NodeClassRef, NodeCondition, NodeObject, Pool,
};

/// Seconds after an arbitrary epoch.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

/// A claim of pool `web` created at 0, with the finalizer and nothing else.
pub(crate) fn claim() -> Claim {
    Claim {
        pool: Some("web".into()),
        node_class: NodeClassRef {
            group: "karpenter.k8s.aws".into(),
            kind: "EC2NodeClass".into(),
            name: "default".into(),
        },
        labels: Labels::from([(label::NODE_POOL.into(), "web".into())]),
        finalizers: vec![finalizer::TERMINATION.to_owned()],
        provider_id: Some("cloud:///i-1".into()),
        ..Claim::bare("web-1", at(0))
    }
}

/// The claim with one condition, last changed at this second.
pub(crate) fn with_condition(
    mut claim: Claim,
    kind: ConditionType,
    status: ConditionStatus,
    since: i64,
) -> Claim {
    claim.conditions.insert(kind, Condition::since(at(since), status, kind.as_str()));
    claim
}

/// The claim with these conditions true since its creation.
pub(crate) fn holding(claim: Claim, kinds: &[ConditionType]) -> Claim {
    claim.holding(kinds, at(0))
}

/// The Node of [`claim`], ready and managed, created at 0.
pub(crate) fn node() -> NodeObject {
    let mut node = NodeObject::bare("node-1", at(0));
    node.provider_id = Some("cloud:///i-1".into());
    node.finalizers = vec![finalizer::TERMINATION.to_owned()];
    node.labels = Labels::from([("karpenter.k8s.aws/ec2nodeclass".into(), "default".into())]);
    ready(node, true)
}

/// The Node with its Ready condition set.
pub(crate) fn ready(mut node: NodeObject, ready: bool) -> NodeObject {
    let status = if ready { ConditionStatus::True } else { ConditionStatus::False };
    let condition = NodeCondition { status, reason: String::new(), last_transition: at(0) };
    Arc::make_mut(&mut node.conditions).insert("Ready".to_owned(), condition);
    node
}

/// A dynamic pool named `web`.
pub(crate) fn pool() -> Pool {
    Pool { hash: "1".to_owned(), ..Pool::bare("web") }
}
