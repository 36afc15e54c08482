//! Faults of the account.

use serde_json::json;

use super::Case;
use super::world::{change, first, object, push, set};
use crate::facts::{Answer, Queue, Role};

pub(super) const CASES: &[Case] = &[
    ("P-1", |facts| {
        let long = "c".repeat(47);
        let json = serde_json::to_string(facts)
            .unwrap()
            .replace("\"cluster_name\":\"demo\"", &format!("\"cluster_name\":\"{long}\""));
        *facts = serde_json::from_str(&json).unwrap();
        for (_, queue) in facts.account.queues.as_mut().unwrap() {
            queue
                .iter_mut()
                .for_each(|queue| drop(queue.tags.insert("eks:eks-cluster-name".to_owned(), long.clone())));
        }
    }),
    ("P-3", |facts| role(facts).policies = 10),
    ("P-5", |facts| {
        change(
            first(&mut facts.cluster.node_classes),
            json!({"spec": {"role": "team/KarpenterNodeRole-demo"}}),
        )
    }),
    ("P-6", |facts| role(facts).trust = "{\"Service\":\"lambda.amazonaws.com\"}".to_owned()),
    ("P-7", |facts| queue(facts).kms_key = Some("arn:aws:kms:us-west-2:1:key/k".to_owned())),
    ("P-8", |facts| *queue(facts) = Queue::default()),
    ("P-9", |facts| set(facts, "INTERRUPTION_QUEUE", "arn:aws:sqs:us-west-2:111122223333:demo")),
    ("P-10", |facts| set(facts, "INTERRUPTION_QUEUE", "")),
    ("P-11", |facts| {
        set(facts, "INTERRUPTION_QUEUE", "other");
        facts.account.queues.as_mut().unwrap().insert("other".to_owned(), None);
    }),
    ("P-12", |facts| drop(queue(facts).tags.insert("eks:eks-cluster-name".to_owned(), "west".to_owned()))),
    ("P-16", |facts| facts.account.spot_role = Answer::Seen(false)),
    ("P-17", |facts| facts.account.security_groups = Answer::Seen(Vec::new())),
    ("P-17", |facts| {
        push(
            &mut facts.account.security_groups,
            json!({"id": "sg-2", "tags": {"kubernetes.io/cluster/demo": "owned"}}),
        );
    }),
    ("P-18", |facts| only_windows_entries(facts)),
    ("P-18", |facts| facts.account.eks = Answer::Seen(None)),
    ("P-20", |facts| {
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"role": "gone"}}));
        facts.account.roles.as_mut().unwrap().insert("gone".to_owned(), None);
    }),
    ("P-21", |facts| facts.account.instance_profiles = Answer::Seen(900)),
    ("P-28", |facts| {
        push(
            &mut facts.account.subnets,
            json!({"id": "subnet-2", "zone": "us-west-2-lax-1a", "free_addresses": 4000}),
        );
    }),
    ("D-04", |facts| {
        let name = "r".repeat(65);
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"role": name}}));
    }),
    ("D-18", |facts| first(&mut facts.account.subnets).free_addresses = 10),
    ("D-18", |facts| facts.account.subnets = Answer::Seen(Vec::new())),
    ("D-44", |facts| {
        push(
            &mut facts.account.reservations,
            json!({"id": "cr-1", "match_criteria": "open", "state": "active"}),
        );
    }),
];

fn role(facts: &mut crate::Facts) -> &mut Role {
    let roles = facts.account.roles.as_mut().unwrap();
    roles.get_mut("KarpenterNodeRole-demo").and_then(Option::as_mut).unwrap()
}

fn queue(facts: &mut crate::Facts) -> &mut Queue {
    facts.account.queues.as_mut().unwrap().get_mut("demo").and_then(Option::as_mut).unwrap()
}

fn only_windows_entries(facts: &mut crate::Facts) {
    facts.account.access_entries.as_mut().unwrap().retain(|entry| entry.kind == "EC2_WINDOWS");
}

#[test]
fn a_node_role_may_come_in_by_the_map_where_that_counts() {
    use crate::diagnose::diagnose;
    let only = ["P-18".to_owned()];
    let mut facts = super::healthy();
    only_windows_entries(&mut facts);
    let map = json!({
        "metadata": {"name": "aws-auth", "namespace": "kube-system"},
        "data": {"mapRoles": "- rolearn: arn:aws:iam::111122223333:role/KarpenterNodeRole-demo\n"},
    });
    push(&mut facts.cluster.config_maps, map);
    assert_eq!(diagnose(&facts, &only).findings, []);
    facts.account.eks = Answer::Seen(object(json!({"version": "1.33", "authentication_mode": "API"})));
    assert_eq!(diagnose(&facts, &only).findings.len(), 1, "the map does not count any more");
}
