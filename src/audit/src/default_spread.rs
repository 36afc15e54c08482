//! The spread that the scheduler gives to pods without constraints of their own (core #3205), derived again: a plan has to keep
//! it like one that pods state. Pods that stay where they are keep theirs, because only pods that get a place are checked.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::label::selector::{LabelSelector, SelectorExpression, SelectorOperator};
use karpenter_model::snapshot::OwnedBy;
use karpenter_model::{
    LabelKey, LabelValue, Labels, Namespace, Node, NodeId, OwnerUid, Plan, Pod, Snapshot, SpreadConstraint,
    WhenUnsatisfiable,
};

/// `snapshot` with the hard default constraints on the pods that `plan` may place: those that wait and those of nodes that go.
/// Soft ones are not checked.
pub(crate) fn given<'s>(snapshot: &'s Snapshot, plan: &Plan) -> Cow<'s, Snapshot> {
    let hard = snapshot.settings.default_spread.iter();
    if hard.filter(|one| one.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule).count() == 0 {
        return Cow::Borrowed(snapshot);
    }
    let goes: BTreeSet<&NodeId> = plan.commands.iter().flat_map(karpenter_model::Command::nodes).collect();
    let mut groups = Groups { snapshot, known: BTreeMap::new() };
    let pending = snapshot.pending.iter().map(|pod| groups.with_default(pod)).collect();
    let nodes = snapshot.nodes.iter().map(|node| {
        if !node.is_leaving() && !goes.contains(&node.id) {
            return Arc::clone(node);
        }
        let pods = node.pods.iter().map(|pod| groups.with_default(pod)).collect();
        Arc::new(Node { pods, ..Node::clone(node) })
    });
    let nodes = nodes.collect();
    Cow::Owned(Snapshot { pending, nodes, ..snapshot.clone() })
}

/// Properties of a pod that decide what selects it.
type Question<'s> = (&'s Namespace, &'s Labels, Option<&'s OwnerUid>);

/// Selectors of pods, each found once.
struct Groups<'s> {
    snapshot: &'s Snapshot,
    known: BTreeMap<Question<'s>, Option<LabelSelector>>,
}

impl<'s> Groups<'s> {
    fn with_default(&mut self, pod: &'s Arc<Pod>) -> Arc<Pod> {
        if !pod.spread.is_empty() {
            return Arc::clone(pod);
        }
        let question = (&pod.key.namespace, &pod.labels, pod.owner_uid.as_ref());
        let snapshot = self.snapshot;
        let selector = self.known.entry(question).or_insert_with(|| selector(snapshot, question));
        let Some(selector) = selector else { return Arc::clone(pod) };
        let mut given = Pod::clone(pod);
        for default in &snapshot.settings.default_spread {
            given.spread.push(SpreadConstraint {
                selector: Some(selector.clone()),
                topology_key: default.topology_key.clone(),
                max_skew: default.max_skew,
                min_domains: default.min_domains,
                when_unsatisfiable: default.when_unsatisfiable,
                node_affinity_policy: default.node_affinity_policy,
                node_taints_policy: default.node_taints_policy,
                match_label_keys: Vec::new(),
            });
        }
        Arc::new(given)
    }
}

/// One map of labels, into which the Services that match write in the order of their names, and a `ReplicationController` last; and
/// the requirements of a `ReplicaSet` or `StatefulSet`. Nothing of all that: nothing selects the pod.
fn selector(snapshot: &Snapshot, (namespace, labels, owner): Question<'_>) -> Option<LabelSelector> {
    let known = &snapshot.selections;
    let mut named: Vec<&str> =
        known.services().filter(|(of, _)| *of == namespace).map(|(_, name)| name).collect();
    named.sort_unstable();
    let mut map: BTreeMap<&LabelKey, &LabelValue> = BTreeMap::new();
    for service in named.into_iter().filter_map(|name| known.service(namespace, name)) {
        if service.iter().all(|(key, value)| labels.get(key) == Some(value)) {
            map.extend(service);
        }
    }
    let mut required: Vec<SelectorExpression> = Vec::new();
    match owner.and_then(|owner| known.owner(owner)) {
        Some(OwnedBy::Labels(own)) => map.extend(own),
        Some(OwnedBy::Selector(own)) => required.extend(own.expressions.iter().cloned()),
        None => {}
    }
    required.extend(map.into_iter().map(|(key, value)| SelectorExpression {
        key: key.clone(),
        operator: SelectorOperator::In,
        values: [value.clone()].into(),
    }));
    (!required.is_empty()).then(|| LabelSelector { expressions: required.into_iter().collect() })
}
