//! Every rule about commands finds the command that breaks it.
//!
//! Disruption makes sound commands for small clusters; each test breaks one in one way, or changes the cluster under
//! it.

use std::collections::BTreeSet;

use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::{Command, DisruptionReason, Method, Plan, Price, Snapshot, Target};
use karpenter_testkit::snapshot;

const TYPES: &str = "
type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b
type  mid   cpu=4 mem=8Gi pods=20 od=0.20 spot=0.08 zones=a,b
type  large cpu=8 mem=16Gi pods=40 od=0.40 spot=0.16 zones=a,b
";

fn world(text: &str) -> Snapshot {
    snapshot(&format!("{TYPES}{text}"))
}

/// Returns the plan that disruption proposes for `text`.
fn plan(text: &str) -> Plan {
    let snapshot = world(text);
    let standing = Standing { proposed: &[], running: &BTreeSet::new() };
    let commands = decide(&snapshot, &mut Memory::default(), &standing).commands.clone();
    assert!(!commands.is_empty(), "nothing to break: {text}");
    Plan { revision: snapshot.revision, commands, ..Plan::default() }
}

fn rules(text: &str, plan: &Plan) -> Vec<Rule> {
    let mut rules: Vec<Rule> = audit(&world(text), plan).into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

/// Rules that the only command for `text` breaks after `change`; before it breaks none.
fn broken(text: &str, change: impl Fn(&mut Command)) -> Vec<Rule> {
    let mut plan = plan(text);
    assert_eq!(rules(text, &plan), [], "sound before the change");
    change(&mut plan.commands[0]);
    rules(text, &plan)
}

/// Rules that the commands for `text` break once `from` has become `to`.
fn outdated(text: &str, from: &str, to: &str) -> Vec<Rule> {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "`{from}` is not in the text");
    rules(&changed, &plan(text))
}

#[test]
fn an_estimate_is_not_held_against_a_price_that_was_told() {
    let guessed = "type slim cpu=2 mem=4Gi pods=10 od=0.05 zones=a,b";
    let text = format!("{guessed}\n{REPLACE}");
    assert_eq!(outdated(&text, guessed, &format!("{guessed} estimated=od")), [Rule::Price]);
}

const REPLACE: &str = "
pool  web types=* budget=100%
node  a pool=web type=large zone=a capacity=on-demand
pod   p cpu=1500m select=capacity=on-demand on=a
";

const DELETE: &str = "
pool  web types=* budget=100% limit=nodes=1
pool  calm types=* consolidate=never
node  a pool=web type=small zone=a capacity=on-demand
node  room pool=calm type=large zone=a capacity=on-demand
pod   p cpu=1 on=a
";

const MERGE: &str = "
pool  web types=mid,small budget=100%
node  a pool=web type=mid zone=a capacity=on-demand
node  b pool=web type=mid zone=a capacity=on-demand
node  c pool=web type=small zone=a capacity=on-demand
pod   p-{1..1} cpu=600m select=capacity=on-demand on=a
pod   q cpu=600m select=capacity=on-demand on=b
pod   r cpu=600m select=capacity=on-demand on=c
";

const DRIFT: &str = "
pool  web types=* budget=100%
node  a pool=web type=small zone=a capacity=on-demand drifted=1h
pod   p cpu=1500m on=a
";

const FIXED: &str = "
set   static=on
pool  web types=* replicas=1 budget=100%
node  a pool=web type=small zone=a capacity=on-demand drifted=1h
pod   p cpu=1500m on=a
";

const REPAIR: &str = "
repair Ready status=False after=30m grace=10m
repair Gpu reason=XID48 after=10m grace=5m action=reboot
repair Gpu after=40m
pool  web types=* consolidate=never budget=1
node  a pool=web type=small zone=a capacity=on-demand not-ready sick=Ready/False/31m sick=Gpu/False/20m/XID48
node  b pool=web type=small zone=a capacity=on-demand
pod   p cpu=1500m on=a
";

#[test]
fn sound_commands_of_every_shape_have_no_findings() {
    for (text, method) in [
        (REPLACE, Method::SingleNode),
        (DELETE, Method::SingleNode),
        (MERGE, Method::MultiNode),
        (DRIFT, Method::Drift),
        (FIXED, Method::StaticDrift),
        (REPAIR, Method::Repair),
    ] {
        let plan = plan(text);
        assert_eq!(plan.commands[0].method, method, "{text}");
        assert_eq!(audit(&world(text), &plan), [], "{text}");
    }
}

