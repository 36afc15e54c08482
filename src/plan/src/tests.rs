//! A small cluster, planned from end to end: what people read, and that a file of it says the same.

mod changes;
mod left_out;

use std::sync::Arc;

use expect_test::{Expect, expect};
use jiff::Timestamp;
use karpenter_cloud::NodeClassKind;
use karpenter_model::names::label;
use karpenter_model::settings::FeatureGates;
use karpenter_model::{LabelRegistry, Price, Settings};
use karpenter_testkit::objects::{node_claim, node_pool};
use serde_json::{Value, json};

use crate::fixture::offerings;
use crate::picture::{Drawn, Picture};
use crate::{About, Forecast, Objects, Offerings, PlanInputs, Verdict, WhatIf, World, WorldError, forecast};

const AT: &str = "2026-01-02T00:00:00Z";
const CREATED: &str = "2026-01-01T00:00:00Z";

fn world(objects: Vec<Value>, what_if: WhatIf) -> World {
    gated(objects, what_if, |_| {})
}

/// Returns the world with some feature gates changed.
fn gated(objects: Vec<Value>, what_if: WhatIf, change: impl FnOnce(&mut FeatureGates)) -> World {
    read(objects, what_if, change).unwrap()
}

fn read(
    objects: Vec<Value>,
    what_if: WhatIf,
    change: impl FnOnce(&mut FeatureGates),
) -> Result<World, WorldError> {
    let mut settings = Settings::default();
    change(&mut settings.gates);
    let plan_inputs = PlanInputs { settings: Arc::new(settings), ..plan_inputs() };
    World::new(objects, AT.parse::<Timestamp>().unwrap(), plan_inputs, what_if)
}

fn plan_inputs() -> PlanInputs {
    PlanInputs {
        registry: Arc::new(LabelRegistry::core()),
        classes: vec![NodeClassKind { group: "karpenter.k8s.aws", kind: "EC2NodeClass" }],
        settings: Arc::default(),
        repair: Arc::default(),
    }
}

pub(crate) fn planned(objects: Vec<Value>, what_if: WhatIf) -> Forecast {
    world(objects, what_if).forecast(&offerings(&["a", "b"]), Vec::new())
}

fn check(objects: Vec<Value>, what_if: WhatIf, verdict: Verdict, expected: &Expect) {
    let forecast = planned(objects, what_if);
    expected.assert_eq(&forecast.text());
    assert_eq!(forecast.verdict, verdict);
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": CREATED})
}

pub(crate) fn pool(name: &str, spec: &Value) -> Value {
    let usual = json!({
        "template": {"spec": {"expireAfter": "Never"}},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    });
    let mut pool = node_pool(name, &[], &usual);
    for (field, value) in spec.as_object().into_iter().flatten() {
        pool["spec"][field] = value.clone();
    }
    pool
}

pub(crate) fn class() -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "class-default"},
        "status": {"conditions": [condition("Ready")]},
    })
}

/// A machine of pool `a` with its claim, of the larger type.
pub(crate) fn machine(name: &str) -> Vec<Value> {
    let labels = json!({
        label::NODE_POOL: "a", label::INSTANCE_TYPE: "large", label::ZONE: "zone-a",
        label::CAPACITY_TYPE: "on-demand", label::HOSTNAME: name, label::ARCH: "amd64", label::OS: "linux",
        label::REGISTERED: "true", label::INITIALIZED: "true",
    });
    let room = json!({"cpu": "4", "memory": "16Gi", "pods": "20"});
    let id = format!("aws:///zone-a/{name}");
    let states = ["Launched", "Registered", "Initialized", "Consolidatable", "Ready"].map(condition);
    vec![
        node_claim(
            &format!("a-{name}"),
            &[],
            &json!({
                "metadata": {"uid": format!("claim-{name}"), "labels": labels, "creationTimestamp": CREATED},
                "spec": {"expireAfter": "Never"},
                "status": {"providerID": id, "nodeName": name, "capacity": room, "allocatable": room, "conditions": states},
            }),
        ),
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": format!("node-{name}"), "labels": labels, "creationTimestamp": CREATED},
            "spec": {"providerID": id},
            "status": {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]},
        }),
    ]
}

pub(crate) fn deployment(name: &str, replicas: u32, cpu: &str, spec: &Value) -> Value {
    let mut template = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
    for (field, value) in spec.as_object().into_iter().flatten() {
        template[field] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template}},
    })
}

