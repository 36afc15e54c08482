//! Both directions of garbage collection, and what must never be collected.

use karpenter_model::ConditionStatus;
use karpenter_model::names::label;

use super::*;
use crate::fixture::{at, claim, node, ready, with_condition};

fn registered(name: &str, id: &str) -> Claim {
    let claim = Claim { name: name.into(), provider_id: Some(id.into()), ..claim() };
    with_condition(claim, ConditionType::Registered, ConditionStatus::True, 10)
}

fn machine(id: &str) -> Machine {
    Machine { provider_id: id.into(), claim: None, launched_at: at(0), ending: false }
}

fn run(claims: &[&Claim], nodes: &[&NodeObject], machines: &[Machine]) -> Garbage {
    run_shifted(claims, nodes, machines, &BTreeSet::new())
}

fn run_shifted(
    claims: &[&Claim],
    nodes: &[&NodeObject],
    machines: &[Machine],
    zones_away: &BTreeSet<Zone>,
) -> Garbage {
    collect(Facts { claims, nodes, machines, listed_at: at(1000), zones_away, tried: &Tried::default() })
}

#[test]
fn a_claim_in_a_zone_the_cluster_is_shifted_away_from_is_kept_whatever_the_cloud_lists() {
    let mut lost = registered("web-1", "cloud:///i-1");
    lost.labels.insert(label::ZONE.into(), "b".into());
    let machines = [machine("cloud:///i-other")];
    let other = registered("web-2", "cloud:///i-other");
    for (away, collected) in [("a", 1), ("b", 0)] {
        let garbage = run_shifted(&[&lost, &other], &[], &machines, &[away.into()].into());
        assert_eq!(garbage.claims.len(), collected, "{away}");
    }
}

#[test]
fn a_registered_claim_without_machine_is_collected_unless_its_node_is_ready() {
    let lost = registered("web-1", "cloud:///i-1");
    let other = machine("cloud:///i-other");
    let kept = registered("web-2", "cloud:///i-other");
    let claims = [&lost, &kept];
    let dead = ready(node(), false);
    let alive = ready(node(), true);
    assert_eq!(run(&claims, &[&dead], std::slice::from_ref(&other)).claims, ["web-1"]);
    assert_eq!(run(&claims, &[], std::slice::from_ref(&other)).claims, ["web-1"]);
    assert!(run(&claims, &[&alive], std::slice::from_ref(&other)).claims.is_empty());
}

#[test]
fn claims_unregistered_deleting_or_registered_after_the_list_are_kept() {
    let other = [machine("cloud:///i-other")];
    let kept = registered("web-2", "cloud:///i-other");
    let unregistered = Claim { name: "web-1".into(), ..claim() };
    let deleting = Claim { deletion: Some(at(5)), ..registered("web-1", "cloud:///i-1") };
    let late = with_condition(claim(), ConditionType::Registered, ConditionStatus::True, 1000);
    for claim in [unregistered, deleting, late] {
        assert!(run(&[&claim, &kept], &[], &other).claims.is_empty(), "{claim:?}");
    }
}

#[test]
fn a_machine_on_its_way_out_counts_as_absent() {
    let claim = registered("web-1", "cloud:///i-1");
    let ending = Machine { ending: true, ..machine("cloud:///i-1") };
    let garbage = run(&[&claim], &[], &[ending]);
    assert_eq!(garbage.claims, ["web-1"]);
    assert!(garbage.machines.is_empty());
}

#[test]
fn a_machine_without_claim_is_collected_after_its_grace() {
    let claim = registered("web-1", "cloud:///i-1");
    let own = machine("cloud:///i-1");
    let orphan = |launched| Machine { launched_at: at(launched), ..machine("cloud:///i-2") };
    for (launched, collected) in [(0, true), (969, true), (970, false), (1001, false)] {
        let garbage = run(&[&claim], &[], &[own.clone(), orphan(launched)]);
        assert_eq!(garbage.machines.len(), usize::from(collected), "launched at {launched}");
    }
}

#[test]
fn a_machine_whose_claim_does_not_know_it_yet_is_kept() {
    let launching = Claim { provider_id: None, ..claim() };
    let named = Machine { claim: Some("web-1".into()), ..machine("cloud:///i-2") };
    assert!(run(&[&launching], &[], std::slice::from_ref(&named)).machines.is_empty());
    let launched = Claim { provider_id: Some("cloud:///i-1".into()), ..claim() };
    let both = [machine("cloud:///i-1"), named];
    assert_eq!(run(&[&launched], &[], &both).machines, both[1..], "a second machine of one claim");
}