#[test]
fn commands_are_what_their_method_may_propose() {
    assert!(broken(REPLACE, |command| command.method = Method::Emptiness).contains(&Rule::Command));
    assert!(broken(REPLACE, |command| command.method = Method::MultiNode).contains(&Rule::Command));
    assert!(broken(REPLACE, |command| command.method = Method::ManyToMany).contains(&Rule::Command));
    assert!(broken(REPLACE, |command| command.candidates.clear()).contains(&Rule::Command));
    assert_eq!(broken(DRIFT, |command| command.reason = DisruptionReason::Empty), [Rule::Command]);
    assert_eq!(broken(REPLACE, |command| command.savings = Price::from_nanos(1)), [Rule::Command]);
    let twice = |command: &mut Command| command.replacements.push(command.replacements[0].clone());
    assert!(broken(REPLACE, twice).contains(&Rule::Command));
    let again = |command: &mut Command| command.candidates.push(command.candidates[0].clone());
    assert!(broken(REPLACE, again).contains(&Rule::Removal));
}

#[test]
fn repairs_are_for_what_is_broken_and_follow_the_policy_that_counts() {
    let repair = |change: fn(&mut karpenter_model::repair::Repair)| {
        broken(REPAIR, |command| change(command.repair.as_mut().unwrap()))
    };
    assert_eq!(repair(|repair| repair.condition = "Gpu".to_owned()), [Rule::Removal]);
    assert_eq!(repair(|repair| repair.drain = Some(std::time::Duration::from_mins(10))), [Rule::Removal]);
    assert_eq!(broken(REPAIR, |command| command.repair = None), [Rule::Removal]);
    let stated = plan(REPAIR).commands[0].repair.clone();
    assert_eq!(broken(DRIFT, |command| command.repair.clone_from(&stated)), [Rule::Removal]);
    let changed = |from, to| outdated(REPAIR, from, to);
    assert_eq!(changed("sick=Ready/False/31m", "sick=Ready/False/29m"), [Rule::Removal]);
    assert_eq!(changed("not-ready", "annotation=karpenter.sh/do-not-repair=true"), [Rule::Removal]);
    assert_eq!(changed("not-ready", "claim-annotation=karpenter.sh/do-not-repair=true"), [Rule::Removal]);
    let second = "on-demand\npod";
    assert_eq!(changed(second, "on-demand sick=Ready/False/1s\npod"), [Rule::Removal], "too many");
    assert_eq!(changed("budget=1", "budget=0"), [Rule::Budget]);
    assert_eq!(changed("grace=5m", "grace=6m"), [Rule::Removal], "another bound");
    // Neither that it has not come up nor its own word protects it, and it needs no budget then.
    assert_eq!(changed("not-ready", "not-ready annotation=karpenter.sh/do-not-disrupt=true"), []);
    assert_eq!(changed("not-ready", "not-ready state=registered"), []);
    assert!(rules(&REPAIR.replace("repair", "# repair"), &plan(REPAIR)).contains(&Rule::Command));
}

#[test]
fn static_machines_are_replaced_by_what_their_template_says() {
    let narrowed = |command: &mut Command| command.replacements[0].instance_types = ["small".into()].into();
    assert_eq!(broken(FIXED, narrowed), [Rule::Command]);
    assert_eq!(broken(FIXED, |command| command.replacements[0].pool_hash = "2".into()), [Rule::Command]);
    assert_eq!(outdated(FIXED, "set   static=on\n", ""), [Rule::Command], "the gate is off");
    assert_eq!(outdated(FIXED, " replicas=1", ""), [Rule::Removal], "not static any more");
}

#[test]
fn machines_must_qualify_for_the_method_that_removes_them() {
    let changes = [
        (DRIFT, " drifted=1h", ""),
        (DRIFT, " drifted=1h", " drifted=1h nominated=5s"),
        (DRIFT, "on=a", "on=a do-not-disrupt"),
        (DRIFT, "\npool", "\nset zones-away=a\npool"),
        (DRIFT, "types=*", "types=* replicas=1"),
        (DELETE, " limit=nodes=1", " limit=nodes=1 policy=when-empty"),
        (DELETE, " limit=nodes=1", " limit=nodes=1 consolidate=2h"),
        (DELETE, " limit=nodes=1", " limit=nodes=1 consolidate=never"),
        (DELETE, "zone=a capacity", "capacity"),
        (REPLACE, "capacity=on-demand\n", "capacity=on-demand leaving\n"),
    ];
    for (text, from, to) in changes {
        assert!(outdated(text, from, to).contains(&Rule::Removal), "{from} -> {to}");
    }
}