#[test]
fn pods_take_the_room_there_is_and_new_machines_for_the_rest() {
    let mut objects = vec![pool("a", &json!({})), class(), deployment("api", 3, "3", &json!({}))];
    objects.extend(machine("one"));
    let scaled = |replicas: u32| {
        let manifests = vec![deployment("api", replicas, "3", &json!({}))];
        WhatIf { manifests, ..WhatIf::default() }
    };
    check(
        objects.clone(),
        WhatIf::default(),
        Verdict::Changes,
        &expect![[r#"
            Nodes would change, no pod would stay pending.

            Launch 2 nodes
              + 2 x pool `a`: large zone-a spot at $0.1200 each
                  for shop/api-1, shop/api-2

            Room on nodes that are there or coming: 1 pod
                shop/api-0 on one

            Stay as they are: 1 node
                node is nominated for a pending pod (Nominated): one

            Pools
                a: weight 0, 1 node, 2 instance types to choose from

            Plan: 2 to launch; no pod stays pending
            Per hour: $0.4000 now, $0.6400 after (+$0.2400)
            Per month: $292 now, $467 after (+$175)
        "#]],
    );
    check(
        objects.clone(),
        scaled(1),
        Verdict::Unchanged,
        &expect![[r#"
            Nothing would change, no pod waits.

            Room on nodes that are there or coming: 1 pod
                shop/api-0 on one

            Stay as they are: 1 node
                node is nominated for a pending pod (Nominated): one

            Pools
                a: weight 0, 1 node, 2 instance types to choose from

            Plan: no node changes; no pod stays pending
            Per hour: $0.4000 now, $0.4000 after (+$0.0000)
            Per month: $292 now, $292 after (+$0)
        "#]],
    );
    check(
        objects,
        scaled(0),
        Verdict::Changes,
        &expect![[r#"
            Nodes would change, no pod would stay pending.

            Remove 1 node
              - one: pool `a` large zone-a on-demand at $0.4000
                  because Empty (Emptiness), in 15 s after a second look
                  saves $0.4000 per hour

            Pools
                a: weight 0, 1 node, 2 instance types to choose from

            Plan: 1 to remove; no pod stays pending
            Per hour: $0.4000 now, $0.0000 after (-$0.4000)
            Per month: $292 now, $0 after (-$292)
        "#]],
    );
}

#[test]
fn pods_that_no_pool_takes_are_named_with_what_would_help() {
    let pools = [
        pool("a", &json!({"limits": {"cpu": "1"}, "weight": 10})),
        pool(
            "b",
            &json!({"template": {"spec": {
                "requirements": [{"key": label::ARCH, "operator": "In", "values": ["arm64"]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }}}),
        ),
    ];
    let mut objects: Vec<Value> = pools.into();
    objects.extend([class(), deployment("api", 2, "1", &json!({}))]);
    check(
        objects,
        WhatIf::default(),
        Verdict::PodsWait,
        &expect![[r#"
            2 pods would stay pending.

            Stay pending: 2 pods
              ? shop/api-0, shop/api-1
                  pool `a`: limits of the pool are exceeded: limit `cpu` is reached, 1 left and the smallest instance type has 2 (Limits)
                  would help: raise spec.limits of pool `a`

            Pools
                a: weight 10, 0 nodes, 2 instance types to choose from
                b: weight 0, 0 nodes, takes no part: no instance type has `kubernetes.io/arch` `arm64`, which the pool asks for (NoCompatibleInstanceTypes)

            Plan: no node changes; 2 pods stay pending
            Per hour: $0.0000 now, $0.0000 after (+$0.0000)
            Per month: $0 now, $0 after (+$0)
        "#]],
    );
}

#[test]
fn a_changed_template_is_planned_as_drift() {
    let never = json!({"disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}});
    let mut objects =
        vec![pool("a", &never), class(), deployment("api", 1, "3", &json!({"nodeName": "one"}))];
    objects.extend(machine("one"));
    assert_eq!(planned(objects.clone(), WhatIf::default()).removals.len(), 0);
    let mut changed = pool("a", &never);
    changed["spec"]["template"]["metadata"] = json!({"labels": {"team": "x"}});
    let forecast = planned(objects, WhatIf { manifests: vec![changed], ..WhatIf::default() });
    let methods: Vec<&str> = forecast.removals.iter().map(|removal| removal.method.as_str()).collect();
    assert_eq!(methods, ["Drift"], "{}", forecast.text());
}

#[test]
fn more_pods_than_a_cluster_can_have_are_refused_before_any_is_made() {
    let refused = |objects: Vec<Value>, manifests: Vec<Value>| {
        let what_if = WhatIf { manifests, ..WhatIf::default() };
        read(objects, what_if, |_| {}).err().map(|error| error.to_string())
    };
    let huge = deployment("api", u32::MAX, "1", &json!({}));
    let expected = "cannot plan Deployment/shop/api: `spec.replicas` is 4294967295, and a cluster has at most 150000 \
                    pods; write fewer";
    assert_eq!(refused(vec![huge.clone()], Vec::new()).as_deref(), Some(expected));
    assert_eq!(refused(Vec::new(), vec![huge]).as_deref(), Some(expected));
    let job = |spec: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec});
    let error = refused(vec![job(json!({"parallelism": 150_001}))], Vec::new()).unwrap();
    assert!(error.contains("Job/default/j: `spec.parallelism` is 150001"), "{error}");
    let few = job(json!({"parallelism": 150_001, "completions": 2}));
    assert_eq!(refused(vec![few], Vec::new()), None, "no more run at once than are to complete");
}

#[test]
fn an_object_of_another_group_with_a_kind_that_plans_read_changes_nothing() {
    let volcano = |name: &str| {
        json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"parallelism": 200_000, "template": {"spec": {"containers": []}}},
        })
    };
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "shop"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
    });
    let mut foreign_pool = pool("b", &json!({"weight": 100}));
    foreign_pool["apiVersion"] = json!("example.com/v1");
    let ours = vec![pool("a", &json!({})), class(), job];
    let expected = planned(ours.clone(), WhatIf::default());
    assert_eq!(expected.launches.len(), 1, "{}", expected.text());
    let foreign = || vec![volcano("train"), volcano("other"), foreign_pool.clone()];
    let beside = planned([ours.clone(), foreign()].concat(), WhatIf::default());
    let applied = planned(ours, WhatIf { manifests: foreign(), ..WhatIf::default() });
    let note =
        "plans do not read these manifests, so they change nothing: Job `train`, Job `other`, NodePool `b`";
    for changed in [beside, applied] {
        assert_eq!(changed.notes, [note]);
        assert_eq!(Forecast { notes: expected.notes.clone(), ..changed }, expected);
    }
}

#[test]
fn an_export_of_a_cluster_plans_the_same() {
    let mut objects = vec![pool("a", &json!({})), class(), deployment("api", 3, "3", &json!({}))];
    objects.extend(machine("one"));
    let known = Offerings { problems: [("b".into(), "no subnets".to_owned())].into(), ..offerings(&["a"]) };
    let cluster = world(objects, WhatIf::default());
    let text = |world: &World, offerings: &Offerings| {
        let (snapshot, notes) = world.snapshot(offerings);
        forecast(&snapshot, notes).text()
    };
    let settings = ["reserved-enis=1".to_owned()];
    let about = About { settings: &settings, notes: &[] };
    let stream = cluster.export(&known, about, false);
    let read = Objects::read("export", &stream).unwrap();
    assert_eq!(crate::settings_of(&read), ["reserved-enis=1"]);
    let again = world(read, WhatIf::default());
    let exported = again.exported().unwrap().clone();
    assert_eq!(exported.types, known.types);
    assert_eq!(text(&again, &exported), text(&cluster, &known));
    assert_eq!(again.export(&exported, about, false), stream);
}

#[test]
fn a_pool_that_is_added_to_an_export_can_launch_what_others_of_its_class_can() {
    let cluster = world(vec![pool("a", &json!({})), class()], WhatIf::default());
    let stream = cluster.export(&offerings(&["a"]), About::default(), false);
    let planned_for = |changed: Value| {
        let manifests = vec![changed, deployment("api", 1, "1", &json!({}))];
        let read = Objects::read("export", &stream).unwrap();
        let again = world(read, WhatIf { manifests, ..WhatIf::default() });
        let (snapshot, notes) = again.snapshot(again.exported().unwrap());
        forecast(&snapshot, notes)
    };
    let of_class = |name: &str, class: &str| {
        let mut pool = pool(name, &json!({"weight": 10}));
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(class);
        pool
    };
    let launched: Vec<String> =
        planned_for(of_class("b", "default")).launches.iter().map(|one| one.pool.to_string()).collect();
    assert_eq!(launched, ["b"]);
    for pool in ["a", "b"] {
        let forecast = planned_for(of_class(pool, "other"));
        let expected = format!(
            "instance types of pool `{pool}` are not known: no pool of the export has node class `other`; plan against the \
             cluster"
        );
        assert!(forecast.notes.contains(&expected), "{:?}", forecast.notes);
    }
}

#[test]
fn manifests_that_an_api_server_would_refuse_are_no_plan() {
    let said = |change: &dyn Fn(&mut Value)| {
        let mut wrong = deployment("api", 1, "1", &json!({}));
        change(&mut wrong);
        let of_files = read(vec![pool("a", &json!({})), class(), wrong.clone()], WhatIf::default(), |_| {});
        let what_if = WhatIf { manifests: vec![wrong], ..WhatIf::default() };
        let applied = read(vec![pool("a", &json!({})), class()], what_if, |_| {});
        let said = of_files.unwrap_err().to_string();
        assert_eq!(applied.unwrap_err().to_string(), said);
        said
    };
    let container = "/spec/template/spec/containers/0";
    let amount = |amount: &'static str| {
        move |wrong: &mut Value| {
            wrong.pointer_mut(container).unwrap()["resources"] = json!({"requests": {"memory": amount}});
        }
    };
    assert_eq!(
        said(&amount("1GiB")),
        "cannot plan pod `shop/api-0`, which a manifest asks for: cannot read \
         `spec.containers[0].resources.requests.memory` of Pod `shop/api-0`: quantity `1GiB` has unknown suffix `GiB`, use \
         one of n u m k M G T P E Ki Mi Gi Ti Pi Ei or e<n>; correct the object"
    );
    let misplaced = said(&|wrong| wrong["spec"]["template"]["spec"]["containers"] = json!({"name": "c"}));
    assert!(misplaced.contains(": spec.containers: "), "{misplaced}");
    assert!(misplaced.ends_with("; correct the manifest"), "{misplaced}");
    for replicas in [json!("3"), json!(-3), json!(3.5)] {
        assert_eq!(
            said(&|wrong| wrong["spec"]["replicas"] = replicas.clone()),
            format!(
                "cannot plan Deployment/shop/api: `spec.replicas` is {replicas}; write a whole number that is not negative, \
                 such as 3"
            )
        );
    }
}

#[test]
fn manifests_that_change_nothing_are_named_wherever_they_come_from() {
    let typo = json!({"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "api"}});
    let expected = "plans do not read these manifests, so they change nothing: Deploymnet `api`";
    let of_files = planned(vec![pool("a", &json!({})), class(), typo.clone()], WhatIf::default());
    let applied = WhatIf { manifests: vec![typo], ..WhatIf::default() };
    for forecast in [of_files, planned(vec![pool("a", &json!({})), class()], applied)] {
        assert!(forecast.notes.iter().any(|note| note == expected), "{:?}", forecast.notes);
    }
}

fn told(world: &World) -> Forecast {
    let (snapshot, notes) = world.snapshot(&offerings(&["a", "b"]));
    forecast(&snapshot, notes)
}

/// A plan of the world, which that of its export equals.
fn told_by_both(objects: Vec<Value>, change: impl Fn(&mut FeatureGates)) -> Forecast {
    let cluster = gated(objects, WhatIf::default(), &change);
    let stream = cluster.export(&offerings(&["a", "b"]), About::default(), false);
    let read = Objects::read("export", &stream).unwrap();
    let export = gated(read, WhatIf::default(), &change);
    let forecast = told(&cluster);
    let (snapshot, notes) = export.snapshot(export.exported().unwrap());
    assert_eq!(self::forecast(&snapshot, notes), forecast, "the export plans the same");
    forecast
}

#[test]
fn overlays_change_what_is_cheapest_if_their_gate_is_open() {
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "o"},
        "spec": {
            "requirements": [{"key": label::INSTANCE_TYPE, "operator": "In", "values": ["small"]}],
            "priceAdjustment": "+900%",
        },
    });
    let objects = vec![pool("a", &json!({})), class(), deployment("api", 1, "1", &json!({})), overlay];
    let cheapest = |forecast: &Forecast| {
        forecast.launches[0].cheapest.as_ref().map(|one| one.instance_type.to_string()).unwrap()
    };
    let closed = told_by_both(objects.clone(), |_| {});
    assert_eq!(cheapest(&closed), "small");
    assert!(closed.notes.iter().any(|note| note.contains("NodeOverlays take no part")), "{:?}", closed.notes);
    let open = told_by_both(objects.clone(), |gates| gates.node_overlay = true);
    assert_eq!(cheapest(&open), "large", "{}", open.text());
    let mut wrong = objects;
    wrong[3]["spec"]["priceAdjustment"] = json!("much");
    let refused = told_by_both(wrong, |gates| gates.node_overlay = true);
    assert!(
        refused.notes.iter().any(|note| note.starts_with("overlay `o` does not apply: ")),
        "{:?}",
        refused.notes
    );
}

#[test]
fn static_pools_get_and_give_up_machines_if_their_gate_is_open() {
    let with = |replicas: u32, limits: Value| {
        let mut static_pool = pool("a", &json!({"replicas": replicas, "limits": limits}));
        static_pool["spec"].as_object_mut().unwrap().remove("disruption");
        let mut objects = vec![static_pool, class()];
        objects.extend(machine("one").into_iter().chain(machine("two")));
        objects
    };
    let open = |objects| told_by_both(objects, |gates| gates.static_capacity = true);
    let more = open(with(4, json!({"nodes": "3"})));
    assert_eq!((more.launches.len(), more.surplus.len()), (1, 0), "{}", more.text());
    assert_eq!(more.launches[0].cheapest.as_ref().unwrap().instance_type.as_str(), "small");
    assert!(
        more.notes.contains(&"limits of pool `a` forbid 1 of its replicas".to_owned()),
        "{:?}",
        more.notes
    );
    let fewer = open(with(1, json!({})));
    let gone: Vec<&str> = fewer.surplus.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((fewer.launches.len(), gone), (0, vec!["one"]), "{}", fewer.text());
    assert_eq!(fewer.verdict, Verdict::Changes);
    assert_eq!(fewer.price.after.nanos() * 2, fewer.price.now.nanos());
    let closed = told_by_both(with(4, json!({})), |_| {});
    assert_eq!(closed.launches.len() + closed.removals.len(), 0, "{}", closed.text());
}

/// A plan with one machine, whose only pod needs another one when it goes. The claim is `changed`.
fn with_a_machine(changed: impl FnOnce(&mut Value)) -> Forecast {
    let mut machine = machine("one");
    changed(&mut machine[0]);
    let mut objects =
        vec![pool("a", &json!({})), class(), deployment("api", 1, "3", &json!({"nodeName": "one"}))];
    objects.extend(machine);
    planned(objects, WhatIf::default())
}

/// Asserts that the cost is that of a machine now and that of what is launched instead, as the picture has it.
fn assert_replaced(forecast: &Forecast) {
    let text = forecast.text();
    assert_eq!(forecast.launches.len(), 1, "{text}");
    assert_eq!(forecast.launches[0].pods, ["shop/api-0"], "{text}");
    let cents = |price: Price| price.nanos() / 10_000_000;
    assert_eq!((cents(forecast.price.now), cents(forecast.price.after)), (40, 12), "{text}");
    let drawn = |nodes: &[Drawn]| nodes.iter().filter_map(|node| node.price).sum::<Price>();
    let Picture { now, after } = &forecast.picture;
    assert_eq!((drawn(now), drawn(after)), (forecast.price.now, forecast.price.after));
}

#[test]
fn expired_node_goes_and_its_pods_get_another_one() {
    let forecast = with_a_machine(|claim| claim["spec"]["expireAfter"] = json!("1h"));
    let names: Vec<&str> = forecast.expired.iter().map(|node| node.name.as_str()).collect();
    assert_eq!((names, forecast.removals.len()), (vec!["one"], 0), "{}", forecast.text());
    assert_eq!(forecast.staying, [], "it is among those that go");
    assert_eq!(forecast.verdict, Verdict::Changes);
    assert_replaced(&forecast);
}

#[test]
fn leaving_node_is_paid_for_now_and_not_after() {
    let forecast = with_a_machine(|claim| claim["metadata"]["deletionTimestamp"] = json!(CREATED));
    assert_eq!((forecast.expired.len(), forecast.removals.len()), (0, 0), "{}", forecast.text());
    assert_replaced(&forecast);
}

/// <https://github.com/kubernetes-sigs/karpenter/issues/1392>
#[test]
fn registered_claim_without_its_node_has_no_room() {
    let mut machine = machine("one");
    machine.truncate(1);
    let mut objects = vec![pool("a", &json!({})), class(), deployment("api", 1, "3", &json!({}))];
    objects.extend(machine);
    let forecast = planned(objects, WhatIf::default());
    assert_eq!(forecast.launches.len(), 1, "{}", forecast.text());
}

#[test]
fn buffers_hold_room_if_their_gate_is_open() {
    let buffer = |spec: Value| {
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "shop", "uid": "b"}, "spec": spec,
        })
    };
    let half = json!({
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "api"}, "percentage": 50,
    });
    let objects = vec![pool("a", &json!({})), class(), deployment("api", 2, "3", &json!({})), buffer(half)];
    let closed = told_by_both(objects.clone(), |_| {});
    assert_eq!(closed.launches.len(), 2, "{}", closed.text());
    let open = told_by_both(objects.clone(), |gates| gates.capacity_buffer = true);
    assert_eq!(open.launches.len(), 3, "{}", open.text());
    let gates = |gates: &mut FeatureGates| gates.capacity_buffer = true;
    let named = gated(objects.clone(), WhatIf::default(), gates);
    let stream = named.export(&offerings(&["a", "b"]), About::default(), true);
    let anonymous = gated(Objects::read("export", &stream).unwrap(), WhatIf::default(), gates);
    let (snapshot, notes) = anonymous.snapshot(anonymous.exported().unwrap());
    assert_eq!(forecast(&snapshot, notes).launches.len(), 3, "without names");
    let mut nowhere = objects;
    nowhere[2]["metadata"]["name"] = json!("other");
    let missing = told_by_both(nowhere, |gates| gates.capacity_buffer = true);
    let expected =
        "buffer `shop/spare` holds no room: Deployment `api` does not exist in the namespace of the buffer";
    assert!(missing.notes.contains(&expected.to_owned()), "{:?}", missing.notes);
}

