//! Repair from pass to pass: the order of the methods, the second look, budgets, and time (spec disruption 4.2).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{
    Decision, Memory, NoteKind, Rejection, RejectionKind, Standing, confirm, decide,
};
use karpenter_model::report::ReasonCode;
use karpenter_model::{Command, DisruptionReason, Method, NodeId, NodeOutcome, Plan, Snapshot};
use karpenter_testkit::snapshot;

use super::decided;

const WORLD: &str = "
set   static=on
repair Ready status=False after=30m grace=10m
repair Kernel status=False after=30m
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
type  large cpu=8 mem=16Gi pods=40 od=0.40 zones=a
";

/// A pool of ten whose first nodes are as the lines of `nodes` say, for what comes after their names.
fn ten(pool: &str, nodes: &[&str]) -> Snapshot {
    let mut text = format!("{WORLD}pool  web types=* consolidate=never {pool}\n");
    for number in 0..10 {
        let own = nodes.get(number).copied().unwrap_or_default();
        let _ = writeln!(
            text,
            "node n{number} pool=web type=small zone=a capacity=on-demand {own}\npod p{number} cpu=1500m on=n{number}"
        );
    }
    snapshot(&text)
}

/// Nodes that go, with the audit's blessing.
fn gone(snapshot: &Snapshot) -> Vec<String> {
    of(snapshot, &decided(snapshot))
}

fn of(snapshot: &Snapshot, decision: &Decision) -> Vec<String> {
    let commands: Vec<Command> =
        decision.commands.iter().filter(|command| command.method == Method::Repair).cloned().collect();
    let plan = Plan { commands: decision.commands.clone(), ..Plan::default() };
    assert_eq!(audit(snapshot, &plan), []);
    commands.iter().flat_map(Command::nodes).map(NodeId::to_string).collect()
}

fn kept(decision: &Decision, node: &str) -> Option<ReasonCode> {
    match &decision.nodes[&NodeId::from(node)] {
        NodeOutcome::Kept(reason) => Some(reason.code),
        NodeOutcome::Removed(_) | NodeOutcome::Rebooted => None,
    }
}

const SICK: &str = "not-ready sick=Ready/False/31m";

#[test]
fn what_is_broken_is_replaced_before_it_goes() {
    let world = ten("", &[SICK]);
    let decision = decided(&world);
    assert_eq!(of(&world, &decision), ["n0"]);
    let command = &decision.commands[0];
    assert_eq!((command.reason, command.replacements.len()), (DisruptionReason::Unhealthy, 1));
    assert_eq!(command.not_before, world.now, "at once");
    let repair = command.repair.as_ref().unwrap();
    assert_eq!((repair.condition.as_str(), repair.drain), ("Ready", Some(Duration::from_mins(10))));
    assert_eq!(gone(&ten("", &["not-ready sick=Ready/False/29m"])), Vec::<String>::new(), "tolerated");
    let off = Snapshot { repair: [].into(), ..world };
    assert_eq!(decided(&off).commands, [], "switched off");
}

#[test]
fn the_default_budget_lets_one_of_ten_go_whatever_is_not_ready() {
    let two = ten("budget=10%", &[SICK, "not-ready sick=Ready/False/40m"]);
    assert_eq!(gone(&two), ["n1"], "the one that is broken for longer");
    let running: BTreeSet<NodeId> = [NodeId::from("n1")].into();
    let standing = Standing { proposed: &[], running: &running };
    let later = decide(&two, &mut Memory::default(), &standing);
    assert_eq!((later.commands.len(), kept(&later, "n0")), (0, Some(ReasonCode::Budget)));
    let key = |reason| ("web".into(), reason);
    let consuming = |reason| decided(&two).budgets[&key(reason)].consuming;
    assert_eq!(consuming(DisruptionReason::Unhealthy), 0);
    assert_eq!(consuming(DisruptionReason::Drifted), 2);
    // Nodes without a condition of any policy that are not ready lower the allowance of no repair.
    let silent = ten("budget=10%", &[SICK, "not-ready", "not-ready", "not-ready"]);
    assert_eq!(gone(&silent), ["n0"]);
}