#[test]
fn an_empty_side_is_a_suspicion_like_any_other_and_names_what_would_prove_it() {
    let claims = [registered("web-1", "cloud:///i-1"), registered("web-2", "cloud:///i-2")];
    let claims: Vec<&Claim> = claims.iter().collect();
    let machines = [machine("cloud:///i-1"), machine("cloud:///i-2")];
    let no_machine = run(&claims, &[], &[]);
    assert_eq!(no_machine.claims, ["web-1", "web-2"], "each is confirmed by a read of its machine");
    let no_claim = run(&[], &[], &machines);
    assert_eq!((no_claim.machines.as_slice(), no_claim.doubts_claims), (&machines[..], true));
    assert!(!run(&claims[..1], &[], &machines).doubts_claims);
    assert_eq!(run(&[], &[], &[]), Garbage::default(), "nothing to prove");
}

#[test]
fn a_claim_speaks_for_the_machine_it_has_and_for_any_until_it_knows_one() {
    let named = Machine { claim: Some("web-1".into()), ..machine("cloud:///i-1") };
    let with = |id: Option<&str>| Claim { provider_id: id.map(Into::into), ..claim() };
    let table = [(None, true), (Some("cloud:///i-1"), true), (Some("cloud:///i-2"), false)];
    for (id, claimed) in table {
        assert_eq!(is_claimed(&named, &with(id)), claimed, "{id:?}");
    }
}

#[test]
fn a_pass_gives_up_no_more_than_its_bound_and_starts_with_the_oldest() {
    let claim = registered("web-1", "cloud:///i-own");
    let mut machines = vec![machine("cloud:///i-own")];
    for number in 0..30 {
        machines
            .push(Machine { launched_at: at(100 - number), ..machine(&format!("cloud:///i-{number:02}")) });
    }
    let garbage = run(&[&claim], &[], &machines);
    assert_eq!(garbage.machines.len(), MAX_MACHINES_PER_PASS);
    assert_eq!(garbage.machines[0].provider_id, "cloud:///i-29");
}

#[test]
fn hundreds_of_claims_whose_machines_are_gone_go_in_one_pass() {
    let claim = |number: usize| registered(&format!("web-{number:03}"), &format!("cloud:///i-{number:03}"));
    let claims: Vec<Claim> = (0..MAX_CLAIMS_PER_PASS + 10).map(claim).collect();
    let claims: Vec<&Claim> = claims.iter().collect();
    // One machine is left, so the list is believed.
    let left = [machine("cloud:///i-000")];
    let given_up = run(&claims, &[], &left).claims;
    assert_eq!(given_up.len(), MAX_CLAIMS_PER_PASS);
    assert_eq!(given_up[0], "web-001", "in the order of names, so that the next pass goes on");
}

#[test]
fn what_was_tried_and_is_still_there_comes_after_everything_else_and_the_longest_ago_first() {
    let machines: Vec<Machine> = (0..45)
        .map(|number| Machine { launched_at: at(number), ..machine(&format!("cloud:///i-{number:02}")) })
        .collect();
    let claims: Vec<Claim> = (0..=MAX_CLAIMS_PER_PASS)
        .map(|number| registered(&format!("web-{number:03}"), &format!("cloud:///lost-{number}")))
        .collect();
    let claims: Vec<&Claim> = claims.iter().collect();
    let (mut tried, away) = (Tried::default(), BTreeSet::new());
    let mut pass = |second| {
        let (nodes, machines) = (&[], machines.as_slice());
        let before = tried.clone();
        let facts = Facts {
            claims: &claims,
            nodes,
            machines,
            listed_at: at(second),
            zones_away: &away,
            tried: &before,
        };
        let garbage = collect(facts);
        tried.note(&garbage, facts);
        let number = |machine: &Machine| machine.provider_id.as_str().rsplit('-').next().unwrap().to_owned();
        (garbage.machines.iter().map(number).collect::<Vec<_>>(), garbage.claims[0].to_string())
    };
    let numbers =
        |range: std::ops::Range<i32>| range.map(|number| format!("{number:02}")).collect::<Vec<_>>();
    assert_eq!(pass(1000), (numbers(0..20), "web-000".to_owned()));
    assert_eq!(pass(1120), (numbers(20..40), "web-500".to_owned()));
    let last = [numbers(40..45), numbers(0..15)].concat();
    assert_eq!(pass(1240).0, last);
}

#[test]
fn what_is_gone_is_no_longer_known_as_tried() {
    let machines = [machine("cloud:///i-1")];
    let (mut tried, away, none) = (Tried::default(), BTreeSet::new(), Tried::default());
    let facts = |machines| Facts {
        claims: &[],
        nodes: &[],
        machines,
        listed_at: at(1000),
        zones_away: &away,
        tried: &none,
    };
    tried.note(&collect(facts(&machines)), facts(&machines));
    assert_ne!(tried, Tried::default());
    tried.note(&Garbage::default(), facts(&[]));
    assert_eq!(tried, Tried::default());
}