/// Returns the plan apart from names and their order.
fn without_names(plan: &Forecast) -> Value {
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let launches = plan.launches.iter().map(|one| {
        let (types, pods) = (&one.instance_types, one.pods.len());
        format!("{:?} {types:?} {:?} {pods} {}", one.cheapest, one.requests, one.requirements.len())
    });
    let removals = plan.removals.iter().map(|one| {
        let (nodes, replacements, moves) = (one.nodes.len(), one.replacements.len(), one.moves.len());
        format!("{:?} {} {nodes} {replacements} {moves} {:?}", one.reason, one.method, one.savings)
    });
    let pending = plan.pending.iter().map(|one| {
        let codes = one.reasons.iter().map(|reason| format!("{:?}", reason.code)).collect();
        sorted(codes).join(" ")
    });
    let staying = plan.staying.iter().map(|one| format!("{:?}", one.reason.code));
    let pools = plan
        .pools
        .iter()
        .map(|pool| format!("{} {} {} {}", pool.weight, pool.nodes, pool.launches, pool.instance_types));
    json!({
        "verdict": plan.verdict, "price": plan.price, "nominated": plan.nominated.len(),
        "launches": sorted(launches.collect()), "removals": sorted(removals.collect()),
        "pending": sorted(pending.collect()), "staying": sorted(staying.collect()), "pools": sorted(pools.collect()),
        "findings": plan.findings.len(), "notes": plan.notes.len(),
    })
}