#[test]
fn pods_hold_a_drifted_machine_unless_its_drain_has_a_deadline() {
    let guarded = |more: &str| {
        let text = DRIFT.replace("drifted=1h", &format!("drifted=1h {more}"));
        let with_guard = format!("{text}pdb all max-unavailable=1 allowed=0\n");
        rules(&with_guard, &plan(&text))
    };
    assert_eq!(guarded(""), [Rule::Removal]);
    assert_eq!(guarded("grace=1h"), []);
    let text = DELETE.replace("type=small", "type=small grace=1h");
    let with_guard = format!("{text}pdb all max-unavailable=1 allowed=0\n");
    assert!(rules(&with_guard, &plan(&text)).contains(&Rule::Removal), "it does not help others");
}

#[test]
fn every_pod_that_must_move_has_a_place_in_its_command() {
    assert_eq!(broken(DELETE, |command| command.nominations.clear()), [Rule::Displaced]);
    let elsewhere = |command: &mut Command| command.nominations[0].target = Target::Node("a".into());
    assert!(broken(DELETE, elsewhere).contains(&Rule::Removal), "to the machine that goes");
    let nowhere = |command: &mut Command| command.nominations[0].target = Target::Node("gone".into());
    assert_eq!(broken(DELETE, nowhere), [Rule::Unusable]);
    let without = |command: &mut Command| command.replacements[0].pods.clear();
    assert!(broken(REPLACE, without).contains(&Rule::Displaced));
}

#[test]
fn places_must_hold_the_pods_all_commands_send_there() {
    assert_eq!(
        outdated(DELETE, "pod   p cpu=1", "pod   big cpu=7500m on=room\npod   p cpu=1"),
        [Rule::Capacity]
    );
    assert_eq!(outdated(DRIFT, "cpu=1500m", "cpu=16"), [Rule::Capacity]);
    assert_eq!(outdated(DRIFT, "budget=100%", "budget=100% limit=cpu=1"), [Rule::Limits]);
    let mut both = plan(DELETE);
    both.commands.push(both.commands[0].clone());
    assert!(
        rules(DELETE, &both).contains(&Rule::PlacedTwice) || rules(DELETE, &both).contains(&Rule::Removal)
    );
}

#[test]
fn even_the_dearest_outcome_costs_less_than_what_goes() {
    let small = "type  small cpu=2 mem=4Gi pods=10 od=0.10 spot=0.04 zones=a,b";
    let dearer = format!("{TYPES}{REPLACE}").replace(small, &small.replace("od=0.10", "od=0.40"));
    let findings = audit(&snapshot(&dearer), &plan(REPLACE));
    assert!(findings.iter().any(|finding| finding.rule == Rule::Price), "{findings:?}");
    let stated = |command: &mut Command| {
        command.candidates[0].price = Price::from_nanos(900_000_000);
        command.savings = command.savings.saturating_add(Price::from_nanos(500_000_000));
    };
    assert_eq!(broken(REPLACE, stated), [Rule::Price], "the machine does not cost that much");
}

#[test]
fn several_machines_are_not_replaced_by_one_of_them() {
    // Two of three would do to go; a small one in their place instead is one that could have stayed.
    let back = |command: &mut Command| {
        let launch = &mut command.replacements;
        assert!(launch.len() <= 1);
    };
    assert_eq!(broken(MERGE, back), []);
    let text = "
pool  web types=* budget=100%
node  a pool=web type=mid zone=a capacity=on-demand
node  b pool=web type=mid zone=a capacity=on-demand
pod   p cpu=900m select=capacity=on-demand on=a
pod   q cpu=900m select=capacity=on-demand on=b
";
    let merged = plan(text);
    assert_eq!(merged.commands[0].method, Method::MultiNode);
    assert_eq!(rules(text, &merged), []);
    // The same merge if one of them had been a cheap small machine.
    let cheap =
        text.replacen("type=mid zone=a capacity=on-demand", "type=small zone=a capacity=on-demand", 1);
    let mut same = merged.clone();
    let saved = Price::from_nanos(100_000_000);
    same.commands[0].candidates[0].instance_type = Some("small".into());
    same.commands[0].candidates[0].price = saved;
    same.commands[0].savings = same.commands[0].savings.saturating_sub(saved);
    assert_eq!(rules(&cheap, &same), [Rule::Price]);
}

