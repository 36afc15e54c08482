//! The merged views at every stage of a machine.

use super::*;
use crate::taint::Effect;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn resources(entries: &[(&str, &str)]) -> Resources {
    entries.iter().map(|(name, text)| ((*name).into(), text.parse().unwrap())).collect()
}

fn claim() -> Claim {
    Claim {
        pool: Some("web".into()),
        labels: [(label::NODE_POOL.into(), "web".into()), (label::ZONE.into(), "a".into())].into(),
        taints: vec![Taint::new("team", "a", Effect::NoSchedule)],
        startup_taints: vec![Taint::new("cilium", "", Effect::NoExecute)],
        provider_id: Some("aws:///a/i-1".into()),
        capacity: resources(&[("cpu", "4"), ("nvidia.com/gpu", "2")]),
        allocatable: resources(&[("cpu", "3900m"), ("nvidia.com/gpu", "2")]),
        ..Claim::bare("web-abc", at(0))
    }
}

/// A machine whose Node carries `labels`.
fn machine(labels: &[&str]) -> Node {
    Node {
        name: Some("node-1".into()),
        claim: Some(Arc::new(claim())),
        labels: labels.iter().map(|key| ((*key).into(), "true".into())).collect(),
        taints: vec![
            Taint::new("node.kubernetes.io/not-ready", "", Effect::NoExecute),
            Taint::new("cilium", "x", Effect::NoExecute),
            Taint::new("own", "", Effect::NoSchedule),
        ],
        capacity: resources(&[("cpu", "8"), ("nvidia.com/gpu", "0")]),
        allocatable: resources(&[("cpu", "7"), ("nvidia.com/gpu", "0")]),
        ..Node::new("aws:///a/i-1".into(), at(0))
    }
}

fn taints(node: &Node) -> Vec<String> {
    node.effective_taints().iter().map(ToString::to_string).collect()
}

#[test]
fn the_claim_speaks_until_the_node_is_registered() {
    let joining = machine(&[]);
    assert_eq!(joining.display_name(), "web-abc");
    assert_eq!(joining.zone(), Some("a".into()));
    assert_eq!(taints(&joining), ["team=a:NoSchedule"]);
    let registered = machine(&[label::REGISTERED]);
    assert_eq!(registered.display_name(), "node-1");
    assert_eq!(registered.zone(), None);
    let launched = Node { name: None, ..machine(&[label::REGISTERED]) };
    assert!(!launched.registered(), "without a Node nothing is registered");
    assert_eq!(launched.display_name(), "web-abc");
}

#[test]
fn startup_and_ephemeral_taints_count_once_initialized() {
    assert_eq!(taints(&machine(&[label::REGISTERED])), ["own:NoSchedule"]);
    assert_eq!(
        taints(&machine(&[label::REGISTERED, label::INITIALIZED])),
        ["node.kubernetes.io/not-ready:NoExecute", "cilium=x:NoExecute", "own:NoSchedule"]
    );
    let unmanaged = Node { claim: None, ..machine(&[]) };
    assert_eq!(taints(&unmanaged).len(), 3, "taints of unmanaged nodes always count");
}

#[test]
fn zero_and_missing_amounts_come_from_the_claim_until_initialized() {
    let starting = machine(&[label::REGISTERED]);
    assert_eq!(
        starting.effective_capacity(),
        resources(&[("cpu", "8"), ("nvidia.com/gpu", "2"), ("nodes", "1")])
    );
    let initialized = machine(&[label::REGISTERED, label::INITIALIZED]);
    assert_eq!(initialized.effective_allocatable(), resources(&[("cpu", "7"), ("nvidia.com/gpu", "0")]));
}

#[test]
fn a_deleting_node_with_a_live_claim_is_not_leaving_yet() {
    let deleting = Node { deletion: Some(at(1)), ..machine(&[]) };
    assert!(!deleting.is_leaving());
    assert!(Node { claim: None, ..deleting.clone() }.is_leaving());
    assert!(Node { marked_for_deletion: true, ..machine(&[]) }.is_leaving());
    let claim = claim().holding(&[ConditionType::InstanceTerminating], at(0));
    assert!(Node { claim: Some(Arc::new(claim)), ..machine(&[]) }.is_leaving());
}

#[test]
fn host_name_falls_back_to_the_name() {
    let mut node = machine(&[label::REGISTERED]);
    assert_eq!(node.hostname(), "node-1");
    node.labels.insert(label::HOSTNAME.into(), "ip-10-0-0-1".into());
    assert_eq!(node.hostname(), "ip-10-0-0-1");
}

#[test]
fn nominations_end_at_their_instant() {
    let node = Node { nominated_until: Some(at(20)), ..machine(&[]) };
    assert!(node.is_nominated(at(19)));
    assert!(!node.is_nominated(at(20)));
}
