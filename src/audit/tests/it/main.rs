//! Every rule finds the plan that breaks it, and a sound plan has no findings.
//!
//! The planner makes a sound plan of a small world; each test breaks it in one way, or changes the world under
//! it, and expects exactly the rule that guards against that.

mod commands;
mod devices;
mod promises;
mod sound_part;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::names::{annotation, label};
use karpenter_model::{
    ClaimName, Command, Launch, NodeId, Nomination, Plan, PodKey, Price, RemovalTarget, Requirement,
    Snapshot, Taint, Target,
};

const WORLD: &str = "
type  small cpu=2 mem=4Gi od=0.10 spot=0.04 zones=a,b
type  large cpu=4 mem=8Gi od=0.20 spot=0.08 zones=a,b label=gen=5
pool  web types=* label=team=a
pool  big types=large require=type:Exists/min=1
daemon logs cpu=100m mem=64Mi port=9100
node  n1 pool=web type=large zone=a capacity=spot
node  n2 pool=web type=large zone=b capacity=spot
pod   one cpu=1500m mem=1Gi select=pool=big
pod   two cpu=500m mem=1Gi
pod   busy cpu=1 mem=1Gi on=n1
";

fn world(more: &str) -> Snapshot {
    karpenter_testkit::snapshot(&format!("{WORLD}{more}"))
}

fn sound() -> (Snapshot, Plan) {
    let snapshot = world("");
    let (mut plan, _) = karpenter_engine::plan(&snapshot);
    plan.commands = commands(&snapshot);
    (snapshot, plan)
}

/// Returns the commands of disruption when nothing is under way.
fn commands(snapshot: &Snapshot) -> Vec<Command> {
    let running = BTreeSet::<NodeId>::new();
    let standing = Standing { proposed: &[], running: &running };
    decide(snapshot, &mut Memory::default(), &standing).commands.clone()
}

/// Rules a changed plan breaks.
fn broken(change: impl Fn(&mut Plan)) -> Vec<Rule> {
    let (snapshot, mut plan) = sound();
    change(&mut plan);
    rules(&snapshot, &plan)
}

/// Rules a changed launch breaks.
fn broken_launch(change: impl Fn(&mut Launch)) -> Vec<Rule> {
    broken(|plan| change(&mut plan.launches[0]))
}

/// Rules the sound plan breaks in a world that has changed under it.
fn broken_world(more: &str) -> Vec<Rule> {
    let (_, plan) = sound();
    rules(&world(more), &plan)
}

fn rules(snapshot: &Snapshot, plan: &Plan) -> Vec<Rule> {
    let mut rules: Vec<Rule> = audit(snapshot, plan).into_iter().map(|finding| finding.rule).collect();
    rules.dedup();
    rules
}

fn key(name: &str) -> PodKey {
    PodKey::new("default", name)
}

fn node(name: &str) -> Target {
    Target::Node(name.into())
}

#[test]
fn the_sound_plan_uses_every_part_and_has_no_findings() {
    let (snapshot, plan) = sound();
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(plan.launches[0].pods, [key("one")]);
    assert_eq!(plan.nominations, [Nomination { pod: key("two"), target: node("n1") }]);
    assert_eq!(plan.commands.len(), 1, "n2 is empty");
    assert_eq!(audit(&snapshot, &plan), []);
}

#[test]
fn stale_plans_are_refused() {
    assert_eq!(broken(|plan| plan.revision += 1), [Rule::Stale]);
}

#[test]
fn pods_are_placed_once_and_only_if_they_wait() {
    let again = |plan: &mut Plan| plan.nominations.push(Nomination { pod: key("one"), target: node("n1") });
    assert_eq!(
        broken(again),
        [Rule::PlacedTwice, Rule::Requirements],
        "n1 is not of the pool the pod selects"
    );
    assert_eq!(broken_launch(|launch| launch.pods.push(key("busy"))), [Rule::NotWaiting]);
    assert_eq!(broken_launch(|launch| launch.pods.push(key("absent"))), [Rule::NotWaiting]);
}

#[test]
fn claims_look_like_their_pool() {
    let changes: [fn(&mut Launch); 7] = [
        |launch| launch.pool_hash = "2".into(),
        |launch| launch.startup_taints.push(Taint::unregistered()),
        |launch| launch.node_class.name = "other".into(),
        |launch| launch.expire_after = Some(std::time::Duration::from_secs(1)),
        |launch| {
            launch.labels.remove(label::NODE_POOL);
        },
        |launch| {
            launch.annotations.remove(annotation::POOL_HASH);
        },
        |launch| launch.requirements.add(karpenter_model::Requirement::exists(label::HOSTNAME.into())),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_eq!(broken_launch(change), [Rule::Template], "change {index}");
    }
    assert!(broken_launch(|launch| launch.pool = "gone".into()).contains(&Rule::Unusable));
}

