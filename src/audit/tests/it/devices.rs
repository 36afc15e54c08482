//! Findings about devices.

use karpenter_audit::Rule;
use karpenter_audit::audit;
use karpenter_model::{Plan, Snapshot};

const WORLD: &str = "
set   devices=on
type  m cpu=4 mem=16Gi pods=20 od=0.20 zones=a
pool  web types=*
deviceclass gpu
template m device=promised
node  n1 pool=web type=m zone=a capacity=on-demand
slice n1 device=g0 node=n1
slice shelf counter=10 device=s0:draws=4 device=s1:draws=4 device=s2:draws=4
resourceclaim held has=shelf/s0 used-by=unknown
resourceclaim one
resourceclaim two count=2
pod   one cpu=3 claim=one
pod   two cpu=3 claim=two
";

fn sound() -> (Snapshot, Plan) {
    let snapshot = karpenter_testkit::snapshot(WORLD);
    let (plan, _) = karpenter_engine::plan(&snapshot);
    (snapshot, plan)
}

fn broken(change: impl Fn(&mut Plan)) -> Vec<String> {
    let (snapshot, mut plan) = sound();
    change(&mut plan);
    let findings = audit(&snapshot, &plan);
    assert!(findings.iter().all(|finding| finding.rule == Rule::Devices), "{findings:?}");
    findings.into_iter().map(|finding| format!("{}: {}", finding.subject, finding.detail)).collect()
}

#[test]
fn plans_that_give_devices_wrongly_are_found_out() {
    assert_eq!(broken(|_| {}), [""; 0]);
    let none = broken(|plan| plan.grants.clear());
    assert!(none.len() == 2 && none[0].contains("gets no devices"), "{none:?}");
    let few = broken(|plan| {
        let longest = plan.grants.iter_mut().max_by_key(|grant| grant.devices.len()).expect("there are some");
        longest.devices.pop();
    });
    assert_eq!(few, ["default/two: gets 1 devices, not 2"]);
    let rename = |name: &'static str| {
        move |plan: &mut Plan| {
            for one in plan.grants.iter_mut().flat_map(|grant| &mut grant.devices) {
                if one.device == "s1" {
                    one.device = name.into();
                }
            }
        }
    };
    let unknown = broken(rename("nothing"));
    assert!(unknown[0].contains("device `nothing` of pool `shelf` does not exist"), "{unknown:?}");
    let held = broken(rename("s0"));
    assert!(held.iter().any(|text| text == "s0: device of pool `shelf` is given 2 times"), "{held:?}");
    let drawn = broken(|plan| {
        for one in plan.grants.iter_mut().flat_map(|grant| &mut grant.devices) {
            if one.promised {
                (one.pool, one.device, one.promised) = ("shelf".into(), "s2".into(), false);
            }
        }
    });
    assert!(
        drawn.iter().any(|text| text.contains("counter of `chip` in pool `shelf` is overdrawn")),
        "{drawn:?}"
    );
    let twice = broken(|plan| {
        let promised = plan.grants.iter().find(|grant| grant.devices.iter().any(|one| one.promised));
        let mut again = promised.expect("the new machine brings one along").clone();
        again.claim.name = "one".into();
        plan.grants.push(again);
    });
    assert!(twice.iter().any(|text| text == "promised: is given twice on one machine"), "{twice:?}");
}

#[test]
fn devices_claims_must_not_have_are_found_out() {
    for (barred, said) in
        [("taint=broken", "does not tolerate the taints"), ("binding", "has `bindingConditions`")]
    {
        let (_, plan) = sound();
        let snapshot =
            karpenter_testkit::snapshot(&WORLD.replace("device=g0", &format!("device=g0:{barred}")));
        let findings = audit(&snapshot, &plan);
        assert!(findings.iter().any(|finding| finding.detail.contains(said)), "{barred}: {findings:?}");
    }
}

/// The devices that the claim `pair` gets.
fn pair(plan: &mut Plan) -> &mut Vec<karpenter_model::GrantedDevice> {
    let mut grants = plan.grants.iter_mut();
    &mut grants.find(|grant| grant.claim.name == "pair").expect("it gets devices").devices
}

