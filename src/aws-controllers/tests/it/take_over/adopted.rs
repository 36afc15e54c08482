//! Objects of the reference, taken over by our controllers: every write and every call that changes something.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::{EC2NodeClass, NodeClaim, NodePool};
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_cloud::Provider;
use karpenter_model::names::annotation::aws::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION};
use kube::api::Api;
use serde_json::{Value, json};

use super::difference::between;
use super::recording::{Recording, instance_of, text};
use super::{changes, start, stored};
use crate::world::{Setup, World, Writes};

/// Half a minute after the last recorded write. What happens at first happens then: virtual time passes only in waits.
const TAKEN_OVER: &str = "2026-11-22T09:11:00Z";

/// Pool `spot` gives up nodes that have been empty for an hour, and this one has never had a pod.
const EMPTY: Machine = Machine {
    claim: "spot-m2z6n",
    node: "ip-10-0-128-4.us-west-2.compute.internal",
    instance: "i-a39590d2d39a7390a",
};

/// Paths of a hash and its version.
const HASHES: [&str; 2] = [
    "/metadata/annotations/karpenter.k8s.aws~1ec2nodeclass-hash",
    "/metadata/annotations/karpenter.k8s.aws~1ec2nodeclass-hash-version",
];

struct Machine {
    claim: &'static str,
    node: &'static str,
    instance: &'static str,
}

async fn take_over() -> (World, Writes, Recording) {
    take_over_of(Recording::read()).await
}

async fn take_over_of(recording: Recording) -> (World, Writes, Recording) {
    let setup = Setup::new(Recording::options(), TAKEN_OVER);
    recording.seed(&setup.account).await;
    recording.launch(&setup.account).await;
    recording.restore(&setup.server);
    setup.account.forget_calls();
    let (world, writes) = start(setup, &recording);
    (world, writes, recording)
}

/// Differences of the cluster from the recording: `Kind name path`. Revisions are those of each API server.
fn moved(world: &World, recording: &Recording) -> BTreeSet<String> {
    let mut moved = BTreeSet::new();
    for object in recording.objects() {
        let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
        let Some(present) = stored(world, object) else {
            moved.insert(format!("{kind} {name} is gone"));
            continue;
        };
        let paths = between(object, &present).into_keys().filter(|path| path != "/metadata/resourceVersion");
        moved.extend(paths.map(|path| format!("{kind} {name} {path}")));
    }
    moved
}

fn condition(world: &World, recording: &Recording, claim: &str, kind: &str) -> Value {
    let like = recording.claims.iter().find(|one| text(one, "/metadata/name") == claim).unwrap();
    let present = stored(world, like).expect("the claim is there");
    let all = present["status"]["conditions"].as_array().unwrap();
    let found = all.iter().find(|one| one["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {all:?}"));
    json!([found["status"], found["lastTransitionTime"]])
}

/// v1.15 counts the kubelet block in another way, so hashes are of another version.
fn rehashed(recording: &Recording) -> impl Iterator<Item = String> {
    let kinds = [("EC2NodeClass", &recording.classes), ("NodeClaim", &recording.claims)];
    kinds.into_iter().flat_map(|(kind, objects)| {
        let names = objects.iter().map(|object| text(object, "/metadata/name"));
        names.flat_map(move |name| HASHES.map(|path| format!("{kind} {name} {}", path.replace("~1", "/"))))
    })
}

