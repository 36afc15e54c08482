//! Brakes that need a past: what the memory has recorded, and when the process started.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use jiff::SignedDuration;
use karpenter_engine::disrupt::{Brake, Decision, Memory, Standing, decide};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, Method, NodeOutcome, Snapshot};
use karpenter_testkit::snapshot;

const TYPES: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
type  large cpu=8 mem=16Gi pods=40 od=0.40 spot=0.16 zones=a,b
";

/// The cluster of `text`, `seconds` after noon; ages of the fixture count from there.
fn later(text: &str, seconds: i64) -> Snapshot {
    after(text, SignedDuration::from_secs(seconds))
}

fn after(text: &str, noon: SignedDuration) -> Snapshot {
    snapshot(&format!("now {}\n{TYPES}{text}", snapshot("").now + noon))
}

fn look(snapshot: &Snapshot, memory: &mut Memory) -> Arc<Decision> {
    decide(snapshot, memory, &Standing { proposed: &[], running: &BTreeSet::new() })
}

/// Machines `method` removes.
fn removed(decision: &Decision, method: Method) -> Vec<String> {
    let commands = decision.commands.iter().filter(|command| command.method == method);
    commands.flat_map(Command::nodes).map(ToString::to_string).collect()
}

fn why(decision: &Decision, node: &str) -> Option<ReasonCode> {
    match decision.nodes.get(node) {
        Some(NodeOutcome::Kept(reason)) => Some(reason.code),
        _ => None,
    }
}

/// Four machines of one pool with a pod each, drifted `age` ago.
fn drifted(age: &str) -> String {
    let mut text = String::from("set mass-drift-least=3\npool web types=small budget=100%\n");
    for name in ["a", "b", "c", "d"] {
        let _ = writeln!(text, "node {name} pool=web type=small zone=a capacity=spot drifted={age}");
        let _ = writeln!(text, "pod {name} cpu=1500m on={name}");
    }
    text
}

#[test]
fn drift_of_most_machines_after_a_start_waits_until_it_has_lasted() {
    let memory = &mut Memory::default();
    look(&later("", 0), memory);
    let decision = look(&later(&drifted("30s"), 60), memory);
    assert_eq!(decision.commands, []);
    assert_eq!(why(&decision, "a"), Some(ReasonCode::MassDrift));
    assert_eq!(decision.held[&Brake::MassDrift], 4);
    let decision = look(&later(&drifted("11m"), 690), memory);
    assert_eq!(removed(&decision, Method::Drift).len(), 4, "eleven minutes later it is believed");
}

#[test]
fn drift_from_before_the_start_or_long_after_it_is_believed() {
    let memory = &mut Memory::default();
    assert_eq!(removed(&look(&later(&drifted("1s"), 0), memory), Method::Drift).len(), 4);
    let memory = &mut Memory::default();
    look(&later("", 0), memory);
    let decision = look(&later(&drifted("10s"), 1_000), memory);
    assert_eq!(removed(&decision, Method::Drift).len(), 4, "the quiet time is over");
}

#[test]
fn drift_that_is_found_before_the_first_pass_comes_after_the_start() {
    // Conditions are written in whole seconds.
    let memory = &mut Memory::default();
    look(&after("", SignedDuration::from_millis(500)), memory);
    let decision = look(&later(&drifted("10s"), 10), memory);
    assert_eq!((decision.commands.len(), decision.held[&Brake::MassDrift]), (0, 4));
    let memory = &mut Memory::starting_at(later("", 0).now);
    let decision = look(&later(&drifted("70s"), 76), memory);
    assert_eq!((decision.commands.len(), decision.held[&Brake::MassDrift]), (0, 4));
}

#[test]
fn drift_of_a_few_machines_after_a_start_is_believed() {
    let memory = &mut Memory::default();
    look(&later("", 0), memory);
    let text = drifted("30s").replacen(" drifted=30s", "", 2);
    assert_eq!(removed(&look(&later(&text, 60), memory), Method::Drift), ["c", "d"]);
}

const TWO_DRIFTED: &str = "
pool  web types=small budget=1
node  a pool=web type=small zone=a capacity=spot drifted=2m
node  b pool=web type=small zone=a capacity=spot drifted=1m
pod   a cpu=1500m on=a
pod   b cpu=1500m on=b
";