#[test]
#[expect(clippy::too_many_lines, reason = "one cluster")]
fn an_anonymous_export_of_labels_that_many_charts_set_plans_the_same() {
    let (group, purpose) = ("eks.amazonaws.com/nodegroup", "node.kubernetes.io/purpose");
    let (name, component) = ("app.kubernetes.io/name", "app.kubernetes.io/component");
    let (instance, version) = ("app.kubernetes.io/instance", "app.kubernetes.io/version");
    let mut money = pool("a", &json!({"weight": 10}));
    money["spec"]["template"]["metadata"] = json!({"labels": {group: "money"}});
    money["spec"]["template"]["spec"]["taints"] =
        json!([{"key": purpose, "value": "money", "effect": "NoSchedule"}]);
    let labelled = |name: &str, replicas: u32, labels: Value, spec: Value| {
        let mut workload = deployment(name, replicas, "1", &spec);
        workload["spec"]["selector"]["matchLabels"] = labels.clone();
        workload["spec"]["template"]["metadata"]["labels"] = labels;
        workload
    };
    let tolerations =
        json!([{"key": purpose, "operator": "Equal", "value": "money", "effect": "NoSchedule"}]);
    let with = |key: &str, value: &str, more: Value| {
        let mut term = json!({
            "topologyKey": label::HOSTNAME,
            "labelSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": [value, "else"]}]},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            term[field] = value.clone();
        }
        json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]})
    };
    let in_shop = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}});
    let spread = json!([{
        "topologyKey": label::HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {component: "web"}}, "matchLabelKeys": [version],
    }]);
    let mut objects = vec![
        money,
        pool("b", &json!({"weight": 5})),
        class(),
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}}}),
        labelled(
            "pay",
            3,
            json!({name: "pay"}),
            json!({
                "nodeSelector": {group: "money"}, "tolerations": tolerations,
                "affinity": {"podAntiAffinity": with(name, "pay", json!({}))},
            }),
        ),
        labelled(
            "ledger",
            2,
            json!({instance: "ledger"}),
            json!({
                "tolerations": tolerations, "affinity": {"podAffinity": with(name, "pay", in_shop)},
            }),
        ),
        labelled(
            "web",
            3,
            json!({component: "web", version: "v1"}),
            json!({"topologySpreadConstraints": spread}),
        ),
        labelled(
            "lost",
            1,
            json!({name: "lost"}),
            json!({
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": group, "operator": "In", "values": ["lost"]}]},
                ]}}},
            }),
        ),
        labelled(
            "db",
            1,
            json!({name: "db", "statefulset.kubernetes.io/pod-name": "db"}),
            json!({
                "nodeName": "one", "tolerations": tolerations,
            }),
        ),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"maxUnavailable": 0,
                "selector": {"matchLabels": {name: "db", "statefulset.kubernetes.io/pod-name": "db"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        }),
    ];
    for mut object in machine("one") {
        object["metadata"]["labels"][group] = json!("money");
        objects.push(object);
    }
    let cluster = world(objects, WhatIf::default());
    let plan = told(&cluster);
    let hosts: Vec<usize> = plan.launches.iter().map(|one| one.pods.len()).collect();
    assert!(hosts.len() >= 4 && plan.pending.len() == 1 && plan.staying.len() == 1, "{}", plan.text());
    let stream = cluster.export(&offerings(&["a", "b"]), About::default(), true);
    for name in ["money", "pay", "ledger", "\"web\"", "lost", "\"db\"", "shop"] {
        assert!(!stream.contains(name), "{name} in {stream}");
    }
    let again = world(Objects::read("export", &stream).unwrap(), WhatIf::default());
    let (snapshot, notes) = again.snapshot(again.exported().unwrap());
    let anonymous = forecast(&snapshot, notes);
    assert_eq!(without_names(&anonymous), without_names(&plan), "{}\n{}", anonymous.text(), plan.text());
}