#[test]
fn a_budget_for_unhealthy_holds_repair_alone() {
    let world = ten("budget=0@Unhealthy budget=100%", &[SICK, "drifted=1h"]);
    let decision = decided(&world);
    assert_eq!(of(&world, &decision), Vec::<String>::new());
    let methods: Vec<_> = decision.commands.iter().map(|command| command.method).collect();
    assert_eq!((methods, kept(&decision, "n0")), (vec![Method::Drift], Some(ReasonCode::Budget)));
    let told = "No allowed disruptions for disruption reason Unhealthy due to blocking budget";
    assert!(decision.notes.iter().any(|note| note.message == told));
}

#[test]
fn more_than_a_fifth_of_a_pool_opens_the_breaker() {
    let fresh = "sick=Ready/False/1s";
    let decision = decided(&ten("budget=100%", &[SICK, fresh, fresh]));
    assert_eq!((decision.commands.len(), kept(&decision, "n0")), (0, Some(ReasonCode::RepairBreaker)));
    let notes: Vec<_> =
        decision.notes.iter().filter(|note| note.kind == NoteKind::NodeRepairBlocked).collect();
    let text = "more than 20% of nodes in nodepool \"web\" are unhealthy";
    assert_eq!(notes.len(), 2, "the node and the pool");
    assert!(notes.iter().all(|note| note.message == text));
    assert_eq!(gone(&ten("budget=100%", &[SICK, fresh])), ["n0"], "two of ten is a fifth");
}

#[test]
fn one_of_five_is_repaired_because_shares_are_rounded_up() {
    for (nodes, broken, repaired) in [(1, 1, 1), (2, 2, 0), (5, 1, 1), (5, 2, 0), (6, 2, 1)] {
        let mut text = format!("{WORLD}pool  web types=* consolidate=never\n");
        for number in 0..nodes {
            let own = if number < broken { SICK } else { "" };
            let _ = writeln!(text, "node n{number} pool=web type=small zone=a capacity=on-demand {own}");
        }
        let world = snapshot(&text);
        assert_eq!(gone(&world).len(), repaired, "{broken} of {nodes}");
    }
}

#[test]
fn pods_that_must_stay_hold_a_repair_only_where_its_drain_has_no_end() {
    let endless = "sick=Kernel/False/31m";
    for (node, goes) in [(SICK, true), (endless, false), ("sick=Kernel/False/31m grace=1h", true)] {
        for pod in ["do-not-disrupt", "label=app=a"] {
            let text = format!(
                "{WORLD}pool  web types=* consolidate=never budget=100%
pdb   a label=app=a max-unavailable=0 allowed=0
node  n0 pool=web type=small zone=a capacity=on-demand {node}
node  n{{1..9}} pool=web type=small zone=a capacity=on-demand
pod   p cpu=1500m {pod} on=n0\n"
            );
            let world = snapshot(&text);
            let decision = decided(&world);
            assert_eq!(!of(&world, &decision).is_empty(), goes, "{node}, {pod}");
            let told = "repair requires a termination grace period to bypass blocking pods";
            assert_eq!(decision.notes.iter().any(|note| note.message == told), !goes, "{node}, {pod}");
        }
    }
}

#[test]
fn do_not_repair_counts_on_either_object_and_do_not_disrupt_on_none() {
    let said = "annotation=karpenter.sh/do-not-repair";
    let told = "repair is blocked through the \"karpenter.sh/do-not-repair\" annotation";
    let fresh = "sick=Ready/False/29m";
    for (node, goes, tells) in [
        (format!("{SICK} {said}=true"), false, true),
        (format!("{SICK} claim-{said}=true"), false, true),
        (format!("{SICK} {said}=yes"), true, false),
        (format!("{fresh} {said}=true"), false, false),
        (format!("{SICK} annotation=karpenter.sh/do-not-disrupt=true"), true, false),
    ] {
        let world = ten("", &[&node]);
        let decision = decided(&world);
        assert_eq!(!of(&world, &decision).is_empty(), goes, "{node}");
        assert_eq!(decision.notes.iter().any(|note| note.message == told), tells, "{node}");
    }
}

