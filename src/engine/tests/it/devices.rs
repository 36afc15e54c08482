//! Pods with claims for devices: plans pass the audit, questions about machines that go give devices back and are
//! taken back themselves.

use std::collections::BTreeSet;
use std::fmt::Write;

use karpenter_audit::audit;
use karpenter_engine::disrupt::{Memory, Standing, decide};
use karpenter_model::{Command, NodeId, Plan, Snapshot};
use karpenter_testkit::snapshot;

fn commands(snapshot: &Snapshot) -> Vec<Command> {
    let running = BTreeSet::<NodeId>::new();
    let standing = Standing { proposed: &[], running: &running };
    decide(snapshot, &mut Memory::default(), &standing).commands.clone()
}

fn gone(commands: &[Command]) -> Vec<&str> {
    commands.iter().flat_map(|command| &command.candidates).map(|gone| gone.target.node.as_str()).collect()
}

/// Two half-empty machines whose pods have a device each; `slices` places the devices.
fn pair(slices: &str) -> Snapshot {
    snapshot(&format!(
        "set devices=on
        type  m cpu=8 mem=16Gi pods=20 od=0.20 zones=a
        pool  web types=* consolidate=0s budget=100%
        deviceclass gpu
        node  n1 pool=web type=m zone=a capacity=on-demand age=9h quiet=9h
        node  n2 pool=web type=m zone=a capacity=on-demand age=9h quiet=9h
        pod   p1 cpu=1 on=n1 claim=c-1
        pod   p2 cpu=1 on=n2 claim=c-2
        {slices}"
    ))
}

#[test]
fn devices_of_pods_that_would_move_are_free_and_those_of_others_are_not() {
    let everywhere = "slice shelf device=g1 device=g2
        resourceclaim c-1 has=shelf/g1 used-by=p1
        resourceclaim c-2 has=shelf/g2 used-by=p2";
    let snapshot = pair(everywhere);
    let commands = commands(&snapshot);
    assert_eq!(gone(&commands).len(), 1, "a pod takes its device along: {commands:?}");
    let plan = Plan { revision: snapshot.revision, commands, ..Plan::default() };
    assert_eq!(audit(&snapshot, &plan), []);
    let local = "slice n1 device=g1 node=n1
        slice n2 device=g2 node=n2
        resourceclaim c-1 has=n1/g1 on=n1 used-by=p1
        resourceclaim c-2 has=n2/g2 on=n2 used-by=p2";
    let local = pair(local);
    assert_eq!(gone(&self::commands(&local)), [""; 0], "each machine has but one, and it is in use");
    let spare = "slice n1 device=g1 node=n1
        slice n2 device=g2 device=g3 node=n2
        resourceclaim c-1 has=n1/g1 on=n1 used-by=p1
        resourceclaim c-2 has=n2/g2 on=n2 used-by=p2";
    assert_eq!(gone(&self::commands(&pair(spare))), ["n1"], "the other has one to spare");
    let shared = "slice n1 device=g1 node=n1
        slice n2 device=g2 device=g3 node=n2
        resourceclaim c-1 has=n1/g1 on=n1 used-by=p1 used-by=unknown
        resourceclaim c-2 has=n2/g2 on=n2 used-by=p2";
    assert_eq!(gone(&self::commands(&pair(shared))), [""; 0], "another pod keeps the claim where it is");
}

