//! Consolidation over several passes: every machine has its turn, and nothing is asked twice for nothing.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use karpenter_engine::disrupt::{Decision, Memory, Standing, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Method, NodeOutcome, Settings, Snapshot};
use karpenter_testkit::snapshot;

fn pass(snapshot: &Snapshot, memory: &mut Memory) -> Arc<Decision> {
    decide(snapshot, memory, &Standing { proposed: &[], running: &BTreeSet::new() })
}

/// Machines of two pools that all stay: nothing is cheaper, and no other has room.
fn cluster(simulations: u32) -> Snapshot {
    let mut text = String::from("type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a\n");
    for (pool, nodes) in [("web", 6), ("jobs", 2)] {
        let _ = writeln!(text, "pool {pool} types=* budget=100%");
        for node in 1..=nodes {
            let _ = writeln!(text, "node {pool}{node} pool={pool} type=s zone=a capacity=on-demand");
            let _ = writeln!(text, "pod {pool}{node} cpu=1500m on={pool}{node}");
        }
    }
    let mut snapshot = snapshot(&text);
    let mut settings: Settings = (*snapshot.settings).clone();
    settings.disruption.simulations_per_pass = simulations;
    snapshot.settings = Arc::new(settings);
    snapshot
}

/// Machines that wait for the next pass.
fn waiting(decision: &Decision) -> Vec<&str> {
    let waits = decision.nodes.iter().filter(
        |(_, outcome)| matches!(outcome, NodeOutcome::Kept(reason) if reason.code == ReasonCode::NextPass),
    );
    waits.map(|(node, _)| node.as_str()).collect()
}

fn simulations(decision: &Decision) -> u32 {
    decision.methods.values().map(|stats| stats.simulations).sum()
}

#[test]
fn pools_take_turns_and_the_next_pass_goes_on_with_those_not_seen() {
    let (cluster, mut memory) = (cluster(8), Memory::default());
    let first = pass(&cluster, &mut memory);
    assert_eq!(waiting(&first), ["web3", "web4", "web5", "web6"], "two of each pool were looked at");
    assert!(first.methods[&Method::SingleNode].unfinished);
    let second = pass(&cluster, &mut memory);
    assert_eq!(waiting(&second), [""; 0], "the others, and what was said of the first is remembered");
    assert!(!second.methods[&Method::SingleNode].unfinished);
}

#[test]
fn what_was_looked_at_is_not_looked_at_again_until_something_changes() {
    let (mut cluster, mut memory) = (cluster(100), Memory::default());
    let first = pass(&cluster, &mut memory);
    assert!(simulations(&first) > 8);
    let second = pass(&cluster, &mut memory);
    assert_eq!(simulations(&second), 0);
    assert_eq!(second.nodes, first.nodes, "the reasons are the same");
    cluster.revision += 1;
    assert!(simulations(&pass(&cluster, &mut memory)) > 8, "something has changed");
    cluster.now += jiff::SignedDuration::from_mins(5);
    assert!(simulations(&pass(&cluster, &mut memory)) > 8, "prices are looked at again after a while");
}

#[test]
fn machines_a_budget_keeps_are_looked_at_once_it_does_not() {
    let (mut cluster, mut memory) = (cluster(100), Memory::default());
    for pool in &mut cluster.pools {
        Arc::make_mut(pool).disruption.budgets = vec![karpenter_model::Budget {
            nodes: karpenter_model::pool::BudgetNodes::Count(0),
            reasons: None,
            window: None,
        }];
    }
    let first = pass(&cluster, &mut memory);
    assert_eq!(simulations(&first), 0, "nothing may go");
    for pool in &mut cluster.pools {
        Arc::make_mut(pool).disruption.budgets.clear();
    }
    assert!(simulations(&pass(&cluster, &mut memory)) > 8);
}

/// Ten drifted machines that cannot go and ten others that nothing cheaper could replace.
fn everybody_wants(simulations: u32) -> Snapshot {
    let mut text = format!("set many-to-many=on simulations={simulations}\n");
    text.push_str("type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a\npool web types=* budget=100%\n");
    for node in 0..10 {
        let _ = writeln!(text, "node d{node} pool=web type=s zone=a capacity=on-demand drifted=1h");
        let _ = writeln!(text, "pod d{node} cpu=1500m select=disk=none on=d{node}");
        let _ = writeln!(text, "node c{node} pool=web type=s zone=a capacity=on-demand");
        let _ = writeln!(text, "pod c{node} cpu=1500m on=c{node}");
    }
    snapshot(&text)
}

#[test]
fn methods_share_the_simulations_of_a_pass_and_none_starves() {
    for simulations in [4, 8, 17, 40] {
        let cluster = everybody_wants(simulations);
        let first = pass(&cluster, &mut Memory::default());
        assert!(self::simulations(&first) <= simulations, "{:?}", first.methods);
        for method in [Method::Drift, Method::MultiNode, Method::SingleNode, Method::ManyToMany] {
            let used = first.methods[&method].simulations;
            let share = simulations / 4;
            assert!(used >= share.min(10), "{method:?} got {used} of {simulations}");
        }
    }
}

#[test]
fn with_a_single_simulation_per_pass_every_method_comes_to_an_end() {
    let (cluster, mut memory) = (everybody_wants(1), Memory::default());
    let passes = (1..100).find(|_| {
        let decision = pass(&cluster, &mut memory);
        assert!(simulations(&decision) <= 4, "one for each method");
        [Method::Drift, Method::SingleNode].iter().all(|method| !decision.methods[method].unfinished)
            && waiting(&decision).is_empty()
    });
    assert!(passes.is_some_and(|passes| passes <= 20), "{passes:?}");
}

