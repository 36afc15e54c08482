//! Many cores answer as one does.

use std::fmt::Write;

use karpenter_model::Snapshot;
use karpenter_testkit::snapshot;

use super::*;
use crate::place::what_if::Destinations;

/// Enough machines for several cores, with pods that have rules about each other.
fn cluster() -> Snapshot {
    let mut text = String::from("type m cpu=4 mem=8Gi pods=20 od=0.2 zones=a,b\npool web types=*\n");
    for node in 0..160 {
        let _ = writeln!(text, "node n{node} pool=web type=m zone=a capacity=on-demand");
        let _ = writeln!(text, "pod s{node} cpu=900m label=app=s spread=host/2 on=n{node}");
    }
    text.push_str("pod k cpu=2 label=app=k anti-affinity=host on=n7\n");
    snapshot(&text)
}

#[test]
fn answers_do_not_depend_on_how_many_cores_give_them() {
    let cluster = cluster();
    let nodes: Vec<&Node> = cluster.nodes.iter().map(AsRef::as_ref).collect();
    let bench = || {
        let mut bench = Bench::new(WhatIf::new(&cluster, &nodes, Destinations::Quiet));
        bench.allow(u32::MAX);
        bench
    };
    let (mut one, mut all) = (bench(), bench());
    for _ in 0..3 {
        let expected: Vec<Option<Simulated>> =
            nodes.iter().map(|node| one.ask(&[*node], Patience::Full)).collect();
        let answers = all.ask_each(&nodes, Patience::Full);
        assert_eq!(answers.into_iter().map(Some).collect::<Vec<_>>(), expected);
        assert_eq!(all.commit(&nodes[..2]), one.commit(&nodes[..2]));
    }
    assert_eq!(one.asked(), all.asked());
}

#[test]
fn no_more_is_asked_than_is_allowed() {
    let cluster = cluster();
    let nodes: Vec<&Node> = cluster.nodes.iter().map(AsRef::as_ref).collect();
    let mut bench = Bench::new(WhatIf::new(&cluster, &nodes, Destinations::Quiet));
    assert_eq!(bench.ask(&nodes[..1], Patience::Full), None, "nothing was allowed");
    bench.allow(5);
    assert_eq!(bench.ask_each(&nodes, Patience::Full).len(), 5);
    assert_eq!((bench.left(), bench.asked()), (0, 5));
    assert_eq!(bench.ask(&nodes[..1], Patience::Full), None);
}