#[test]
fn several_machines_become_one_with_the_devices_of_all() {
    let mut text = "set devices=on
        type  m cpu=8 mem=16Gi pods=20 od=0.20 zones=a
        type  l cpu=8 mem=16Gi pods=20 od=0.30 zones=a
        pool  web types=* consolidate=0s budget=100%
        deviceclass gpu
        template m device=g0
        template l device=g0 device=g1
        "
    .to_owned();
    for number in 1..=2 {
        let _ = writeln!(
            text,
            "node n{number} pool=web type=m zone=a capacity=on-demand age=9h quiet=9h
            slice n{number} device=g0 node=n{number}
            resourceclaim c-{number} has=n{number}/g0 on=n{number} used-by=p{number}
            pod p{number} cpu=1 on=n{number} claim=c-{number}"
        );
    }
    let snapshot = snapshot(&text);
    let commands = commands(&snapshot);
    assert_eq!(gone(&commands), ["n1", "n2"], "{commands:?}");
    let replacements: Vec<_> = commands.iter().flat_map(|command| &command.replacements).collect();
    assert_eq!(replacements.len(), 1);
    assert_eq!(replacements[0].instance_types.to_vec(), ["l"]);
    assert_eq!(
        replacements[0]
            .annotations
            .get(karpenter_model::names::annotation::REQUESTED_DRIVERS)
            .map(String::as_str),
        Some("gpu.test")
    );
}

#[test]
fn pods_without_claims_are_placed_as_if_there_were_no_devices() {
    let world = "type  m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b
        pool  web types=*
        node  n1 pool=web type=m zone=a capacity=on-demand
        pod   p-{1..9} cpu=1";
    let devices = "
        set devices=on
        deviceclass gpu
        slice shelf device=g0";
    let (plain, _) = karpenter_engine::plan(&snapshot(world));
    let (with, _) = karpenter_engine::plan(&snapshot(&format!("{world}{devices}")));
    assert_eq!(plain, with);
}

#[test]
fn crowded_devices_are_never_given_twice() {
    for seed in 0..150 {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut text = "set devices=on
            type  m cpu=4 mem=16Gi pods=20 od=0.20 zones=a,b
            type  l cpu=8 mem=16Gi pods=20 od=0.40 spot=0.20 zones=a,b
            type  plugin cpu=8 mem=16Gi pods=20 od=0.50 zones=a,b res=example.com/gpu=2
            pool  web types=*
            deviceclass gpu resource=example.com/gpu
            template l device=g0 device=g1:draws=2 counter=2 bound=g0,g1
            node  n1 pool=web type=m zone=a capacity=on-demand
            node  n2 pool=web type=l zone=b capacity=on-demand leaving
            node  n3 pool=web type=l zone=b capacity=on-demand state=registered
            slice n1 device=g0 node=n1
            slice n3 device=x0 device=x1 node=n3
            pod   early cpu=1 on=n3 claim=early
            resourceclaim early has=n3/x1 on=n3 used-by=early
            slice shelf device=g0:draws=3 device=g1:draws=3 device=g2:draws=3 counter=7
            slice zonal device=g0 device=g1 at=zone:In:a at=zone:In:b
            pod   mover cpu=1 on=n2 claim=moves
            resourceclaim moves has=shelf/g1 used-by=mover
            "
        .to_owned();
        for number in 0..8 {
            let (cpu, count) = (dice.u8(1..4), dice.u8(1..3));
            let zone = ["", "select=zone=a", "select=zone=b"][dice.usize(0..3)];
            let claim = dice.u8(0..8);
            let asks = match dice.u8(0..5) {
                0 => format!("first=more/gpu/{} first=less/gpu/1", count + 1),
                1 => format!("count={count} and=more/gpu/1 match=numa@devices"),
                2 => format!("count={count} admin"),
                _ => format!("count={count}"),
            };
            let _ = writeln!(text, "resourceclaim c-{number} {asks}");
            let _ = writeln!(text, "pod p-{number} cpu={cpu} claim=c-{claim} {zone}");
            if number < 3 {
                let _ =
                    writeln!(text, "pod e-{number} cpu={cpu} res=example.com/gpu={} {zone}", dice.u8(1..4));
            }
        }
        let snapshot = snapshot(&text);
        let (plan, _) = karpenter_engine::plan(&snapshot);
        assert_eq!(audit(&snapshot, &plan), [], "seed {seed}");
        let again = karpenter_engine::plan(&snapshot);
        assert_eq!(again.0, plan, "seed {seed}: the same input gives the same plan");
    }
}