#[test]
fn what_one_method_does_not_use_goes_to_the_next() {
    let cluster = cluster(16);
    let first = pass(&cluster, &mut Memory::default());
    let single = first.methods[&Method::SingleNode].simulations;
    assert_eq!(single, 8, "all machines, although half of sixteen went to several at once");
    assert_eq!(waiting(&first), [""; 0]);
}

#[test]
fn a_look_that_takes_many_passes_is_called_late_only_when_the_reference_would_have_given_up() {
    for (seconds, late) in [(10, 0), (60, 2)] {
        let (mut cluster, mut memory, mut timeouts) = (cluster(1), Memory::default(), 0);
        let passes = (1..100).find(|_| {
            let decision = pass(&cluster, &mut memory);
            let stats = decision.methods[&Method::SingleNode];
            timeouts += u32::from(stats.timed_out);
            cluster.now += jiff::SignedDuration::from_secs(seconds);
            !stats.unfinished
        });
        assert_eq!(passes, Some(8), "one machine per pass");
        assert_eq!(timeouts, late, "a pass every {seconds} s");
    }
}

#[test]
fn groups_of_three_are_tried_however_many_machines_there_are() {
    // Two machines have too much for one; what three have fits two of another type, which cost less.
    let mut text = String::from(
        "set many-to-many=on\ntype old cpu=4 mem=8Gi pods=10 od=1.00 zones=a\ntype new cpu=6600m mem=16Gi pods=10 \
         od=1.10 zones=a\npool web types=* budget=100%\n",
    );
    for node in 1..=70 {
        let _ = writeln!(text, "node n{node:02} pool=web type=old zone=a capacity=on-demand");
        let _ =
            writeln!(text, "pod a{node:02} cpu=2600m on=n{node:02}\npod b{node:02} cpu=1300m on=n{node:02}");
    }
    let decision = pass(&snapshot(&text), &mut Memory::default());
    let sizes: Vec<(usize, usize)> =
        decision.commands.iter().map(|one| (one.candidates.len(), one.replacements.len())).collect();
    assert!(sizes.iter().any(|(gone, new)| *gone > 2 && new < gone), "{sizes:?}");
}

/// Two machines with room for the pods of a third, which has been there since `created_at`.
fn room_for_the_pods_of(third: &str, created_at: jiff::Timestamp, now: jiff::Timestamp) -> Snapshot {
    let mut text =
        String::from("type s cpu=2 mem=4Gi pods=10 od=0.1 zones=a\npool web types=* budget=100%\n");
    for (node, pods) in [("a", "1000m"), ("b", "1400m"), (third, "900m")] {
        let _ = writeln!(text, "node {node} pool=web type=s zone=a capacity=on-demand");
        let _ = writeln!(text, "pod on-{node} cpu={pods} on={node}");
    }
    let _ = writeln!(text, "pod small cpu=400m on={third}");
    let mut snapshot = snapshot(&text);
    snapshot.now = now;
    for node in snapshot.nodes.iter_mut().filter(|node| node.id.as_str() == third) {
        let node = Arc::make_mut(node);
        let claim = node.claim.as_mut().expect("a machine of ours");
        Arc::make_mut(claim).created_at = created_at;
        for pod in &mut node.pods {
            Arc::make_mut(pod).owner_uid = Some("workload".into());
        }
    }
    snapshot
}

fn why_it_stays(decision: &Decision, node: &str) -> Option<ReasonCode> {
    match &decision.nodes[node] {
        NodeOutcome::Kept(reason) => Some(reason.code),
        NodeOutcome::Removed(_) | NodeOutcome::Rebooted => None,
    }
}

#[test]
fn a_machine_that_was_bought_back_stays_and_twice_as_long_each_time() {
    let minutes = jiff::SignedDuration::from_mins;
    let mut now = snapshot("").now;
    let (mut memory, mut created_at, mut waits) = (Memory::default(), now - minutes(60), Vec::new());
    for third in ["c", "d", "e", "f", "g", "h", "i"] {
        let bought = now;
        // Until it goes, minute by minute.
        let decision = loop {
            let decision = pass(&room_for_the_pods_of(third, created_at, now), &mut memory);
            match why_it_stays(&decision, third) {
                None => break decision,
                Some(code) => assert_eq!(code, ReasonCode::AntiFlap, "{third} at {now}"),
            }
            now += minutes(1);
        };
        waits.push(now.duration_since(bought).as_mins());
        // The scheduler puts the small one where the large one was to go, and a machine is launched for that.
        memory.started(&decision.commands[0], &[], now);
        now += jiff::SignedDuration::from_secs(1);
        created_at = now;
    }
    assert_eq!(waits, [0, 15, 30, 60, 120, 240, 240]);
}

#[test]
fn a_replacement_and_a_machine_of_other_pods_are_not_taken_for_one_bought_back() {
    let now = snapshot("").now;
    let later = now + jiff::SignedDuration::from_mins(1);
    let mut memory = Memory::default();
    let first = pass(&room_for_the_pods_of("c", now - jiff::SignedDuration::from_mins(60), now), &mut memory);
    memory.started(&first.commands[0], &[], now);
    let mut others = room_for_the_pods_of("d", later, later);
    for node in &mut others.nodes {
        for pod in &mut Arc::make_mut(node).pods {
            Arc::make_mut(pod).owner_uid = Some("another".into());
        }
    }
    assert_eq!(why_it_stays(&pass(&others, &mut memory.clone()), "d"), None);
    let replacement = room_for_the_pods_of("d", later, later);
    let claims =
        replacement.nodes.iter().filter_map(|node| node.claim.as_ref().map(|claim| claim.name.clone()));
    memory.started(&first.commands[0], &claims.collect::<Vec<_>>(), now);
    assert_eq!(why_it_stays(&pass(&replacement, &mut memory), "d"), None);
}