#[test]
fn spot_is_replaced_by_spot_only_with_the_gate_and_enough_choice() {
    let text = "
set   spot-to-spot=on
pool  web types=* budget=100%
node  a pool=web type=large zone=a capacity=spot
pod   p cpu=1500m on=a
";
    // As if it had been bought on demand: a replacement by spot is fine.
    let on_demand = text.replace("capacity=spot", "capacity=on-demand");
    let mut plan = plan(&on_demand);
    assert_eq!(rules(&on_demand, &plan), []);
    let spot = &mut plan.commands[0];
    spot.candidates[0].capacity_type = Some(karpenter_model::CapacityType::Spot);
    spot.savings = spot.savings.saturating_sub(Price::from_nanos(240_000_000));
    spot.candidates[0].price = Price::from_nanos(160_000_000);
    let with_gate = audit(&world(text), &plan);
    let about_spot = |finding: &&karpenter_audit::Finding| finding.rule == Rule::Spot;
    assert_eq!(with_gate.iter().filter(about_spot).count(), 1, "a choice of three");
    let without_gate = audit(&world(&text.replace("set   spot-to-spot=on\n", "")), &plan);
    assert_eq!(without_gate.iter().filter(about_spot).count(), 2, "and switched off");
    let mixed = |command: &mut Command| {
        let key = karpenter_model::names::label::CAPACITY_TYPE;
        let both = ["on-demand", "spot"].map(Into::into);
        command.replacements[0].requirements.replace(karpenter_model::Requirement::one_of(key.into(), both));
    };
    assert!(broken(&on_demand, mixed).contains(&Rule::Spot), "the launch might fall back to on-demand");
}

#[test]
fn balanced_pools_ask_for_savings_worth_the_disturbance() {
    let text = "
pool  web types=* budget=100% policy=balanced
node  a pool=web type=large zone=a capacity=on-demand
node  b pool=web type=large zone=a capacity=on-demand quiet=0s
pod   p cpu=1500m select=capacity=on-demand on=a
pod   q cpu=7 select=capacity=on-demand on=b
";
    let plan = plan(text);
    assert_eq!(plan.commands.len(), 1);
    assert_eq!(rules(text, &plan), []);
    let dearer = text.replace("pod   p cpu=1500m", "pod   p priority=200000000 cpu=1500m");
    assert_eq!(rules(&dearer, &plan), [Rule::Score], "p counts five times as much as q");
    assert_eq!(rules(&dearer.replace(" policy=balanced", ""), &plan), []);
}

#[test]
fn budgets_count_commands_of_every_reason_in_their_order() {
    let text = "
pool  web types=* budget=2
node  a pool=web type=small zone=a capacity=on-demand
node  b pool=web type=small zone=a capacity=on-demand drifted=1h
node  c pool=web type=small zone=a capacity=on-demand
pod   p cpu=1500m on=b
pod   q cpu=1500m on=c
";
    assert_eq!(plan(text).commands.len(), 2);
    assert_eq!(outdated(text, "budget=2", "budget=1"), [Rule::Budget]);
    assert_eq!(
        outdated(text, "budget=2", "budget=2 budget=1@Drifted"),
        [Rule::Budget],
        "one is gone by then"
    );
    assert_eq!(outdated(text, "budget=2", "budget=2 budget=1@Empty"), []);
    assert_eq!(outdated(text, "budget=2", "budget=2 budget=0@Underutilized"), []);
    assert_eq!(outdated(text, "budget=2", "budget=2 budget=nonsense@Underutilized"), [Rule::Budget]);
    assert_eq!(
        outdated(text, "budget=2", "budget=2 budget=9@Underutilized@not_a_schedule/1h"),
        [Rule::Budget]
    );
}

#[test]
fn a_machine_that_holds_the_room_of_a_capacity_buffer_is_not_empty() {
    let text = "
pool  web types=* budget=100%
node  a pool=web type=small zone=a capacity=spot
";
    let (plan, mut snapshot) = (plan(text), world(text));
    assert_eq!(audit(&snapshot, &plan), []);
    std::sync::Arc::make_mut(&mut snapshot.nodes[0]).buffer_pods = 1;
    let rules: Vec<Rule> = audit(&snapshot, &plan).into_iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::Removal]);
}
