//! Results do not depend on the number of cores.

use std::fmt::Write;

use karpenter_model::Snapshot;
use karpenter_testkit::snapshot;

use super::*;
use crate::place::what_if::Destinations;

/// Enough nodes for several cores, with pods that have rules about each other.
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
fn results_do_not_depend_on_the_number_of_cores() {
    let cluster = cluster();
    let nodes: Vec<&Node> = cluster.nodes.iter().map(AsRef::as_ref).collect();
    let simulations = || {
        let mut simulations = Simulations::new(WhatIf::new(&cluster, &nodes, Destinations::Quiet));
        simulations.allow(u32::MAX);
        simulations
    };
    let (mut one, mut all) = (simulations(), simulations());
    for _ in 0..3 {
        let expected: Vec<Option<Simulated>> =
            nodes.iter().map(|node| one.simulate(&[*node], Patience::Full)).collect();
        let results = all.simulate_each(&nodes, Patience::Full);
        assert_eq!(results.into_iter().map(Some).collect::<Vec<_>>(), expected);
        assert_eq!(all.commit(&nodes[..2]), one.commit(&nodes[..2]));
    }
    assert_eq!(one.ran(), all.ran());
}

#[test]
fn the_allowance_bounds_the_simulations() {
    let cluster = cluster();
    let nodes: Vec<&Node> = cluster.nodes.iter().map(AsRef::as_ref).collect();
    let mut simulations = Simulations::new(WhatIf::new(&cluster, &nodes, Destinations::Quiet));
    assert_eq!(simulations.simulate(&nodes[..1], Patience::Full), None, "nothing was allowed");
    simulations.allow(5);
    assert_eq!(simulations.simulate_each(&nodes, Patience::Full).len(), 5);
    assert_eq!((simulations.left(), simulations.ran()), (0, 5));
    assert_eq!(simulations.simulate(&nodes[..1], Patience::Full), None);
}