#[test]
fn a_node_that_has_not_come_up_needs_no_budget() {
    let world = ten("budget=0", &["not-ready state=registered sick=Ready/False/31m"]);
    assert_eq!(gone(&world), ["n0"]);
    assert_eq!(gone(&ten("budget=0", &[SICK])), Vec::<String>::new());
    // It takes no budget from others, either: the next one goes as if it were not there.
    let running: BTreeSet<NodeId> = [NodeId::from("n0")].into();
    let both = ten("budget=1", &["not-ready state=registered sick=Ready/False/31m", SICK]);
    let standing = Standing { proposed: &[], running: &running };
    assert_eq!(of(&both, &decide(&both, &mut Memory::default(), &standing)), ["n1"]);
}

#[test]
fn the_first_node_whose_pods_have_a_place_goes() {
    let text = format!(
        "{WORLD}pool  web types=* consolidate=never budget=100%
node  n0 pool=web type=small zone=a capacity=on-demand sick=Ready/False/50m
node  n1 pool=web type=small zone=a capacity=on-demand sick=Ready/False/40m
node  n{{2..9}} pool=web type=small zone=a capacity=on-demand
pod   stuck cpu=1 select=team=none on=n0
pod   p cpu=1500m on=n1\n"
    );
    let world = snapshot(&text);
    let decision = decided(&world);
    assert_eq!(of(&world, &decision), ["n1"]);
    assert_eq!(kept(&decision, "n0"), Some(ReasonCode::CannotReschedule));
    assert!(decision.notes.iter().any(|note| note.message.starts_with("Not all pods would schedule, ")));
}

#[test]
fn a_static_pool_gets_one_like_it_as_far_as_its_limit_goes() {
    let run = |pool: &str| {
        let world = ten(pool, &[SICK]);
        let decision = decided(&world);
        (of(&world, &decision), decision)
    };
    let (gone, decision) = run("replicas=10 limit=nodes=11");
    assert_eq!((gone.len(), decision.commands[0].replacements.len()), (1, 1));
    assert_eq!(decision.commands[0].nominations, []);
    let (gone, decision) = run("replicas=10 limit=nodes=10");
    assert_eq!((gone.len(), kept(&decision, "n0")), (0, Some(ReasonCode::NoHeadroom)));
    let told = "static NodePool is at its node limit and cannot stage a replacement";
    assert!(decision.notes.iter().any(|note| note.message == told));
    let (gone, decision) = run("replicas=9");
    assert_eq!((gone.len(), kept(&decision, "n0")), (0, Some(ReasonCode::ScaleDownFirst)));
}

fn looked(world: &Snapshot, command: &Command) -> Result<Command, Rejection> {
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    confirm(world, std::slice::from_ref(command), &standing).remove(0)
}

#[test]
fn the_look_after_the_taint_sees_what_has_changed() {
    let world = ten("", &[SICK]);
    let command = decided(&world).commands[0].clone();
    assert_eq!(looked(&world, &command), Ok(command.clone()));
    let kind = |pool: &str, nodes: &[&str]| looked(&ten(pool, nodes), &command).map_err(|error| error.kind);
    let (churn, budget) = (Err(RejectionKind::Churn), Err(RejectionKind::Budget));
    assert_eq!(kind("", &[]), churn, "it has recovered");
    assert_eq!(kind("", &[&format!("{SICK} annotation=karpenter.sh/do-not-repair=true")]), churn);
    assert_eq!(kind("", &[SICK, SICK, SICK]), churn, "the breaker is open");
    assert_eq!(kind("budget=0", &[SICK]), budget);
    let sooner = kind("", &[&format!("{SICK} grace=1m")]).unwrap();
    assert_eq!(sooner.repair.unwrap().drain, Some(Duration::from_mins(1)));
    let fixed = decided(&ten("replicas=10", &[SICK])).commands[0].clone();
    assert_eq!(looked(&ten("replicas=10", &[SICK]), &fixed), Ok(fixed));
}

