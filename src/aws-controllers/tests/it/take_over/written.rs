//! Objects that our controllers write, compared with the reference's for the same classes, pools and pods.

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_aws_api::ec2::{Instance, LaunchTemplate, LaunchTemplateData};
use karpenter_aws_sim::{Account, OfferingSelector};
use karpenter_kube_sim::apiserver::ApiServer;
use karpenter_model::names::annotation;
use serde_json::{Value, json};

use super::difference::between;
use super::recording::{Recording, TYPES, ZONES, data_of, instance_of, instance_tag, summary_of, tags, text};
use super::{all, start, stored};
use crate::world::{Setup, World};

/// Hashes are those of v1.15 (docs/differences.md, "hash of an EC2NodeClass").
const HASHES: [&str; 2] = [
    "/metadata/annotations/karpenter.k8s.aws/ec2nodeclass-hash",
    "/metadata/annotations/karpenter.k8s.aws/ec2nodeclass-hash-version",
];
const PROFILE: &str = "karpenter.k8s.aws/instance-profile-name";

/// The cluster with our nodes on it.
async fn launch() -> (World, Recording) {
    let recording = Recording::read();
    let setup = Setup::new(Recording::options(), "2026-11-22T09:30:00Z");
    recording.seed(&setup.account).await;
    sell_what_was_launched(&setup.account, &recording);
    as_people_wrote_it(&setup.server, &recording);
    let (world, _) = start(setup, &recording);
    tokio::time::sleep(Duration::from_mins(2)).await;
    (world, recording)
}

/// Capacity is there where the reference got it, and nowhere else.
fn sell_what_was_launched(account: &Account, recording: &Recording) {
    let launched: BTreeSet<(&str, &str, bool)> = recording
        .instances
        .iter()
        .map(|one| {
            let spot = one["InstanceLifecycle"] == "spot";
            (text(one, "/InstanceType"), text(one, "/Placement/AvailabilityZone"), spot)
        })
        .collect();
    for ((name, ..), zone, spot) in TYPES
        .into_iter()
        .flat_map(|one| ZONES.into_iter().flat_map(move |zone| [(one, zone, true), (one, zone, false)]))
    {
        if !launched.contains(&(name, zone, spot)) {
            account.limit_capacity(OfferingSelector::exactly(name, zone, spot), 0);
        }
    }
}

/// Classes and pools without what a controller has added, and their pods without a place.
fn as_people_wrote_it(server: &ApiServer, recording: &Recording) {
    for object in recording.classes.iter().chain(&recording.pools) {
        let mut object = object.clone();
        object.as_object_mut().unwrap().shift_remove("status");
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.shift_remove("finalizers");
        metadata["annotations"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("karpenter."));
        server.restore(&object).unwrap();
    }
    for pod in &recording.pods {
        let mut pod = pod.clone();
        pod["spec"].as_object_mut().unwrap().shift_remove("nodeName");
        pod["metadata"]["labels"].as_object_mut().unwrap().retain(|key, _| !key.starts_with("topology."));
        pod["status"] = json!({"phase": "Pending"});
        server.restore(&pod).unwrap();
    }
}

/// Each recorded object of `recorded` with the one of ours that was made for the same pool in the same zone.
fn pairs<'a>(recorded: &'a [Value], ours: &'a [Value]) -> Vec<(&'a Value, &'a Value)> {
    let place = |object: &Value| {
        ["karpenter.sh/nodepool", "topology.kubernetes.io/zone"]
            .map(|label| object["metadata"]["labels"][label].as_str().map(str::to_owned))
    };
    assert_eq!(recorded.len(), ours.len());
    let twin =
        |one: &Value| ours.iter().find(|other| place(other) == place(one)).expect("one in the same place");
    recorded.iter().map(|one| (one, twin(one))).collect()
}

/// Asserts that ours differs in all of these paths and in no other.
fn differs_in<'a>(recorded: &Value, ours: &Value, paths: impl IntoIterator<Item = &'a str>) {
    let found = between(recorded, ours);
    let expected: BTreeSet<&str> = paths.into_iter().collect();
    let name = text(recorded, "/metadata/name");
    let only = |path: &&str| found.get(*path).map(|values| format!("{path}: {values:?}"));
    let surprises: Vec<_> =
        found.keys().map(String::as_str).filter(|path| !expected.contains(path)).collect();
    assert!(surprises.is_empty(), "{name}: {:#?}", surprises.iter().filter_map(only).collect::<Vec<_>>());
    let equal: Vec<_> = expected.iter().filter(|path| !found.contains_key(**path)).collect();
    assert!(equal.is_empty(), "{name}: {equal:?} is equal and need not be listed");
}

