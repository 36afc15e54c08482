//! Domains that are equally good for a rule: the cheaper one, then the one with fewer machines, then the first by
//! name.

use std::collections::BTreeMap;

use karpenter_model::names::label;
use karpenter_model::{Plan, Snapshot};

fn plan(text: &str) -> (Snapshot, Plan) {
    let snapshot = karpenter_testkit::snapshot(text);
    let (plan, report) = karpenter_engine::plan(&snapshot);
    assert_eq!(karpenter_audit::audit(&snapshot, &plan), []);
    assert!(report.pods.values().all(karpenter_model::PodOutcome::is_placed), "{:?}", report.pods);
    (snapshot, plan)
}

/// New machines by the only value they have of `key`.
fn machines(plan: &Plan, key: &str) -> BTreeMap<String, usize> {
    let mut machines = BTreeMap::new();
    for launch in &plan.launches {
        let values = launch.requirements.get(key).and_then(karpenter_model::Requirement::concrete);
        let values: Vec<_> = values.into_iter().flatten().map(ToString::to_string).collect();
        *machines.entry(values.join(",")).or_default() += 1;
    }
    machines
}

fn counts<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[test]
fn many_small_applications_use_every_zone() {
    for (rule, selector) in [
        ("spread=zone/1", ""),
        ("anti-affinity=zone", ""),
        ("affinity=zone", ""),
        ("spread=zone/1", "label=more=yes"),
    ] {
        let mut text = String::from("type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b,c\npool web types=*\n");
        for app in 0..30 {
            text.push_str(&format!("pod app{app:02} cpu=3 label=app=a{app} {selector} {rule}\n"));
        }
        let (_, plan) = plan(&text);
        assert_eq!(machines(&plan, label::ZONE), counts([("a", 10), ("b", 10), ("c", 10)]), "{rule}");
    }
}

#[test]
fn two_replicas_each_use_every_zone() {
    let mut text = String::from("type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b,c\npool web types=*\n");
    for app in 0..30 {
        text.push_str(&format!("pod app{app:02}-{{1..2}} cpu=3 label=app=a{app} spread=zone/1\n"));
    }
    let (_, plan) = plan(&text);
    assert_eq!(machines(&plan, label::ZONE), counts([("a", 20), ("b", 20), ("c", 20)]));
}

#[test]
fn machines_that_exist_count_of_the_same_pool_only() {
    let world = |pool: &str| {
        format!(
            "type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b,c\npool web types=*\npool other types=* taint=x:NoSchedule\n\
             node n1 pool={pool} type=m zone=a capacity=on-demand taint=full:NoSchedule\n\
             node n2 pool={pool} type=m zone=b capacity=on-demand taint=full:NoSchedule\n\
             pod p cpu=3 label=app=w spread=zone/1\n"
        )
    };
    assert_eq!(machines(&plan(&world("web")).1, label::ZONE), counts([("c", 1)]));
    assert_eq!(machines(&plan(&world("other")).1, label::ZONE), counts([("a", 1)]));
}

#[test]
fn a_domain_that_is_cheaper_comes_first_and_one_that_is_hardly_cheaper_does_not() {
    let spread = |key: &str, types: &str| {
        let (_, plan) = plan(&format!("{types}\npool web types=*\npod p cpu=1 label=app=x spread={key}/1\n"));
        machines(&plan, if key == "zone" { label::ZONE } else { label::CAPACITY_TYPE })
    };
    let spot = "type m cpu=2 mem=4Gi od=0.20 spot=0.08 zones=a";
    assert_eq!(spread("capacity", spot), counts([("spot", 1)]));
    let zones =
        |b: &str| format!("type m cpu=2 mem=4Gi od=0.20 zones=a\ntype n cpu=2 mem=4Gi od={b} zones=b");
    assert_eq!(spread("zone", &zones("0.15")), counts([("b", 1)]));
    assert_eq!(spread("zone", &zones("0.195")), counts([("a", 1)]), "less than five percent");
    let small = format!("{}\ntype tiny cpu=500m mem=1Gi od=0.01 zones=b", zones("0.30"));
    assert_eq!(spread("zone", &small), counts([("a", 1)]), "what is too small for the pod is no offer");
}

#[test]
fn fewer_pods_come_before_a_lower_price() {
    let text = "type m cpu=2 mem=4Gi od=0.20 zones=a\ntype n cpu=2 mem=4Gi od=0.10 zones=b\npool web types=*\n\
                pod p-{1..4} cpu=1500m label=app=x spread=zone/1\n";
    assert_eq!(machines(&plan(text).1, label::ZONE), counts([("a", 2), ("b", 2)]));
}

#[test]
fn what_is_used_up_of_a_reservation_makes_no_zone_cheap() {
    let text = "type m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b,c reserved=r1/1/b\npool web types=*\n\
                pod p-{1..3} cpu=3 label=app=x spread=zone/1\n";
    let (_, plan) = plan(text);
    assert_eq!(plan.launches[0].pods[0].name.to_string(), "p-1");
    assert_eq!(
        plan.launches[0].cheapest.as_ref().map(|cheapest| cheapest.zone.as_str()),
        Some("b"),
        "the instance that is paid for already is used first"
    );
    assert_eq!(machines(&plan, label::ZONE), counts([("a", 1), ("b", 1), ("c", 1)]));
}
