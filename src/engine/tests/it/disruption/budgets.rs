//! Every method keeps every pool's budget, and what only a budget held goes as soon as it may (spec disruption
//! 8.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use karpenter_engine::disrupt::{BudgetState, Memory, Standing, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, NodeId, NodeOutcome, Snapshot};
use karpenter_testkit::snapshot;

/// Machines of each pool.
const NODES: usize = 10;

/// Returns a snapshot in which ten machines of each of `pools` pools go, if only the method's own budget holds them.
fn world(method: Method, pools: usize, budget: &str) -> Snapshot {
    let mut text = String::from(
        "set static=on
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a,b
type  large cpu=8 mem=16Gi pods=40 od=0.40 zones=a,b
node  foreign cpu=4000 mem=4000Gi pods=9000 zone=a taint=team=x:NoSchedule\n",
    );
    let consolidates = matches!(method, Method::MultiNode | Method::SingleNode);
    let quiet = if consolidates || method == Method::Emptiness { "" } else { " consolidate=never" };
    let replicas = if method == Method::StaticDrift { " replicas=10" } else { "" };
    for pool in 0..pools {
        let _ = writeln!(text, "pool p{pool} types=*{quiet}{replicas} budget={budget}");
        for node in 0..NODES {
            let name = format!("p{pool}-{node}");
            let _ = match method {
                Method::Repair => unreachable!("one command at a time, whatever the budget"),
                Method::Emptiness => {
                    writeln!(text, "node {name} pool=p{pool} type=small zone=a capacity=on-demand")
                }
                Method::Drift | Method::StaticDrift => writeln!(
                    text,
                    "node {name} pool=p{pool} type=small zone=a capacity=on-demand drifted=1h
pod {name} cpu=1500m on={name}"
                ),
                // They all fit on the foreign machine.
                Method::MultiNode | Method::ManyToMany => writeln!(
                    text,
                    "node {name} pool=p{pool} type=small zone=a capacity=on-demand
pod {name} cpu=100m tolerate=team on={name}"
                ),
                // They keep apart, so that each needs a small machine of its own.
                Method::SingleNode => writeln!(
                    text,
                    "node {name} pool=p{pool} type=large zone=a capacity=on-demand
pod {name} cpu=1500m label=app=a anti-affinity=host on={name}"
                ),
            };
        }
    }
    snapshot(&text)
}

/// Returns how many machines of each pool go by `method`.
fn gone(snapshot: &Snapshot, memory: &mut Memory, method: Method, running: &BTreeSet<NodeId>) -> Vec<usize> {
    let decision = decide(snapshot, memory, &Standing { proposed: &[], running });
    let mut gone: BTreeMap<String, usize> =
        snapshot.pools.iter().map(|pool| (pool.name.to_string(), 0)).collect();
    for command in &decision.commands {
        assert_eq!(command.method, method);
        for candidate in &command.candidates {
            *gone.entry(candidate.pool.to_string()).or_default() += 1;
        }
    }
    gone.into_values().collect()
}

const METHODS: [Method; 5] =
    [Method::Emptiness, Method::StaticDrift, Method::Drift, Method::MultiNode, Method::SingleNode];

#[test]
fn every_method_keeps_the_budget_of_every_pool() {
    let table = [
        ("0", 1, 0),
        ("3", 1, 3),
        ("100%", 1, 10),
        ("25%", 1, 3),
        ("2", 10, 2),
        ("100%", 10, 10),
        ("0", 10, 0),
    ];
    for method in METHODS {
        for (budget, pools, expected) in table {
            let world = world(method, pools, budget);
            let gone = gone(&world, &mut Memory::default(), method, &BTreeSet::new());
            assert_eq!(gone, vec![expected; pools], "{method:?}: {budget} of {pools} pools");
        }
    }
}

#[test]
fn commands_under_way_use_up_the_budget() {
    for method in METHODS {
        let world = world(method, 2, "4");
        let running: BTreeSet<NodeId> =
            ["p0-0", "p0-1", "p0-2", "p1-0"].into_iter().map(NodeId::from).collect();
        assert_eq!(gone(&world, &mut Memory::default(), method, &running), [1, 3], "{method:?}");
    }
}

#[test]
fn what_only_a_budget_held_back_goes_once_it_may() {
    for method in METHODS {
        for pools in [1, 10] {
            let (shut, open) = (world(method, pools, "0"), world(method, pools, "100%"));
            let memory = &mut Memory::default();
            for _ in 0..3 {
                assert_eq!(gone(&shut, memory, method, &BTreeSet::new()), vec![0; pools], "{method:?}");
            }
            // The same revision: only the budgets are others.
            let expected = vec![NODES; pools];
            assert_eq!(gone(&open, memory, method, &BTreeSet::new()), expected, "{method:?}, {pools} pools");
        }
    }
}

#[test]
fn at_most_a_hundred_machines_go_in_one_command_of_several() {
    let world = world(Method::MultiNode, 13, "100%");
    let decision =
        decide(&world, &mut Memory::default(), &Standing { proposed: &[], running: &BTreeSet::new() });
    let sizes: Vec<usize> = decision.commands.iter().map(|command| command.candidates.len()).collect();
    assert_eq!(sizes, [100, 30]);
}