#[test]
fn a_pool_whose_replacements_fail_is_tried_again_only_now_and_then() {
    let memory = &mut Memory::default();
    let at = |seconds| later(TWO_DRIFTED, seconds);
    let first = look(&at(0), memory);
    let command = first.commands.first().expect("invariant: drift goes on").clone();
    for failure in 0..3 {
        assert_eq!(removed(&look(&at(failure), memory), Method::Drift), ["a"], "after {failure} failures");
        memory.failed(&command, at(failure).now);
    }
    let held = look(&at(10), memory);
    assert_eq!(why(&held, "a"), Some(ReasonCode::HealthGate));
    assert_eq!(held.held[&Brake::HealthGate], 2);
    assert_eq!(removed(&look(&at(1_803), memory), Method::Drift), ["a"], "one try after half an hour");
    assert_eq!(why(&look(&at(1_810), memory), "a"), Some(ReasonCode::HealthGate), "and no second one");
    memory.succeeded(&command);
    assert_eq!(removed(&look(&at(1_820), memory), Method::Drift), ["a"]);
}

#[test]
fn machines_behind_a_closed_gate_leave_others_their_turn() {
    let text = "
set simulations=1
pool  sick types=small budget=100% unhealthy
pool  well types=small budget=100%
node  a pool=sick type=small zone=a capacity=spot drifted=4m
node  b pool=sick type=small zone=a capacity=spot drifted=3m
node  c pool=well type=small zone=a capacity=spot drifted=2m
pod   a cpu=1500m select=pool=sick on=a
pod   b cpu=1500m select=pool=sick on=b
pod   c cpu=1500m select=pool=well on=c
";
    let memory = &mut Memory::default();
    let passes: Vec<_> = (0..3).map(|pass| look(&later(text, 10 * pass), memory)).collect();
    assert_eq!(why(&passes[0], "a"), Some(ReasonCode::HealthGate));
    assert_eq!(why(&passes[0], "c"), Some(ReasonCode::NextPass), "one simulation was all there was");
    assert_eq!(why(&passes[1], "b"), Some(ReasonCode::HealthGate));
    assert_eq!(removed(&passes[2], Method::Drift), ["c"]);
}

#[test]
fn the_one_try_of_a_closed_gate_is_for_a_whole_command() {
    // The pool has smaller machines now: each of the large ones needs four of them.
    let text = "
pool  web types=small budget=1
node  a pool=web type=large zone=a capacity=spot drifted=2m
node  b pool=web type=large zone=a capacity=spot drifted=1m
pod   a-{1..4} cpu=1900m on=a
pod   b-{1..4} cpu=1900m on=b
";
    let memory = &mut Memory::default();
    let at = |seconds| later(text, seconds);
    let command = look(&at(0), memory).commands[0].clone();
    assert_eq!(command.replacements.len(), 4);
    for _ in 0..3 {
        memory.failed(&command, at(0).now);
    }
    assert_eq!(why(&look(&at(10), memory), "a"), Some(ReasonCode::HealthGate));
    assert_eq!(removed(&look(&at(1_800), memory), Method::Drift), ["a"], "one try after half an hour");
    assert_eq!(why(&look(&at(1_810), memory), "a"), Some(ReasonCode::HealthGate), "and no second one");
}

#[test]
fn a_closed_gate_that_nothing_goes_through_keeps_its_try() {
    let memory = &mut Memory::default();
    let at = |text: &str, seconds| later(text, seconds);
    let command = look(&at(TWO_DRIFTED, 0), memory).commands[0].clone();
    for _ in 0..3 {
        memory.failed(&command, at(TWO_DRIFTED, 0).now);
    }
    let closed = TWO_DRIFTED.replace("budget=1", "budget=0");
    assert_eq!(look(&at(&closed, 1_800), memory).commands, [], "there is no budget");
    assert_eq!(removed(&look(&at(TWO_DRIFTED, 1_810), memory), Method::Drift), ["a"]);
}