#[test]
fn a_repair_that_failed_waits_before_the_next_try() {
    let world = ten("", &[SICK]);
    let memory = &mut Memory::default();
    let none = Standing { proposed: &[], running: &BTreeSet::new() };
    let command = decide(&world, memory, &none).commands[0].clone();
    memory.rolled_back(&command, "no capacity", world.now);
    let after = |seconds| Snapshot { now: world.now + Duration::from_secs(seconds), ..world.clone() };
    let soon = decide(&after(10), memory, &none);
    assert_eq!((soon.commands.len(), kept(&soon, "n0")), (0, Some(ReasonCode::Rejected)));
    assert_eq!(of(&after(31), &decide(&after(31), memory, &none)), ["n0"]);
}

#[test]
fn a_cluster_that_stands_still_is_looked_at_again_when_a_toleration_is_over() {
    let world = ten("", &["not-ready sick=Ready/False/29m"]);
    let memory = &mut Memory::default();
    let none = Standing { proposed: &[], running: &BTreeSet::new() };
    let after = |seconds| Snapshot { now: world.now + Duration::from_secs(seconds), ..world.clone() };
    assert_eq!(decide(&world, memory, &none).commands, []);
    assert_eq!(decide(&after(59), memory, &none).commands, []);
    assert_eq!(of(&after(60), &decide(&after(60), memory, &none)), ["n0"]);
    // A process that starts in between counts on.
    assert_eq!(of(&after(60), &decide(&after(60), &mut Memory::default(), &none)), ["n0"]);
}

#[test]
fn a_promise_holds_a_repair_only_while_the_node_is_ready() {
    let silent = ten("", &["not-ready nominated=10s sick=Ready/False/31m"]);
    assert_eq!(gone(&silent), ["n0"]);
    let ready = ten("", &["nominated=10s sick=Kernel/False/31m"]);
    assert_eq!(gone(&ready), [""; 0]);
}

const REBOOTS: &str = "
set   static=on
repair Gpu reason=XID48 after=10m grace=5m action=reboot
repair Gpu after=30m grace=10m
type  small cpu=2 mem=4Gi pods=10 od=0.10 zones=a
";

/// A pool of five whose first node has shown a code that a restart clears for 12 minutes.
fn to_reboot(pool: &str) -> Snapshot {
    snapshot(&format!(
        "{REBOOTS}pool  web types=* consolidate=never {pool}
node  n0 pool=web type=small zone=a capacity=on-demand sick=Gpu/False/12m/XID48
node  n{{1..4}} pool=web type=small zone=a capacity=on-demand
pod   p cpu=1500m on=n0
pod   q cpu=1500m on=n1\n"
    ))
}

#[test]
fn the_third_reboot_within_a_day_is_a_replacement() {
    let world = to_reboot("");
    let memory = &mut Memory::default();
    let none = Standing { proposed: &[], running: &BTreeSet::new() };
    for (hours, reboots) in [(0, true), (10, true), (23, false), (25, true)] {
        let now = Snapshot { now: world.now + Duration::from_hours(hours), ..world.clone() };
        let decision = decide(&now, memory, &none);
        assert_eq!(of(&now, &decision), ["n0"], "after {hours} h");
        let command = &decision.commands[0];
        assert_eq!(command.is_reboot(), reboots, "after {hours} h");
        assert_eq!(command.nominations.is_empty(), reboots, "a replacement needs places for pods");
        assert_eq!(looked(&now, command), Ok(command.clone()));
        if reboots {
            memory.started(command, &[], now.now);
        }
    }
}

#[test]
fn a_reboot_needs_no_place_and_no_room_but_the_budget() {
    for (pool, reboots) in [
        ("", true),
        ("replicas=5 limit=nodes=5", true),
        ("replicas=4", true),
        ("budget=0", false),
        ("budget=0@Unhealthy budget=100%", false),
    ] {
        let world = to_reboot(pool);
        let decision = decided(&world);
        assert_eq!(!of(&world, &decision).is_empty(), reboots, "{pool}");
        assert!(decision.commands.iter().all(|command| command.replacements.is_empty()), "{pool}");
    }
}