#[test]
fn instance_types_exist_are_distinct_and_match_the_requirement() {
    assert!(broken_launch(|launch| launch.instance_types = [].into()).contains(&Rule::InstanceTypes));
    let more = |launch: &mut Launch, name: &str| {
        launch.instance_types = launch.instance_types.iter().cloned().chain([name.into()]).collect();
    };
    assert!(broken_launch(|launch| more(launch, "huge")).contains(&Rule::InstanceTypes));
    assert!(broken_launch(|launch| more(launch, "large")).contains(&Rule::InstanceTypes));
    let many =
        |launch: &mut Launch| launch.instance_types = (0..601).map(|n| format!("t{n}").into()).collect();
    assert!(broken_launch(many).contains(&Rule::InstanceTypes));
}

#[test]
fn the_cheapest_offering_is_the_cheapest() {
    let dearer = |launch: &mut Launch| {
        launch.cheapest.as_mut().expect("invariant: types are listed").price = Price::from_nanos(1);
    };
    assert_eq!(broken_launch(dearer), [Rule::PriceOrder]);
}

#[test]
fn dearer_types_do_not_come_first() {
    let snapshot = karpenter_testkit::snapshot(
        &WORLD.replace("types=large", "types=*").replace("cpu=1500m", "cpu=100m"),
    );
    let (mut plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(audit(&snapshot, &plan), []);
    Arc::make_mut(&mut plan.launches[0].instance_types).reverse();
    assert_eq!(rules(&snapshot, &plan), [Rule::PriceOrder]);
}

#[test]
fn min_values_hold() {
    let more = |launch: &mut Launch| {
        let asked = launch.requirements.value_of(&label::INSTANCE_TYPE.into()).with_min_values(Some(2));
        launch.requirements.replace(asked);
    };
    assert_eq!(broken_launch(more), [Rule::MinValues]);
}

// core#2999
#[test]
fn values_that_a_claim_rules_out_do_not_count_for_min_values() {
    let [zones, both] = [label::ZONE, label::CAPACITY_TYPE].map(|key| {
        move |launch: &mut Launch| {
            let asked = launch.requirements.value_of(&key.into());
            let first = asked.any().filter(|_| key == label::CAPACITY_TYPE).unwrap_or_else(|| "a".into());
            let one = Requirement::one_of(key.into(), [first]).with_min_values(Some(2));
            launch.requirements.replace(one);
        }
    });
    assert!(broken_launch(zones).contains(&Rule::MinValues));
    assert!(broken_launch(both).contains(&Rule::MinValues));
}

#[test]
fn claims_imply_what_their_pods_ask() {
    let widen = |launch: &mut Launch| launch.requirements.remove(label::NODE_POOL);
    assert_eq!(broken_launch(widen), [Rule::Requirements]);
    assert_eq!(broken_launch(|launch| launch.pods.push(key("two"))), [Rule::PlacedTwice, Rule::Capacity]);
}

#[test]
fn offerings_are_available_and_pods_fit() {
    let gone = WORLD
        .replace("spot=0.08 zones=a,b", "spot=0.08 zones=a,b gone=a/od gone=b/od gone=a/spot gone=b/spot");
    let (_, plan) = sound();
    let found = rules(&karpenter_testkit::snapshot(&gone), &plan);
    assert_eq!(found, [Rule::Offering, Rule::PriceOrder, Rule::Capacity]);
    let heavier = WORLD.replace("pod   one cpu=1500m", "pod   one cpu=3950m");
    assert_eq!(rules(&karpenter_testkit::snapshot(&heavier), &plan), [Rule::Capacity], "daemons need 100m");
    let least = broken_launch(|launch| launch.requests.set("cpu", "1".parse().unwrap_or_default()));
    assert_eq!(least, [Rule::Capacity]);
    let most = broken_launch(|launch| launch.requests.set("cpu", "3".parse().unwrap_or_default()));
    assert_eq!(most, [Rule::Capacity]);
}

#[test]
fn hard_taints_are_tolerated_on_claims_and_nodes() {
    let tainted = |from: &str, to: &str| {
        let (_, plan) = sound();
        rules(&karpenter_testkit::snapshot(&WORLD.replace(from, to)), &plan)
    };
    assert_eq!(
        tainted("capacity=spot\nnode  n2", "capacity=spot taint=x:NoSchedule\nnode  n2"),
        [Rule::Taint]
    );
    let soft = tainted("capacity=spot\nnode  n2", "capacity=spot taint=x:PreferNoSchedule\nnode  n2");
    assert_eq!(soft, [], "a soft taint may be relaxed away");
    assert_eq!(broken_launch(|launch| launch.taints.push(Taint::disrupted())), [Rule::Template, Rule::Taint]);
}

#[test]
fn host_ports_do_not_clash() {
    let with_port = |pod: &str, port: u16| {
        let line = format!("pod   {pod} port={port}");
        karpenter_testkit::snapshot(&WORLD.replace(&format!("pod   {pod}"), &line))
    };
    let (_, plan) = sound();
    assert_eq!(rules(&with_port("one", 9100), &plan), [Rule::HostPort], "a daemon has it");
    assert_eq!(rules(&with_port("one", 80), &plan), []);
    let both = WORLD.replace("pod   two", "pod   two port=80").replace("pod   busy", "pod   busy port=80");
    assert_eq!(rules(&karpenter_testkit::snapshot(&both), &plan), [Rule::HostPort]);
}

#[test]
fn machines_pods_are_sent_to_exist_and_have_room() {
    let elsewhere = |target: Target| move |plan: &mut Plan| plan.nominations[0].target = target.clone();
    assert_eq!(broken(elsewhere(node("gone"))), [Rule::Unusable]);
    assert_eq!(broken(elsewhere(Target::Claim(ClaimName::from("web-gone")))), [Rule::Unusable]);
    assert_eq!(broken(elsewhere(node("n2"))), [Rule::Removal], "the plan removes n2");
    assert_eq!(broken_world("pod   hog cpu=2500m on=n1\n"), [Rule::Capacity]);
}

#[test]
fn anti_affinity_of_running_pods_keeps_others_out() {
    let labelled = WORLD.replace("pod   two", "pod   two label=app=w");
    let (_, plan) = sound();
    for domain in ["host", "zone", "old-zone"] {
        let text = format!("{labelled}pod   guard cpu=1m on=n1 anti-affinity={domain}/app=w\n");
        assert_eq!(rules(&karpenter_testkit::snapshot(&text), &plan), [Rule::AntiAffinity], "{domain}");
    }
}

#[test]
fn pods_that_need_what_is_not_planned_for_are_not_placed() {
    let (_, plan) = sound();
    let text = WORLD.replace("pod   two", "pod   two claims");
    assert_eq!(rules(&karpenter_testkit::snapshot(&text), &plan), [Rule::Unmodelled]);
}

#[test]
fn new_pods_keep_their_own_affinity() {
    let (_, plan) = sound();
    let two = |rule: &str, busy: &str| {
        let text = WORLD.replace("pod   two", &format!("pod   two {rule}"));
        rules(&karpenter_testkit::snapshot(&text.replace("pod   busy", &format!("pod   busy {busy}"))), &plan)
    };
    for key in ["host", "zone", "old-zone"] {
        assert_eq!(two(&format!("anti-affinity={key}/app=b"), "label=app=b"), [Rule::PodAffinity], "{key}");
        assert_eq!(two(&format!("affinity={key}/app=b"), ""), [Rule::PodAffinity], "{key}");
        assert_eq!(two(&format!("affinity={key}/app=b"), "label=app=b"), [], "{key}");
        assert_eq!(two(&format!("anti-affinity={key}/app=b"), ""), [], "{key}");
    }
}

#[test]
fn company_is_a_pod_that_all_affinity_terms_select() {
    let (_, plan) = sound();
    let two = |rule: &str, busy: &str| {
        let text = WORLD.replace("pod   two", &format!("pod   two {rule}"));
        let text = text.replace("pod   busy", &format!("pod   busy {busy}"));
        let other = "pod   other cpu=1m label=team=t on=n1\n";
        rules(&karpenter_testkit::snapshot(&format!("{text}{other}")), &plan)
    };
    for (one, other) in [("host", "host"), ("zone", "zone"), ("host", "zone")] {
        let terms = format!("affinity={one}/app=b affinity={other}/team=t");
        assert_eq!(two(&terms, "label=app=b"), [Rule::PodAffinity], "{terms}: each term selects another pod");
        assert_eq!(two(&terms, "label=app=b label=team=t"), [], "{terms}");
        let itself = |labels: &str| two(&format!("{terms} {labels}"), "label=app=b");
        assert_eq!(itself("label=app=b"), [Rule::PodAffinity], "{terms}: it matches one of its terms");
        assert_eq!(itself("label=app=b label=team=t"), [], "{terms}: it may be the first");
    }
}

#[test]
fn new_pods_keep_their_own_spread() {
    let (_, plan) = sound();
    let busy = |count: u32, rule: &str| {
        let text = WORLD.replace("pod   two", &format!("pod   two label=app=w {rule}"));
        let more = format!("pod   more-{{1..{count}}} cpu=1m label=app=w on=n1\n");
        rules(&karpenter_testkit::snapshot(&format!("{text}{more}")), &plan)
    };
    for key in ["host", "zone", "old-zone"] {
        assert_eq!(busy(1, &format!("spread={key}/1")), [Rule::Spread], "{key}");
        assert_eq!(busy(1, &format!("spread={key}/2")), [], "{key}");
        assert_eq!(busy(2, &format!("spread={key}/2")), [Rule::Spread], "{key}");
        assert_eq!(busy(2, &format!("spread={key}/2/soft")), [], "{key}");
    }
}

#[test]
fn new_pods_keep_the_default_spread_unless_they_have_one_of_their_own() {
    let (_, plan) = sound();
    let busy = |settings: &str, more: &str, rule: &str| {
        let text = WORLD.replace("pod   two", &format!("pod   two label=app=w {rule}"));
        let more = format!("{settings}\n{more}\npod   more cpu=1m label=app=w on=n1\n");
        rules(&karpenter_testkit::snapshot(&format!("{text}{more}")), &plan)
    };
    let (service, other) = ("service front label=app=w", "service front label=app=other");
    let defaults = "set spread=zone/1";
    assert_eq!(busy(defaults, service, ""), [Rule::Spread]);
    assert_eq!(busy("set spread=zone/2", service, ""), []);
    assert_eq!(busy("set spread=zone/1/soft", service, ""), []);
    assert_eq!(busy(defaults, other, ""), [], "nothing selects the pod");
    assert_eq!(busy(defaults, service, "spread=host/5"), [], "it has a constraint of its own");
    assert_eq!(busy(defaults, "", "of=set"), [], "of the owner nothing is known");
    assert_eq!(busy(defaults, "owner set label=app=w", "of=set"), [Rule::Spread]);
}

#[test]
fn a_spread_counts_the_nodes_the_scheduler_counts() {
    let (_, plan) = sound();
    let keeps = |rule: &str, other: &str, there: u32| {
        let text = WORLD
            .replace("pod   two", &format!("pod   two label=app=w {rule}"))
            .replace("pod   busy", "pod   busy label=app=w")
            .replace("node  n2 pool=web type=large zone=b", &format!("node  n2 pool=web type=large {other}"));
        let more = format!("pod   there-{{1..{there}}} cpu=1m label=app=w on=n2\n");
        let more = if there == 0 { "" } else { &more };
        !rules(&karpenter_testkit::snapshot(&format!("{text}{more}")), &plan).contains(&Rule::Spread)
    };
    // Pod two joins a pod on n1 in zone a, so that there are two.
    let (a, either) = ("require=zone:In:a", "require=zone:In:a require=zone:In:b");
    let (elsewhere, ignore) = ("require=zone:In:a require=zone:In:c", "/affinity=ignore");
    let table = [
        ("only zone a is the pod's", format!("{a} spread=zone/1"), "zone=b", 0, true),
        ("but every node counts", format!("{a} spread=zone/1{ignore}"), "zone=b", 0, false),
        ("where a pod is there", format!("{a} spread=zone/1{ignore}"), "zone=b", 1, true),
        ("outside of the pools", format!("{a} spread=zone/1{ignore}"), "zone=d", 0, false),
        ("none in zone b", format!("{a} spread=zone/1{ignore}"), "zone=a", 0, true),
        ("as for the first term alone", format!("{elsewhere} spread=zone/1"), "zone=b", 0, true),
        ("by the second term", format!("{either} spread=zone/1"), "zone=b", 0, false),
        ("with a pod by the second term", format!("{either} spread=zone/1"), "zone=b", 1, true),
        ("as far as they may differ", format!("{either} spread=zone/2"), "zone=b", 0, true),
        ("by the second term, once launched", format!("{either} spread=zone/1"), "zone=a", 0, false),
        ("ignored terms", format!("{elsewhere} spread=zone/1{ignore}"), "zone=b", 0, false),
        ("too few domains", format!("{a} spread=zone/1/min=2"), "zone=b", 1, false),
        ("as many as asked for", format!("{a} spread=zone/1/min=2{ignore}"), "zone=b", 1, true),
        ("of either term", format!("{either} spread=zone/1/min=2"), "zone=b", 1, true),
    ];
    for (what, rule, other, there, kept) in table {
        assert_eq!(keeps(&rule, other, there), kept, "{what}: {rule} {other} {there}");
    }
}

#[test]
fn domains_of_several_terms_need_a_node_where_the_constraint_ignores_them() {
    let world = |most: &str, last: &str| {
        let types = "type m cpu=2 mem=4Gi od=0.10 zones=a,b\npool web types=*\n";
        let pods =
            format!("pod p-{{1..3}} cpu=1500m label=app=w {most}\npod q cpu=1500m label=app=w {last}\n");
        karpenter_testkit::snapshot(&format!("{types}{pods}"))
    };
    let terms = |policy: &str| format!("require=zone:In:a require=zone:In:b spread=zone/1{policy}");
    let found = |last: &str, policy: &str| {
        let (plan, _) = karpenter_engine::plan(&world("select=zone=a", last));
        assert_eq!(plan.launches.len(), 4);
        let terms = terms(policy);
        rules(&world(&terms, &terms), &plan).contains(&Rule::Spread)
    };
    assert!(found("select=zone=a", ""), "zone b counts for one of the terms");
    assert!(!found("select=zone=a", "/affinity=ignore"), "no node is in zone b");
    assert!(found("select=zone=b", "/affinity=ignore"), "a new one will be");
}

#[test]
fn limits_count_what_is_there_and_the_largest_that_may_come() {
    let limited = |limit: &str| {
        let (_, plan) = sound();
        let text = WORLD.replace("pool  big types=large", &format!("pool  big types=large limit={limit}"));
        rules(&karpenter_testkit::snapshot(&text), &plan)
    };
    assert_eq!(limited("cpu=4"), []);
    assert_eq!(limited("cpu=3"), [Rule::Limits]);
    assert_eq!(limited("nodes=0"), [Rule::Limits]);
}

#[test]
fn removals_spare_what_may_not_go() {
    let changes = [
        ("node  n2 pool=web", "node  n2 pool=web nominated=5s"),
        ("node  n2 pool=web", "node  n2 pool=web leaving"),
        ("node  n2 pool=web", "node  n2 pool=web state=registered"),
        ("node  n2 pool=web", "node  n2 pool=web annotation=karpenter.sh/do-not-disrupt=true"),
        ("on=n1", "on=n2"),
        ("label=team=a", "label=team=a consolidate=never"),
        ("label=team=a", "label=team=a consolidate=2h"),
    ];
    for (from, to) in changes {
        let (_, plan) = sound();
        let found = rules(&karpenter_testkit::snapshot(&WORLD.replace(from, to)), &plan);
        assert!(found.contains(&Rule::Removal), "{to}: {found:?}");
    }
    assert!(
        broken_world("pod   calm cpu=1m on=n2 do-not-disrupt owner=daemonset\n").contains(&Rule::Removal)
    );
    assert!(broken(|plan| plan.commands.push(plan.commands[0].clone())).contains(&Rule::Removal));
}

#[test]
fn removals_stay_within_the_budget() {
    let (_, plan) = sound();
    let closed = WORLD.replace("label=team=a", "label=team=a budget=0");
    assert_eq!(rules(&karpenter_testkit::snapshot(&closed), &plan), [Rule::Budget]);
    let used_up = WORLD.replace("node  n1 pool=web", "node  n1 pool=web not-ready");
    assert_eq!(rules(&karpenter_testkit::snapshot(&used_up), &plan), [Rule::Budget], "n1 uses up the 10%");
}

#[test]
fn a_removal_must_name_the_machine_it_means() {
    let (snapshot, mut plan) = sound();
    let wrong = RemovalTarget { id: "n2".into(), claim: "web-n1".into(), node: "n2".into() };
    plan.commands[0].candidates[0].target = wrong;
    assert_eq!(rules(&snapshot, &plan), [Rule::Removal]);
}

#[test]
fn an_empty_plan_is_always_sound() {
    let mut snapshot = world("");
    snapshot.nodes.push(Arc::new(karpenter_testkit::small::roomy_node(&snapshot)));
    assert_eq!(audit(&snapshot, &Plan::default()), []);
}
