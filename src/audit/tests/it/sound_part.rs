//! A finding refuses what it is about and what was placed with that in mind, and nothing else.

use karpenter_audit::audit;
use karpenter_audit::sound_part;
use karpenter_audit::{Rule, SoundPart};
use karpenter_model::{Plan, PodKey, Snapshot};

use super::key;

/// Three applications that have nothing to do with each other, and one that spreads over zones.
const WORLD: &str = "
type  m cpu=2 mem=8Gi pods=20 od=0.10 zones=a,b,c
pool  web types=*
pool  own types=* label=team=own require=team:In:own taint=own:NoSchedule
node  n1 pool=web type=m zone=a capacity=on-demand
pod   sent cpu=1900m
pod   alone cpu=1500m select=team=own tolerate=own
pod   other cpu=1500m
pod   s-{1..3} cpu=1500m label=app=s spread=zone/1
";

fn planned(world: &str) -> (Snapshot, Plan) {
    let snapshot = karpenter_testkit::snapshot(world);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(audit(&snapshot, &plan), []);
    (snapshot, plan)
}

/// Returns the sound part of the plan for `world` after `change`.
fn left(world: &str, change: impl Fn(&mut Plan)) -> (SoundPart, Vec<String>) {
    let (snapshot, mut plan) = planned(world);
    change(&mut plan);
    let part = sound_part(&snapshot, &plan).expect("the change breaks a rule");
    assert_eq!(audit(&snapshot, &part.plan), [], "what is left is sound");
    let launched = part.plan.launches.iter().flat_map(|launch| &launch.pods);
    let sent = part.plan.nominations.iter().map(|nomination| &nomination.pod);
    let mut placed: Vec<String> = launched.chain(sent).map(|pod| pod.name.to_string()).collect();
    placed.sort();
    (part, placed)
}

fn refused(part: &SoundPart) -> Vec<&PodKey> {
    part.refused.keys().collect()
}

/// Gives the launch of `pod` another hash than its pool has.
fn spoil(plan: &mut Plan, pod: &str) {
    let launch = plan.launches.iter_mut().find(|launch| launch.pods.contains(&key(pod)));
    launch.expect("the pod is launched for").pool_hash = "another".into();
}

#[test]
fn a_sound_plan_has_nothing_to_take_apart() {
    let (snapshot, plan) = planned(WORLD);
    assert_eq!(sound_part(&snapshot, &plan), None);
}

#[test]
fn a_launch_that_breaks_a_rule_is_left_out_and_the_rest_is_applied() {
    let (part, placed) = left(WORLD, |plan| spoil(plan, "alone"));
    assert_eq!(placed, ["other", "s-1", "s-2", "s-3", "sent"]);
    assert_eq!(refused(&part), [&key("alone")]);
    assert!(part.refused[&key("alone")].starts_with("Template: "), "{:?}", part.refused);
    assert_eq!(part.findings.len(), 1);
}

#[test]
fn a_nomination_that_breaks_a_rule_is_left_out_alone() {
    let away = |plan: &mut Plan| plan.nominations[0].target = karpenter_model::Target::Node("gone".into());
    let (part, placed) = left(WORLD, away);
    assert_eq!(placed, ["alone", "other", "s-1", "s-2", "s-3"]);
    assert_eq!(refused(&part), [&key("sent")]);
}

#[test]
fn pods_that_share_a_rule_with_a_refused_one_are_left_out_and_not_blamed() {
    let (part, placed) = left(WORLD, |plan| spoil(plan, "s-2"));
    assert_eq!(placed, ["alone", "other", "sent"]);
    assert_eq!(refused(&part), [&key("s-2")]);
}

#[test]
fn pods_that_wanted_to_be_with_a_refused_one_are_left_out_too() {
    let world = format!(
        "{WORLD}pod  joiner cpu=1500m affinity=zone/app=s\npod  stranger cpu=1500m affinity=zone/app=t\n"
    );
    let world = world.replace("pod   other cpu=1500m", "pod   other cpu=1500m label=app=t select=zone=b");
    let (_, placed) = left(&world, |plan| spoil(plan, "s-1"));
    assert_eq!(placed, ["alone", "other", "sent", "stranger"]);
}

#[test]
fn what_breaks_a_rule_for_want_of_what_was_left_out_goes_too() {
    // `far` shares no rule with `near`, but wants to be with `with`, which goes with the machine of `near`.
    let world = "
type  m cpu=4 mem=8Gi pods=20 od=0.10 zones=a,b
pool  web types=*
pool  own types=* label=team=own require=team:In:own taint=own:NoSchedule
pod   near cpu=2 label=app=near select=zone=a select=team=own tolerate=own
pod   with cpu=1 label=app=with select=team=own tolerate=own affinity=host/app=near
pod   far  cpu=3 affinity=zone/app=with select=zone=a
pod   other cpu=3 select=zone=b
";
    let (part, placed) = left(world, |plan| spoil(plan, "near"));
    assert_eq!(placed, ["other"]);
    assert_eq!(refused(&part), [&key("near"), &key("with")], "far was placed well");
}

#[test]
fn a_pool_beyond_its_limits_launches_nothing_and_others_do() {
    let (_, plan) = planned(WORLD);
    let snapshot =
        karpenter_testkit::snapshot(&WORLD.replace("pool  own types=*", "pool  own types=* limit=cpu=1"));
    let part = sound_part(&snapshot, &plan).expect("the limit is overrun");
    assert_eq!(part.findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), [Rule::Limits]);
    assert!(part.plan.launches.iter().all(|launch| launch.pool != "own"), "{:?}", part.plan.launches);
    assert_eq!(part.plan.launches.len(), plan.launches.len() - 1);
}

#[test]
fn a_stale_plan_is_refused_as_a_whole_and_no_pod_is_blamed() {
    let (part, placed) = left(WORLD, |plan| plan.revision += 1);
    assert_eq!(placed, [""; 0]);
    assert!(part.refused.is_empty(), "{:?}", part.refused);
}

#[test]
fn devices_of_what_was_left_out_are_not_promised() {
    let world = "
set   devices=on
type  m cpu=4 mem=16Gi pods=20 od=0.20 zones=a
pool  web types=*
deviceclass gpu
node  n1 pool=web type=m zone=a capacity=on-demand
slice n1 device=g0 device=g1 node=n1
resourceclaim one
resourceclaim two
pod   one cpu=1 claim=one
pod   two cpu=1 claim=two
";
    let twice = |plan: &mut Plan| {
        let again = plan.grants[0].devices.clone();
        plan.grants[1].devices = again;
    };
    let (part, placed) = left(world, twice);
    assert_eq!(placed, [""; 0], "it is not known whose device it is");
    assert_eq!(refused(&part), [&key("one"), &key("two")]);
    assert_eq!(part.plan.grants, []);
}