#[test]
fn failures_of_another_template_do_not_count() {
    let memory = &mut Memory::default();
    let snapshot = later(TWO_DRIFTED, 0);
    let mut command = look(&snapshot, memory).commands[0].clone();
    command.replacements[0].pool_hash = "another".into();
    for _ in 0..5 {
        memory.failed(&command, snapshot.now);
    }
    assert_eq!(removed(&look(&snapshot, memory), Method::Drift), ["a"]);
}

#[test]
fn consolidation_launches_nothing_from_a_pool_whose_replacements_fail() {
    let together = format!(
        "type medium cpu=4 mem=8Gi pods=20 od=0.20 zones=a\n{OVERSIZED}{}",
        "node big2 pool=web type=large zone=a capacity=on-demand\npod q cpu=1500m on=big2\n"
    );
    for (text, method) in [(OVERSIZED, Method::SingleNode), (&together, Method::MultiNode)] {
        let memory = &mut Memory::default();
        let at = |seconds| later(text, seconds);
        let launching = |memory: &mut Memory, seconds| -> Vec<Method> {
            let decision = look(&at(seconds), memory);
            let launching = decision.commands.iter().filter(|command| !command.replacements.is_empty());
            launching.map(|command| command.method).collect()
        };
        let command = look(&at(0), memory).commands[0].clone();
        assert_eq!((command.method, command.replacements.len()), (method, 1));
        for _ in 0..3 {
            memory.failed(&command, at(0).now);
        }
        assert_eq!(launching(memory, 10), []);
        assert_eq!(launching(memory, 1_800), [method], "one try after half an hour");
        assert_eq!(launching(memory, 1_810), [], "and no second one");
        memory.succeeded(&command);
        assert_eq!(launching(memory, 1_820), [method]);
    }
    let memory = &mut Memory::default();
    let command = look(&later(OVERSIZED, 0), memory).commands[0].clone();
    for _ in 0..3 {
        memory.failed(&command, later(OVERSIZED, 0).now);
    }
    let held = look(&later(OVERSIZED, 10), memory);
    assert_eq!((why(&held, "big"), held.held[&Brake::HealthGate]), (Some(ReasonCode::HealthGate), 1));
}

#[test]
fn what_launches_nothing_asks_no_gate() {
    let text = OVERSIZED.replace("pool  web types=*", "pool  web types=* unhealthy")
        + "node  other pool=web type=large zone=a capacity=on-demand annotation=karpenter.sh/do-not-disrupt=true\n";
    let decision = look(&later(&text, 0), &mut Memory::default());
    assert_eq!(removed(&decision, Method::SingleNode), ["big"]);
}

/// A machine worth replacing by a small one.
const OVERSIZED: &str = "
pool  web types=* budget=100%
node  big pool=web type=large zone=a capacity=on-demand
pod   p cpu=1500m select=capacity=on-demand on=big
";

#[test]
fn a_machine_does_not_go_back_to_what_it_took_over_from() {
    let memory = &mut Memory::default();
    let first = look(&later(OVERSIZED, 0), memory);
    assert_eq!(removed(&first, Method::SingleNode), ["big"]);
    // Pretend that a small machine was replaced by this large one a moment ago.
    let mut back = first.commands[0].clone();
    back.candidates[0].instance_type = Some("small".into());
    memory.started(&back, &["web-big".into()], first.commands[0].not_before);
    let held = look(&later(OVERSIZED, 60), memory);
    assert_eq!(held.commands, []);
    assert_eq!(why(&held, "big"), Some(ReasonCode::AntiFlap));
    let after = look(&later(OVERSIZED, 16 * 60), memory);
    assert_eq!(removed(&after, Method::SingleNode), ["big"], "after a quarter of an hour it may");
}

#[test]
fn commands_that_started_within_a_minute_count_against_the_rate() {
    let text = format!("set commands-per-minute=1\n{}", TWO_DRIFTED.replace("budget=1", "budget=2"));
    let memory = &mut Memory::default();
    let first = look(&later(&text, 0), memory);
    assert_eq!(removed(&first, Method::Drift), ["a"]);
    memory.started(&first.commands[0], &[], later(&text, 0).now);
    assert_eq!(why(&look(&later(&text, 59), memory), "a"), Some(ReasonCode::CommandRate));
    assert_eq!(removed(&look(&later(&text, 60), memory), Method::Drift), ["a"]);
}