/// Every write of the first hour, sorted.
fn first_writes() -> Vec<String> {
    let path = |kind: &str, name: &str| format!("PATCH /apis/karpenter.sh/v1/{kind}/{name}");
    let names = ["general-lh5ll", "spot-8k5fq", "spot-m2z6n", "spot-qbg7g"];
    let claims = names.map(|name| path("nodeclaims", name));
    let classes =
        ["br", "default"].map(|name| format!("PATCH /apis/karpenter.k8s.aws/v1/ec2nodeclasses/{name}"));
    let status = |path: String| format!("{path}/status");
    let states = claims.clone().map(status);
    let pools = ["general", "spot"].map(|name| status(path("nodepools", name)));
    let mut writes: Vec<String> = [classes.as_slice(), &claims, &states, &pools].concat();
    writes.sort();
    writes
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_the_reference_is_taken_over_and_no_machine_is_touched() {
    let (world, writes, recording) = take_over().await;
    tokio::time::sleep(Duration::from_mins(58)).await;

    // The recording ends before the reference has compared claims with their Nodes (spec disruption 1.13).
    let mut expected: BTreeSet<String> = BTreeSet::new();
    for claim in &recording.claims {
        let name = text(claim, "/metadata/name");
        expected.insert(format!("NodeClaim {name} /status/conditions/ConsistentStateFound"));
        assert_eq!(condition(&world, &recording, name, "ConsistentStateFound"), json!(["True", TAKEN_OVER]));
    }
    expected.extend(rehashed(&recording));
    // An amount that no node has is none (docs/differences.md, "Life of a node").
    for pool in ["general", "spot"] {
        expected.insert(format!("NodePool {pool} /status/resources/vpc.amazonaws.com/pod-eni"));
    }
    assert_eq!(moved(&world, &recording), expected);
    let written = writes.take();
    let mut sorted: Vec<String> =
        written.iter().map(|write| format!("{} {}", write.method, write.path)).collect();
    sorted.sort();
    let writes = first_writes();
    assert_eq!(sorted, writes, "{written:#?}");

    let recorded: Vec<_> = recording.instances.iter().map(instance_of).collect();
    let mut found = world.account.instances();
    found.sort_by_key(|instance| recorded.iter().position(|one| one.id == instance.id));
    assert_eq!(found, recorded, "instances are what they were");
    // Dry runs of both classes at the start and half an hour later, each with a template that goes ten minutes after; with
    // the first of them go the reference's (docs/differences.md, "launch templates").
    let (mut created, mut deleted) = (Vec::new(), BTreeSet::new());
    for (operation, name) in changes(&world) {
        match operation {
            "CreateLaunchTemplate" => created.push(name),
            "DeleteLaunchTemplate" => {
                deleted.insert(name);
            }
            other => panic!("the account was changed: {other} {name}"),
        }
    }
    assert_eq!(created.len(), 4, "{created:?}");
    let names = recording.templates.iter().map(|one| text(one, "/template/LaunchTemplateName").to_owned());
    assert_eq!(deleted, names.chain(created).collect());

    for claim in world.view.claims() {
        assert_eq!(world.aws.drift(&claim.model).await.unwrap(), None, "{}", claim.model.name);
    }
    let told: BTreeSet<String> = world
        .events
        .events()
        .into_iter()
        .map(|event| format!("{} {}: {}", event.object.kind, event.object.name, event.message))
        .collect();
    let why = "Can't replace with a cheaper node";
    let checked = "Status condition transitioned, Type: ConsistentStateFound, Status: Unknown -> True, Reason: \
                   ConsistentStateFound";
    let never = "NodePool \"spot\" has non-empty consolidation disabled";
    let mut expected = BTreeSet::from([
        format!("Node ip-10-0-0-5.us-west-2.compute.internal: {why}"),
        format!("NodeClaim general-lh5ll: {why}"),
        format!("Node ip-10-0-0-4.us-west-2.compute.internal: {never}"),
        format!("NodeClaim spot-qbg7g: {never}"),
        format!("Node ip-10-0-64-4.us-west-2.compute.internal: {never}"),
        format!("NodeClaim spot-8k5fq: {never}"),
    ]);
    expected.extend(
        recording.claims.iter().map(|one| format!("NodeClaim {}: {checked}", text(one, "/metadata/name"))),
    );
    assert_eq!(told, expected, "consolidation has looked, and that is all there is to say");
}

#[tokio::test(start_paused = true)]
async fn quiet_time_that_began_under_the_reference_goes_on_and_ends_when_it_would_have() {
    let (world, writes, recording) = take_over().await;
    tokio::time::sleep(Duration::from_mins(58)).await;
    writes.take();
    world.account.forget_calls();
    tokio::time::sleep(Duration::from_hours(2)).await;

    let written: BTreeSet<String> =
        writes.take().into_iter().map(|write| format!("{} {}", write.method, write.path)).collect();
    let (claims, nodes) = ("/apis/karpenter.sh/v1/nodeclaims", "/api/v1/nodes");
    let expected = BTreeSet::from([
        format!("PATCH {claims}/spot-qbg7g/status"),
        format!("PATCH {claims}/spot-8k5fq/status"),
        format!("PATCH {claims}/{}/status", EMPTY.claim),
        format!("PATCH {claims}/{}", EMPTY.claim),
        format!("DELETE {claims}/{}", EMPTY.claim),
        format!("PATCH {nodes}/{}", EMPTY.node),
        format!("DELETE {nodes}/{}", EMPTY.node),
        "PATCH /apis/karpenter.sh/v1/nodepools/spot/status".to_owned(),
    ]);
    assert_eq!(written, expected);
    // One hour after the last event of their pods.
    for (claim, since) in [("spot-qbg7g", "2026-11-22T10:09:57Z"), ("spot-8k5fq", "2026-11-22T10:09:58Z")] {
        assert_eq!(condition(&world, &recording, claim, "Consolidatable"), json!(["True", since]));
    }
    let since = json!(["True", "2026-11-22T09:10:30Z"]);
    assert_eq!(condition(&world, &recording, "general-lh5ll", "Consolidatable"), since, "as recorded");
    let gone: Vec<String> =
        moved(&world, &recording).into_iter().filter(|one| one.ends_with("is gone")).collect();
    assert_eq!(gone, [format!("Node {} is gone", EMPTY.node), format!("NodeClaim {} is gone", EMPTY.claim)]);
    for instance in world.account.instances() {
        let ended = instance.id.as_str() == EMPTY.instance;
        let wanted = if ended { InstanceState::Terminated } else { InstanceState::Running };
        assert_eq!(instance.state, wanted, "{}", instance.id);
    }
    let mut changes = changes(&world);
    changes.retain(|(operation, _)| !["CreateLaunchTemplate", "DeleteLaunchTemplate"].contains(operation));
    assert_eq!(changes, [("TerminateInstances", EMPTY.instance.to_owned())], "besides templates of dry runs");
    // Initialized at 09:10:05, an hour of quiet, fifteen seconds until the second look; the rest is one pass.
    let calls = world.account.calls().0;
    let end = calls.iter().find(|call| call.operation == "TerminateInstances").expect("just seen");
    let at = end.at.to_string();
    assert!(("2026-11-22T10:10:20Z".."2026-11-22T10:10:40Z").contains(&at.as_str()), "{at}");
}

/// Writes hash and version on every class and claim, the claims first, as controllers of all versions do.
async fn stamp_all(world: &World, recording: &Recording, stamp: impl Fn(&Value) -> Value) {
    let patch = |object: &Value| kube::api::Patch::Merge(json!({"metadata": {"annotations": stamp(object)}}));
    for claim in &recording.claims {
        let api = Api::<NodeClaim>::all(world.client.clone());
        api.patch(text(claim, "/metadata/name"), &Default::default(), &patch(claim)).await.unwrap();
    }
    for class in &recording.classes {
        let api = Api::<EC2NodeClass>::all(world.client.clone());
        api.patch(text(class, "/metadata/name"), &Default::default(), &patch(class)).await.unwrap();
    }
}

/// Asserts that all hashes are ours, and that exactly `drifted` have drifted.
async fn hashes_are_ours(world: &World, recording: &Recording, drifted: &[&str]) {
    for claim in &recording.claims {
        let name = text(claim, "/metadata/name");
        let present = stored(world, claim).expect("the claim is there");
        let class = present["spec"]["nodeClassRef"]["name"].as_str().unwrap();
        let like = recording.classes.iter().find(|one| text(one, "/metadata/name") == class).unwrap();
        let class = stored(world, like).expect("the class is there");
        let [hash, version] = HASHES.map(|path| (present.pointer(path), class.pointer(path)));
        assert_eq!(version, (Some(&json!("v6")), Some(&json!("v6"))), "{name}");
        let known = world.view.claim(&name.into()).expect("the claim is known");
        let reason = drifted.contains(&name).then_some(drift::NODE_CLASS);
        assert_eq!((hash.0 != hash.1).then_some(drift::NODE_CLASS), reason, "{name}");
        assert_eq!(world.aws.drift(&known.model).await.unwrap(), reason, "{name}");
        let conditions = present["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.iter().any(|one| one["type"] == "Drifted"), reason.is_some(), "{name}");
    }
}

/// Hashes that v1.14.1 and a release after v1.15 write in place of ours, and those we write in place of theirs.
#[tokio::test(start_paused = true)]
async fn steps_to_other_releases_and_back_drift_no_node() {
    let (world, _, recording) = take_over().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    hashes_are_ours(&world, &recording, &[]).await;
    let recorded = |object: &Value| {
        let [hash, version] = HASHES.map(|path| object.pointer(path).expect("it is recorded").clone());
        assert_eq!(version, "v5");
        json!({EC2_NODE_CLASS_HASH: hash, EC2_NODE_CLASS_HASH_VERSION: version})
    };
    let newer = |_: &Value| json!({EC2_NODE_CLASS_HASH: "1", EC2_NODE_CLASS_HASH_VERSION: "v7"});
    stamp_all(&world, &recording, recorded).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    hashes_are_ours(&world, &recording, &[]).await;
    stamp_all(&world, &recording, newer).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    hashes_are_ours(&world, &recording, &[]).await;
}

/// Claims that had drifted before are still to be replaced.
#[tokio::test(start_paused = true)]
async fn a_claim_that_drifted_under_the_reference_keeps_its_hash() {
    let mut recording = Recording::read();
    let claim =
        recording.claims.iter_mut().find(|one| text(one, "/metadata/name") == "general-lh5ll").unwrap();
    claim["metadata"]["annotations"][EC2_NODE_CLASS_HASH] = json!("1");
    claim["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "Drifted", "status": "True", "reason": "NodeClassDrift", "message": "NodeClassDrift",
        "lastTransitionTime": "2026-11-22T09:10:30Z",
    }));
    let (world, _, recording) = take_over_of(recording).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    hashes_are_ours(&world, &recording, &["general-lh5ll"]).await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_the_reference_drift_when_their_class_or_pool_changes() {
    let (world, _, recording) = take_over().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    world.class_tag("br", "cost", "2").await;
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"tier": "one"}}}}});
    Api::<NodePool>::all(world.client.clone())
        .patch("general", &Default::default(), &kube::api::Patch::Merge(patch))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    for claim in &recording.claims {
        let name = text(claim, "/metadata/name");
        let known = world.view.claim(&name.into()).expect("the claim is known");
        let of_class = known.model.node_class.name == "br";
        let wanted = of_class.then_some(drift::NODE_CLASS);
        assert_eq!(world.aws.drift(&known.model).await.unwrap(), wanted, "{name}");
        assert_eq!(condition(&world, &recording, name, "Drifted")[0], "True", "{name}");
    }
}