#[test]
fn a_pod_that_names_its_pool_hears_of_that_pool_alone() {
    let pinned = |pool: &str| deployment("api", 1, "64", &json!({"nodeSelector": {label::NODE_POOL: pool}}));
    let pools_said = |name: &str| -> Vec<String> {
        let objects = vec![pool("a", &json!({})), pool("b", &json!({})), class(), pinned(name)];
        let forecast = planned(objects, WhatIf::default());
        let reasons = forecast.pending.iter().flat_map(|waiting| &waiting.reasons);
        reasons.filter_map(|why| why.pool.as_ref().map(ToString::to_string)).collect()
    };
    assert_eq!(pools_said("b"), ["b"]);
    assert_eq!(pools_said("gone"), ["a", "b"], "there is no such pool");
}

#[test]
fn texts_name_the_budget_that_blocks() {
    let mut objects = vec![pool("a", &json!({})), class()];
    objects.extend(machine("one"));
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "api-0", "namespace": "shop", "uid": "api-0", "labels": {"app": "api"},
            "creationTimestamp": CREATED,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api", "uid": "1", "controller": true}]},
        "spec": {"nodeName": "one", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [condition("Ready"), condition("PodScheduled")]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "api", "namespace": "shop"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "api"}}},
    });
    objects.extend([pod.take(), budget]);
    let text = planned(objects, WhatIf::default()).text();
    let expected = "    a pod disruption budget prevents evictions (PodDisruptionBudget): one\n        shop/api protects shop/api-0\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn many_nodes_are_folded_and_names_are_in_the_order_of_their_numbers() {
    let mut objects = vec![pool("a", &json!({})), class()];
    for number in [10, 9, 8, 11, 1, 2, 3] {
        objects.extend(machine(&format!("n{number}")));
    }
    let text = planned(objects.clone(), WhatIf::default()).text();
    assert!(text.contains("  - and 2 nodes more with 0 pods\n"), "{text}");
    assert!(text.contains("\nPlan: 7 to remove; no pod stays pending\n"), "{text}");
    objects[0]["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    let text = planned(objects, WhatIf::default()).text();
    assert!(text.contains(": n1, n2, n3, n8, n9 and 2 more\n"), "{text}");
}