#[test]
fn static_drift_goes_on_pass_by_pass_until_nothing_is_drifted() {
    let mut text = String::from("set static=on\ntype small cpu=2 mem=4Gi od=0.10\n");
    text.push_str("pool fixed types=* replicas=5 limit=nodes=7 budget=100%\n");
    for node in 0..5 {
        let _ = writeln!(text, "node n{node} pool=fixed type=small zone=a capacity=on-demand drifted=1h");
    }
    let memory = &mut Memory::default();
    let mut passes = Vec::new();
    for _ in 0..10 {
        let world = snapshot(&text);
        let went = decide(&world, memory, &Standing { proposed: &[], running: &BTreeSet::new() });
        let went: Vec<String> =
            went.commands.iter().flat_map(Command::nodes).map(ToString::to_string).collect();
        passes.push(went.len());
        for name in went {
            // Its replacement is not drifted.
            text = text.replace(
                &format!("node {name} pool=fixed type=small zone=a capacity=on-demand drifted=1h"),
                &format!("node {name}-new pool=fixed type=small zone=a capacity=on-demand"),
            );
        }
    }
    assert_eq!(passes, [2, 2, 1, 0, 0, 0, 0, 0, 0, 0], "two at a time, as the limit of seven allows");
}

#[test]
fn what_earlier_commands_launch_takes_room_under_the_limit_before_it_is_there() {
    let mut text = String::from("set static=on\ntype small cpu=2 mem=4Gi od=0.10\n");
    text.push_str("pool fixed types=* replicas=5 limit=nodes=7 budget=100%\n");
    for node in 0..5 {
        let _ = writeln!(text, "node n{node} pool=fixed type=small zone=a capacity=on-demand drifted=1h");
    }
    let (world, running) = (snapshot(&text), BTreeSet::new());
    let first = decide(&world, &mut Memory::default(), &Standing { proposed: &[], running: &running });
    assert_eq!(first.commands.len(), 2);
    let standing = Standing { proposed: &first.commands, running: &running };
    assert_eq!(decide(&world, &mut Memory::default(), &standing).commands, []);
}

#[test]
fn machines_in_a_command_say_so_and_are_in_no_other() {
    let world = world(Method::Emptiness, 1, "100%");
    let first =
        decide(&world, &mut Memory::default(), &Standing { proposed: &[], running: &BTreeSet::new() });
    let running: BTreeSet<NodeId> = ["p0-0".into()].into();
    let mut proposed = first.commands.clone();
    proposed[0].candidates.retain(|candidate| candidate.target.id.as_str() == "p0-1");
    let next = decide(&world, &mut Memory::default(), &Standing { proposed: &proposed, running: &running });
    let code = |node: &str| match next.nodes.get(node) {
        Some(NodeOutcome::Kept(reason)) => Some(reason.code),
        _ => None,
    };
    assert_eq!(code("p0-0"), Some(ReasonCode::Disrupting));
    assert_eq!(code("p0-1"), Some(ReasonCode::SecondLook));
    let others: Vec<&str> = next.commands.iter().flat_map(Command::nodes).map(NodeId::as_str).collect();
    assert_eq!(others.len(), NODES - 2, "{others:?}");
}

#[test]
fn a_machine_that_names_no_pool_is_no_candidate() {
    let mut world = world(Method::Emptiness, 1, "100%");
    let node = std::sync::Arc::make_mut(
        world.nodes.iter_mut().find(|node| node.id.as_str() == "p0-3").expect("invariant: it is there"),
    );
    node.labels.remove(karpenter_model::names::label::NODE_POOL);
    let decision =
        decide(&world, &mut Memory::default(), &Standing { proposed: &[], running: &BTreeSet::new() });
    let Some(NodeOutcome::Kept(why)) = decision.nodes.get("p0-3") else { panic!("{decision:?}") };
    assert_eq!(why.code, ReasonCode::PoolMissing);
    let told = decision.notes.iter().find(|note| note.message.contains("required label"));
    assert_eq!(
        told.map(|note| note.message.as_str()),
        Some("Node doesn't have required label (label=karpenter.sh/nodepool)")
    );
}

#[test]
fn budgets_of_every_pool_are_known_without_candidates_too() {
    let world = snapshot("pool a types=* budget=3\npool b types=* budget=0@Drifted\n");
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let decision = decide(&world, &mut Memory::default(), &standing);
    let known: Vec<String> = decision
        .budgets
        .iter()
        .map(|((pool, reason), state)| format!("{pool} {reason} {}", state.allowed))
        .collect();
    let none = BudgetState::NO_LIMIT;
    assert_eq!(
        known,
        [
            "a Empty 3",
            "a Drifted 3",
            "a Underutilized 3",
            "a Unhealthy 3",
            &format!("b Empty {none}"),
            "b Drifted 0",
            &format!("b Underutilized {none}"),
            &format!("b Unhealthy {none}"),
        ]
    );
}