/// Another object of another API server.
const IDENTITY: [&str; 4] =
    ["/metadata/creationTimestamp", "/metadata/name", "/metadata/resourceVersion", "/metadata/uid"];

/// Paths of the transition times of conditions of these kinds.
fn times<'a>(kinds: &'a [&'a str]) -> impl Iterator<Item = String> + 'a {
    kinds.iter().map(|kind| format!("/status/conditions/{kind}/lastTransitionTime"))
}

#[tokio::test(start_paused = true)]
async fn claims_are_those_of_the_reference() {
    let (world, recording) = launch().await;
    let ours = all(&world, "karpenter.sh", "nodeclaims");
    for (recorded, ours) in pairs(&recording.claims, &ours) {
        let mut paths: Vec<String> = IDENTITY.map(str::to_owned).into();
        paths.extend(HASHES.map(str::to_owned));
        paths.extend([
            // docs/differences.md, "instance profile names".
            format!("/metadata/annotations/{PROFILE}"),
            // docs/promises.md: the reference ignores it.
            format!("/metadata/annotations/{}", annotation::LAUNCHED_FOR),
            // This account sells four types, the recorded one a thousand.
            "/spec/requirements/node.kubernetes.io/instance-type/values".to_owned(),
            "/status/lastPodEventTime".to_owned(),
            "/status/nodeName".to_owned(),
            "/status/providerID".to_owned(),
            // The recording ends before the reference has compared the Node.
            "/status/conditions/ConsistentStateFound".to_owned(),
        ]);
        paths.extend(times(&["Launched", "Registered", "Initialized", "Ready"]));
        if recorded["metadata"]["labels"]["karpenter.sh/nodepool"] == "general" {
            paths.extend(times(&["Consolidatable"]));
        }
        differs_in(recorded, ours, paths.iter().map(String::as_str));
    }
}

#[tokio::test(start_paused = true)]
async fn pools_and_classes_are_those_of_the_reference() {
    let (world, recording) = launch().await;
    for recorded in &recording.pools {
        let ours = stored(&world, recorded).unwrap();
        let kinds = ["ValidationSucceeded", "NodeClassReady", "NodeRegistrationHealthy", "Ready"];
        let mut paths: Vec<String> = times(&kinds).collect();
        paths.push("/metadata/resourceVersion".to_owned());
        // docs/differences.md, "Life of a node".
        paths.push("/status/resources/vpc.amazonaws.com/pod-eni".to_owned());
        differs_in(recorded, &ours, paths.iter().map(String::as_str));
    }
    for recorded in &recording.classes {
        let ours = stored(&world, recorded).unwrap();
        let kinds = [
            "AMIsReady",
            "CapacityReservationsReady",
            "PlacementGroupReady",
            "SubnetsReady",
            "SecurityGroupsReady",
            "InstanceProfileReady",
            "ValidationSucceeded",
            "Ready",
        ];
        let mut paths: Vec<String> = times(&kinds).collect();
        paths.push("/metadata/resourceVersion".to_owned());
        // docs/differences.md, "instance profile names".
        paths.push("/status/instanceProfile".to_owned());
        paths.extend(HASHES.map(str::to_owned));
        differs_in(recorded, &ours, paths.iter().map(String::as_str));
    }
}

/// Only what the controllers write: the status of a Node is the kubelet's.
#[tokio::test(start_paused = true)]
async fn nodes_are_those_of_the_reference() {
    let (world, recording) = launch().await;
    let ours = all(&world, "", "nodes");
    for (recorded, ours) in pairs(&recording.nodes, &ours) {
        let written = |node: &Value| json!({"metadata": node["metadata"], "spec": node["spec"]});
        let mut paths: Vec<String> = IDENTITY.map(str::to_owned).into();
        paths.extend(HASHES.map(str::to_owned));
        paths.extend([
            format!("/metadata/annotations/{PROFILE}"),
            // docs/promises.md: the reference ignores it.
            format!("/metadata/annotations/{}", annotation::LAUNCHED_FOR),
            // Written by kube-controller-manager, whose stand-in does not.
            "/metadata/annotations/node.alpha.kubernetes.io/ttl".to_owned(),
            "/metadata/labels/kubernetes.io/hostname".to_owned(),
            // Written by the driver of EBS, which the recorded cluster lacks.
            "/metadata/labels/topology.ebs.csi.aws.com/zone".to_owned(),
            "/metadata/ownerReferences/0/name".to_owned(),
            "/metadata/ownerReferences/0/uid".to_owned(),
            "/spec/providerID".to_owned(),
        ]);
        differs_in(&written(recorded), &written(ours), paths.iter().map(String::as_str));
    }
}

/// The instance without what tells one instance from another.
fn common(instance: &Instance) -> Instance {
    let mut common = Instance {
        id: "".into(),
        launched_at: Default::default(),
        private_dns: None,
        private_ip: None,
        spot_request: instance.spot_request.as_ref().map(|_| String::new()),
        // The path of the class; the name is in docs/differences.md, "instance profile names".
        instance_profile: instance
            .instance_profile
            .as_ref()
            .map(|arn| arn.rsplit_once('/').unwrap().0.to_owned()),
        ..instance.clone()
    };
    for key in ["Name", "karpenter.sh/nodeclaim", "aws:ec2:fleet-id", "aws:ec2launchtemplate:id"] {
        common.tags.get_mut(key).unwrap_or_else(|| panic!("no tag {key}")).clear();
    }
    common
}

#[tokio::test(start_paused = true)]
async fn instances_and_their_launch_templates_are_those_of_the_reference() {
    let (world, recording) = launch().await;
    let (instances, claims) = (world.account.instances(), all(&world, "karpenter.sh", "nodeclaims"));
    assert_eq!(instances.len(), recording.instances.len());
    for recorded in &recording.instances {
        let kind = text(recorded, "/InstanceType");
        let ours =
            instances.iter().find(|one| one.instance_type.as_str() == kind).expect("one of the same type");
        assert_eq!(common(ours), common(&instance_of(recorded)));
        let claim =
            claims.iter().find(|one| text(one, "/status/providerID").ends_with(ours.id.as_str())).unwrap();
        assert_eq!(ours.tags["karpenter.sh/nodeclaim"], text(claim, "/metadata/name"));
        assert_eq!(ours.tags["Name"], text(claim, "/status/nodeName"));
        assert_eq!(
            instance_tag(recorded, "Name"),
            text(recorded, "/PrivateDnsName"),
            "as the reference names it"
        );
        same_template(&template_of(&world.account, ours), &recording, recorded);
    }
}

fn template_of(account: &Account, instance: &Instance) -> (LaunchTemplate, LaunchTemplateData) {
    let id = &instance.tags["aws:ec2launchtemplate:id"];
    account
        .launch_templates()
        .into_iter()
        .find(|(summary, _)| summary.id == **id)
        .expect("the template is there")
}

fn same_template(ours: &(LaunchTemplate, LaunchTemplateData), recording: &Recording, instance: &Value) {
    let id = &tags(instance)["aws:ec2launchtemplate:id"];
    let of_id = |one: &&Value| text(one, "/template/LaunchTemplateId") == id;
    let recorded = recording.templates.iter().find(of_id).expect("the template was recorded");
    let (summary, data) = (summary_of(recorded), data_of(recorded));
    assert_eq!(ours.0.tags, summary.tags);
    // The number is in docs/differences.md, "launch template names".
    let folder = |name: &str| name.rsplit_once('/').unwrap().0.to_owned();
    assert_eq!(folder(&ours.0.name), folder(&summary.name));
    let user_data = |data: &LaunchTemplateData| data.user_data.as_ref().unwrap().expose().to_owned();
    let (written, wanted) = (user_data(&ours.1), user_data(&data));
    assert_eq!(written, wanted, "byte by byte");
    let others = |data: &LaunchTemplateData| LaunchTemplateData {
        instance_profile: None,
        user_data: None,
        ..data.clone()
    };
    assert_eq!(others(&ours.1), others(&data));
}