#[test]
fn a_comment_on_a_pull_request_has_the_numbers_first_and_no_markup_of_names() {
    let mut objects = vec![pool("a", &json!({"limits": {"cpu": "1"}})), class()];
    objects.push(deployment("api", 1, "1", &json!({})));
    let forecast = planned(objects, WhatIf::default());
    let comment = forecast.markdown("<b>`prod`");
    assert!(
        comment
            .starts_with("### Karpenter plan for cluster `<b>'prod'`\n\n❌ **1 pod would stay pending.**\n"),
        "{comment}"
    );
    for part in [
        "| cost per hour | $0.0000 | $0.0000 |\n| cost per month | $0 | $0 |\n| nodes | 0 | 0 |\n",
        "No node changes; 1 pod stays pending.\n",
        "\n- `shop/api-0` would stay pending: pool `a`: limits of the pool are exceeded",
        "\n  - would help: raise spec.limits of pool `a`\n",
        "<details><summary>The whole plan, made at 2026-01-02T00:00:00Z</summary>\n\n````text\n1 pod would stay pending.\n",
    ] {
        assert!(comment.contains(part), "{part}: {comment}");
    }
    let long = Forecast { notes: vec!["n".repeat(100_000)], ..forecast };
    let comment = long.markdown("");
    assert!(comment.chars().count() < 65_536 && comment.contains("\n... the rest is left out"), "{comment}");
}

