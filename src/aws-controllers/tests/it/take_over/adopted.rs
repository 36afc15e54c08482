//! What the reference has written, taken over by our controllers: every write and every call that changes something.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::NodePool;
use karpenter_aws::instances::drift;
use karpenter_aws_api::ec2::InstanceState;
use karpenter_cloud::Provider;
use kube::api::Api;
use serde_json::{Value, json};

use super::difference::between;
use super::recording::{Recording, instance_of, text};
use super::{changes, start, stored};
use crate::world::{Ground, World, Writes};

/// Half a minute after the last recorded write. What happens at first happens then: virtual time passes only in waits.
const TAKEN_OVER: &str = "2026-11-22T09:11:00Z";

/// Pool `spot` gives up nodes that have been empty for an hour, and this one has never had a pod.
const EMPTY: Machine = Machine {
    claim: "spot-m2z6n",
    node: "ip-10-0-128-4.us-west-2.compute.internal",
    instance: "i-a39590d2d39a7390a",
};

struct Machine {
    claim: &'static str,
    node: &'static str,
    instance: &'static str,
}

async fn take_over() -> (World, Writes, Recording) {
    let recording = Recording::read();
    let ground = Ground::new(Recording::options(), TAKEN_OVER);
    recording.seed(&ground.account).await;
    recording.launch(&ground.account).await;
    recording.restore(&ground.server);
    ground.account.forget_calls();
    let (world, writes) = start(ground, &recording);
    (world, writes, recording)
}

/// Where the cluster differs from the recorded one: `Kind name path`. Revisions are those of each API server.
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
    // An amount that no node has is none (docs/differences.md, "Life of a node").
    for pool in ["general", "spot"] {
        expected.insert(format!("NodePool {pool} /status/resources/vpc.amazonaws.com/pod-eni"));
    }
    assert_eq!(moved(&world, &recording), expected);
    let written = writes.take();
    let mut sorted: Vec<String> =
        written.iter().map(|write| format!("{} {}", write.method, write.path)).collect();
    sorted.sort();
    let path = |kind: &str, name: &str| format!("PATCH /apis/karpenter.sh/v1/{kind}/{name}/status");
    let claims =
        ["general-lh5ll", "spot-8k5fq", "spot-m2z6n", "spot-qbg7g"].map(|name| path("nodeclaims", name));
    let pools = ["general", "spot"].map(|name| path("nodepools", name));
    assert_eq!(sorted, [claims.as_slice(), pools.as_slice()].concat(), "{written:#?}");

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
