//! Volumes that cannot follow their pods, and reservations promised too often.

use karpenter_audit::Rule;
use karpenter_model::names::label;
use karpenter_model::{Launch, Requirement};

use super::WORLD;
use super::rules;
use super::sound;

/// Rules the sound plan breaks once `pod` mounts volume `data`, in a world with `more`.
fn mounting(pod: &str, more: &str) -> Vec<Rule> {
    let (_, plan) = sound();
    let text = WORLD.replace(&format!("pod   {pod}"), &format!("pod   {pod} volume=data"));
    rules(&karpenter_testkit::snapshot(&format!("{text}{more}")), &plan)
}

#[test]
fn volumes_exist_and_can_be_used() {
    for pod in ["one", "two"] {
        assert_eq!(mounting(pod, ""), [Rule::Volume], "{pod}: not there");
        assert_eq!(mounting(pod, "volume data problem=lost\n"), [Rule::Volume], "{pod}: lost");
        assert_eq!(mounting(pod, "volume data\n"), [], "{pod}");
    }
}

#[test]
fn volumes_are_in_reach_of_every_machine_their_pod_may_get() {
    // Pod one gets a new machine in zone a or b, pod two goes to n1 in zone a.
    assert_eq!(mounting("one", "volume data at=zone:In:a\n"), [Rule::Volume], "it may come up in b");
    let text = WORLD.replace("pod   one", "pod   one volume=data");
    let world = |volume: &str| karpenter_testkit::snapshot(&format!("{text}volume data {volume}\n"));
    let (either, _) = karpenter_engine::plan(&world("at=zone:In:a at=zone:In:b"));
    assert_eq!(rules(&world("at=zone:In:a at=zone:In:b"), &either), []);
    assert_eq!(rules(&world("at=zone:In:a,b"), &either), []);
    assert_eq!(rules(&world("at=zone:In:b"), &either), [Rule::Volume]);
    assert_eq!(mounting("one", "volume data at=rack:In:1\n"), [Rule::Volume]);
    assert_eq!(mounting("two", "volume data at=zone:In:b\n"), [Rule::Volume]);
    assert_eq!(mounting("two", "volume data at=zone:In:b at=zone:In:a\n"), []);
}

#[test]
fn pods_of_a_volume_that_is_not_there_yet_are_in_one_zone() {
    let text =
        WORLD.replace("pod   one", "pod   one volume=data").replace("pod   two", "pod   two volume=data");
    let world = |tie: &str| karpenter_testkit::snapshot(&format!("{text}volume data {tie}\n"));
    let (anywhere, _) = karpenter_engine::plan(&world(""));
    assert_eq!(rules(&world(""), &anywhere), []);
    assert_eq!(rules(&world("zonal"), &anywhere), [Rule::Volume]);
    let (together, _) = karpenter_engine::plan(&world("zonal"));
    assert_eq!(rules(&world("zonal"), &together), []);
}

#[test]
fn machines_attach_no_more_volumes_than_they_can() {
    let (_, plan) = sound();
    let attached = |limit: u32, volume: &str, held: &str| {
        let text = WORLD
            .replace("pod   two", &format!("pod   two volume={volume}"))
            .replace("pod   busy", &format!("pod   busy volume={held}"))
            .replace("node  n1", &format!("node  n1 attach=d={limit}"));
        let volumes = "volume v1 driver=d\nvolume v2 driver=d\nvolume v3 driver=other\n";
        rules(&karpenter_testkit::snapshot(&format!("{text}{volumes}")), &plan)
    };
    assert_eq!(attached(1, "v1", "v2"), [Rule::Volume]);
    assert_eq!(attached(2, "v1", "v2"), []);
    assert_eq!(attached(1, "v1", "v1"), [], "the same volume counts once");
    assert_eq!(attached(1, "v3", "v1"), [], "another driver");
}

#[test]
fn new_machines_attach_no_more_than_their_like() {
    let (_, plan) = sound();
    let seen = |limit: u32| {
        let text = WORLD.replace("pod   one", "pod   one volume=v1 volume=v2");
        let text = text.replace("node  n2", &format!("node  n2 attach=d={limit}"));
        rules(&karpenter_testkit::snapshot(&format!("{text}volume v1 driver=d\nvolume v2 driver=d\n")), &plan)
    };
    assert_eq!(seen(1), [Rule::Volume]);
    assert_eq!(seen(2), []);
}

#[test]
fn reservations_are_promised_once_per_instance() {
    let reserved = WORLD.replace("zones=a,b label=gen=5", "zones=a,b label=gen=5 reserved=r1/1/a");
    let snapshot = karpenter_testkit::snapshot(&reserved);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(rules(&snapshot, &plan), []);
    let twice = |change: &dyn Fn(&mut Launch)| {
        let mut plan = plan.clone();
        change(&mut plan.launches[0]);
        rules(&snapshot, &plan)
    };
    let key = karpenter_testkit::fixture::RESERVATION_ID;
    let unknown = Requirement::one_of(key.into(), ["r2".into()]);
    assert!(twice(&|launch| launch.requirements.replace(unknown.clone())).contains(&Rule::Reservation));
    assert!(twice(&|launch| launch.requirements.remove(key)).contains(&Rule::Reservation));
    let reserved = Requirement::one_of(label::CAPACITY_TYPE.into(), ["reserved".into()]);
    assert_eq!(
        plan.launches[0].requirements.get(label::CAPACITY_TYPE),
        Some(&reserved),
        "or nothing is checked"
    );
}

#[test]
fn what_may_become_reserved_capacity_names_what_it_may_use() {
    let world = "type r cpu=2 mem=4Gi pods=9 od=0.10 zones=a reserved=r1/1/a\npool web types=*\npool od types=* weight=1\n\
                 pod p cpu=1500m select=pool=web\npod q cpu=1500m select=pool=od select=capacity=on-demand\n";
    let snapshot = karpenter_testkit::snapshot(world);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(rules(&snapshot, &plan), []);
    let wider = |ids: &[&str]| {
        let mut plan = plan.clone();
        let launch = plan.launches.iter_mut().find(|launch| launch.pool == "od").expect("q gets a node");
        let either = ["on-demand", "reserved"].map(Into::into);
        launch.requirements.replace(Requirement::one_of(label::CAPACITY_TYPE.into(), either));
        if !ids.is_empty() {
            let ids = ids.iter().map(|id| (*id).into());
            launch
                .requirements
                .replace(Requirement::one_of(karpenter_testkit::fixture::RESERVATION_ID.into(), ids));
        }
        rules(&snapshot, &plan)
    };
    assert!(wider(&[]).contains(&Rule::Reservation), "it could be launched into r1, which p has");
    assert!(wider(&["r1"]).contains(&Rule::Reservation), "there is one instance for two");
}

#[test]
fn a_claim_is_where_its_only_types_are() {
    let text = "type t cpu=2 mem=4Gi pods=9 od=0.10 zones=a\npool web types=*\npool own types=* taint=x:NoSchedule weight=1\n\
                pod w cpu=1 label=app=w tolerate=x\npod s cpu=900m affinity=zone/app=w\n";
    let snapshot = karpenter_testkit::snapshot(text);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!(plan.launches.len(), 2, "they do not share a machine, only the zone");
    assert_eq!(rules(&snapshot, &plan), []);
}