#[test]
fn a_price_that_is_not_known_is_no_price_of_zero() {
    let mut objects = vec![pool("a", &json!({})), class()];
    objects.extend(machine("one"));
    let surplus = objects.len() - 1;
    for object in &mut objects[surplus - 1..] {
        object["metadata"]["labels"][label::INSTANCE_TYPE] = json!("unheard");
    }
    let forecast = planned(objects.clone(), WhatIf::default());
    let (text, json) = (forecast.text(), serde_json::to_value(&forecast).unwrap());
    // The node goes, and then nothing costs anything.
    assert!(text.contains("\nPer hour: - now, $0.0000 after (-)\n"), "{text}");
    assert!(text.contains("on-demand at -\n") && text.contains("saves -, because"), "{text}");
    assert!(json["price"]["now"].is_null() && json["removals"][0]["savings"].is_null(), "{json}");
    assert!(forecast.html("").contains("<dt>Cost per hour</dt><dd>- <span"));
    objects[0]["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]);
    let stays = planned(objects, WhatIf::default());
    assert!(stays.text().contains("\nPer hour: - now, - after (-)\n"), "{}", stays.text());
    assert!(!stays.text().contains("$0.0000") && !stays.html("").contains("$0.00"), "{}", stays.text());
    let machines = ["removals", "expired", "surplus"].map(|field| json[field].clone());
    let prices: Vec<&Value> = machines.iter().flat_map(|list| list.as_array().unwrap()).collect();
    for one in prices {
        let nodes = one.get("nodes").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![one.clone()]);
        assert!(nodes.iter().all(|node| node["price"].is_null()), "{json}");
    }
}