#[test]
fn empty_machines_wait_for_the_rate_like_all_others() {
    let text =
        "set commands-per-minute=1\npool web types=small budget=2\nnode a pool=web type=small zone=a\n";
    let memory = &mut Memory::default();
    let first = look(&later(text, 0), memory);
    assert_eq!(removed(&first, Method::Emptiness), ["a"]);
    memory.started(&first.commands[0], &[], later(text, 0).now);
    for seconds in [1, 30, 59] {
        assert_eq!(why(&look(&later(text, seconds), memory), "a"), Some(ReasonCode::CommandRate));
    }
    assert_eq!(removed(&look(&later(text, 60), memory), Method::Emptiness), ["a"]);
}

/// A drifted machine of a static pool, none like which can be bought now.
const SOLD_OUT: &str = "
set   static=on
type  rare cpu=2 mem=4Gi od=0.10 zones=a gone=a/od
pool  dry types=rare replicas=1 budget=100%
node  d pool=dry type=rare zone=a capacity=on-demand drifted=1m
";

#[test]
fn a_static_machine_waits_until_something_can_be_launched_in_its_place() {
    let memory = &mut Memory::default();
    let held = look(&later(SOLD_OUT, 0), memory);
    assert_eq!(why(&held, "d"), Some(ReasonCode::NoCapacity));
    assert_eq!(held.held[&Brake::NoCapacity], 1);
    let sold = SOLD_OUT.replace(" gone=a/od", "");
    assert_eq!(removed(&look(&later(&sold, 1), memory), Method::StaticDrift), ["d"]);
    let off = SOLD_OUT.replace("static=on", "static=on launchable-capacity=off");
    assert_eq!(removed(&look(&later(&off, 2), memory), Method::StaticDrift), ["d"], "switched off");
}

#[test]
fn brakes_that_are_switched_off_hold_nothing() {
    let memory = &mut Memory::default();
    look(&later("", 0), memory);
    let mut snapshot = later(&drifted("30s"), 60);
    let settings = Arc::make_mut(&mut snapshot.settings);
    settings.disruption.brakes.mass_drift_percent = 100;
    settings.disruption.brakes.health_gate_failures = 0;
    settings.disruption.brakes.commands_per_minute = 0;
    let first = look(&snapshot, memory);
    assert_eq!(removed(&first, Method::Drift).len(), 4);
    for _ in 0..9 {
        memory.failed(&first.commands[0], snapshot.now);
        memory.started(&first.commands[0], &[], snapshot.now);
    }
    let again = look(&snapshot, memory);
    assert_eq!(removed(&again, Method::Drift).len(), 4);
    assert!(again.held.is_empty());
}

#[test]
fn consolidation_that_the_rate_held_back_goes_on_once_it_may() {
    let text = format!("set commands-per-minute=1\n{OVERSIZED}");
    let memory = &mut Memory::default();
    let first = look(&later(&text, 0), memory);
    memory.started(&first.commands[0], &[], later(&text, 0).now);
    for seconds in [1, 30, 59] {
        let held = look(&later(&text, seconds), memory);
        assert_eq!(why(&held, "big"), Some(ReasonCode::CommandRate), "after {seconds} s");
        assert_eq!(held.held[&Brake::CommandRate], 1, "counted in every pass");
    }
    assert_eq!(removed(&look(&later(&text, 60), memory), Method::SingleNode), ["big"]);
}

#[test]
fn several_nodes_that_the_rate_held_back_go_together_once_it_may() {
    let mut text = String::from("set commands-per-minute=1\npool web types=* budget=100%\n");
    for name in ["a", "b"] {
        let _ = writeln!(text, "node {name} pool=web type=large zone=a capacity=on-demand");
        let _ = writeln!(text, "pod {name} cpu=500m on={name}");
    }
    let memory = &mut Memory::default();
    let first = look(&later(&text, 0), memory);
    assert_eq!(removed(&first, Method::MultiNode), ["a", "b"]);
    memory.started(&first.commands[0], &[], later(&text, 0).now);
    assert_eq!(look(&later(&text, 1), memory).commands, []);
    assert_eq!(removed(&look(&later(&text, 60), memory), Method::MultiNode), ["a", "b"]);
}