#[test]
fn requests_that_are_met_otherwise_than_asked_are_found_out() {
    let world = "
        set   devices=on
        type  m cpu=4 mem=16Gi pods=20 od=0.20 zones=a
        pool  web types=*
        deviceclass gpu
        template m device=a0 device=a1 device=b0 device=b1 bound=a0,a1 bound=b0,b1
        resourceclaim pair first=two/gpu/2 first=one/gpu/1 match=numa
        resourceclaim looks admin count=2
        pod   pair cpu=1 claim=pair
        pod   looks cpu=1 claim=looks";
    let broken = |change: fn(&mut Plan)| {
        let snapshot = karpenter_testkit::snapshot(world);
        let (mut plan, _) = karpenter_engine::plan(&snapshot);
        change(&mut plan);
        let findings = audit(&snapshot, &plan).into_iter();
        findings.map(|finding| format!("{}: {}", finding.subject, finding.detail)).collect::<Vec<_>>()
    };
    assert_eq!(broken(|_| {}), [""; 0]);
    for (change, said) in [
        (
            (|plan| pair(plan)[0].request = "devices/one".into()) as fn(&mut Plan),
            "default/pair: request `devices` is met in 2 ways",
        ),
        (|plan| pair(plan).clear(), "default/pair: request `devices` is met in 0 ways"),
        (
            |plan| pair(plan)[1].device = "b0".into(),
            "default/pair: gets devices that differ in `gpu.test/numa`",
        ),
        (
            |plan| pair(plan)[1].device = "c0".into(),
            "default/pair: device `c0` of pool `node` does not come with the machine",
        ),
        (
            |plan| {
                let mut more = pair(plan)[1].clone();
                more.request = "another".into();
                pair(plan).push(more);
            },
            "default/pair: gets device `a1` for `another`, which it does not ask for",
        ),
    ] {
        let findings = broken(change);
        assert!(findings.iter().any(|finding| finding == said), "{said}: {findings:?}");
    }
}

#[test]
fn a_claim_that_is_gone_is_found_out() {
    let (mut snapshot, plan) = sound();
    let devices = std::sync::Arc::make_mut(&mut snapshot.devices);
    devices.claims.retain(|key, _| key.name != "one");
    let findings = audit(&snapshot, &plan);
    assert!(
        findings.iter().any(|finding| finding.detail == "claim `default/one` does not exist"),
        "{findings:?}"
    );
}

#[test]
fn resources_that_devices_stand_for_are_served_once() {
    let world = |more: &str| {
        karpenter_testkit::snapshot(&format!(
            "set   devices=on
            type  dra cpu=4 mem=16Gi pods=20 od=0.20 zones=a
            type  plugin cpu=4 mem=16Gi pods=20 od=0.30 zones=a res=example.com/gpu=1
            pool  web types=*
            deviceclass gpu resource=example.com/gpu
            template dra device=g0
            node  n1 pool=web type=dra zone=a capacity=on-demand
            {more}
            pod   p cpu=1 res=example.com/gpu=1"
        ))
    };
    let told = |snapshot: &Snapshot, plan: &Plan| {
        let findings = audit(snapshot, plan).into_iter();
        findings.map(|finding| format!("{}: {}", finding.subject, finding.detail)).collect::<Vec<_>>()
    };
    for (more, served) in [("", "a new machine"), ("slice n1 device=x0 node=n1", "a node")] {
        let snapshot = world(more);
        let (plan, _) = karpenter_engine::plan(&snapshot);
        assert_eq!(told(&snapshot, &plan), [""; 0], "{served}");
        let without = Plan { grants: Vec::new(), ..plan };
        let found = told(&snapshot, &without);
        assert!(
            found[0].contains("claim `default/p-extended-resources-` gets no devices"),
            "{served}: {found:?}"
        );
    }
    // The node counts the resource: the grant is one too many, and the room is not unlimited.
    let snapshot = world("node n2 pool=web type=plugin zone=a capacity=on-demand");
    let (mut plan, _) = karpenter_engine::plan(&snapshot);
    assert_eq!((told(&snapshot, &plan), plan.grants.len()), (Vec::new(), 0));
    let by_devices = world("slice n1 device=x0 node=n1");
    let mut grant = karpenter_engine::plan(&by_devices).0.grants.remove(0);
    grant.place = karpenter_model::GrantPlace::Machine(snapshot.nodes[1].id.clone());
    plan.grants.push(grant);
    let found = told(&snapshot, &plan);
    assert!(found.iter().any(|text| text.contains("which it does not ask for")), "{found:?}");
}

#[test]
fn a_machine_that_comes_up_has_no_more_devices_than_its_type_promises() {
    let world = |used_by: &str| {
        karpenter_testkit::snapshot(&format!(
            "set   devices=on
            type  m cpu=8 mem=16Gi pods=20 od=0.20 zones=a
            pool  web types=*
            deviceclass gpu
            template m device=g0 device=g1
            node  n1 pool=web type=m zone=a capacity=on-demand state=registered
            slice n1 device=x0 device=x1 node=n1
            pod   has cpu=1 on=n1 claim=bound
            resourceclaim bound has=n1/x0 on=n1 used-by={used_by}
            resourceclaim pair count=2
            pod   pair cpu=1 claim=pair"
        ))
    };
    let free = world("gone");
    let (plan, _) = karpenter_engine::plan(&free);
    assert_eq!(
        (audit(&free, &plan), plan.nominations.len()),
        (Vec::new(), 1),
        "the claim is not used any more"
    );
    let found = audit(&world("has"), &plan);
    assert!(
        found.iter().any(|one| one.detail == "2 devices of `gpu.test` besides 1 it has, of 2"),
        "{found:?}"
    );
}
