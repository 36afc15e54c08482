//! Status of an EC2NodeClass when something is missing, and its recovery.

use std::time::Duration;

use karpenter_api::ConditionStatus::{False, True, Unknown};
use karpenter_api::{EC2NodeClass, NodeClaim};
use karpenter_aws::market::unavailable::{Cause, Subject};
use karpenter_aws_api::ec2::{LaunchTemplateData, LaunchTemplateSpec, SecurityGroup};
use karpenter_aws_api::iam::InstanceProfileSpec;
use karpenter_aws_sim::Fault;
use karpenter_model::CapacityType;
use karpenter_model::names::{annotation, reason};
use karpenter_testkit::objects::{node_claim, one_of};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::workload;
use crate::world::World;

/// A claim that nothing can be launched for and that a finalizer keeps.
fn held_claim(world: &World, name: &str, annotations: &Value) {
    let nothing = one_of("node.kubernetes.io/instance-type", &["no.such"]);
    let metadata = json!({"finalizers": ["test/hold"], "annotations": annotations});
    world.load(&node_claim(name, &[nothing], &json!({"metadata": metadata})));
}

/// Makes an instance profile of another owner with the role of nodes.
async fn foreign_profile(world: &World, name: &str, path: &str) {
    let iam = world.account.clients().iam;
    let (name, path) = (name.to_owned(), path.to_owned());
    iam.create_instance_profile(&InstanceProfileSpec { name: name.clone(), path, tags: Default::default() })
        .await
        .unwrap();
    iam.add_role_to_instance_profile(&name, "node-role").await.unwrap();
}

/// Returns the message of the class's condition of a kind.
async fn message(world: &World, kind: &str) -> String {
    let status = world.status().await;
    let found = status.conditions.into_iter().find(|condition| condition.kind == kind);
    found.map(|condition| condition.message).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_sound_node_class_becomes_ready_and_shows_what_it_resolved_to() {
    let world = World::ready().await;
    let class = world.get("default").await.unwrap();
    let status = class.status.clone().unwrap();
    assert_eq!(status.subnets.len(), 2);
    assert_eq!(status.security_groups.len(), 1);
    assert_eq!(status.amis.len(), 5, "one per architecture and variant");
    assert!(status.instance_profile.as_ref().is_some_and(|name| name.starts_with("demo_")));
    assert_eq!(class.finalizers(), ["karpenter.k8s.aws/termination"]);
    let hash = class.hash("Y2EtYnVuZGxlCg==");
    assert_eq!(class.annotations()[annotation::aws::EC2_NODE_CLASS_HASH], hash);
    assert_eq!(class.annotations()[annotation::aws::EC2_NODE_CLASS_HASH_VERSION], "v6");
    assert_eq!(status.conditions.last().map(|last| last.kind.as_str()), Some("Ready"));
    assert!(world.told("Ready").iter().any(|text| text.contains("-> True")), "{:?}", world.told("Ready"));
    let before = class.resource_version();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(
        world.get("default").await.unwrap().resource_version(),
        before,
        "nothing to write, nothing written"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_class_is_sound_although_nothing_can_be_had_at_the_moment() {
    let world = World::new().await;
    let start = world.now();
    for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
        world.aws.unavailable.mark(Subject::CapacityType(capacity_type), Cause::Wanted);
    }
    world.class("default", &json!({}));
    world.until_ready("default").await;
    assert!(world.now().duration_since(start).as_secs() < 120, "as long as nothing can be had");
}

#[tokio::test(start_paused = true)]
async fn what_no_selector_matches_is_named_and_an_edit_heals_it() {
    let nothing = json!([{"tags": {"no": "such"}}]);
    let discovery = json!([{"tags": {"karpenter.sh/discovery": "demo"}}]);
    for (field, kind, reason, good) in [
        ("subnetSelectorTerms", "SubnetsReady", "SubnetsNotFound", discovery.clone()),
        ("securityGroupSelectorTerms", "SecurityGroupsReady", "SecurityGroupsNotFound", discovery),
        ("amiSelectorTerms", "AMIsReady", "AMINotFound", json!([{"alias": "al2023@latest"}])),
    ] {
        let world = World::new().await;
        world.class("default", &json!({field: nothing.clone(), "amiFamily": "AL2023"}));
        world.until_condition("default", kind, (False, reason)).await;
        world.until_condition("default", "Ready", (False, "UnhealthyDependents")).await;
        world.until_condition("default", "ValidationSucceeded", (False, "DependenciesNotReady")).await;
        assert!(!world.told(reason).is_empty(), "an event says so");
        world.edit(json!({field: good})).await;
        world.until_ready("default").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_does_not_exist_is_told_and_found_once_it_does() {
    let world = World::without_role();
    world.class("default", &json!({}));
    world.until("the event", async || !world.told("InstanceProfileResolutionFailed").is_empty()).await;
    let shown = world.condition("default", "InstanceProfileReady").await;
    assert_eq!(shown, Some((Unknown, "InstanceProfileResolutionFailed".to_owned())), "never False");
    let message = message(&world, "InstanceProfileReady").await;
    assert!(message.contains("NoSuchEntity") && message.contains("correct spec.role"), "{message}");
    world.until_condition("default", "SubnetsReady", (True, "SubnetsReady")).await;
    world.until_condition("default", "AMIsReady", (True, "AMIsReady")).await;
    world.create_role("node-role").await;
    world.until_ready("default").await;
}

/// aws#8312, aws#8072, aws#8538: also as an edit of a class that has worked, whose condition was True.
#[tokio::test(start_paused = true)]
async fn a_profile_of_the_user_that_does_not_exist_is_told_and_found_once_it_does() {
    for edited in [false, true] {
        for theirs in ["theirs", "/team/theirs", "arn:aws:iam::111122223333:instance-profile/nodes"] {
            let world = World::new().await;
            let spec = json!({"role": null, "instanceProfile": theirs});
            if edited {
                world.class("default", &json!({}));
                world.until_ready("default").await;
                world.edit(spec).await;
            } else {
                world.class("default", &spec);
            }
            workload::pool(&world, &["on-demand"]);
            workload::replicas(&world, 1);
            let refused = (False, "InstanceProfileNotFound");
            world.until_condition("default", "ValidationSucceeded", refused).await;
            world.until_condition("default", "Ready", (False, "UnhealthyDependents")).await;
            tokio::time::sleep(Duration::from_mins(30)).await;
            let message = message(&world, "ValidationSucceeded").await;
            assert!(message.starts_with(&format!("Instance profile \"{theirs}\" not found")), "{message}");
            assert!(
                workload::claims(&world).is_empty(),
                "nothing is launched with a class that is not ready"
            );
            foreign_profile(&world, "theirs", "/").await;
            world.edit(json!({"instanceProfile": "theirs"})).await;
            workload::until_running(&world).await;
        }
    }
}

/// aws#8312: what was true of the class before an edit is not said of the class after it.
#[tokio::test(start_paused = true)]
async fn no_condition_says_true_of_a_generation_it_was_not_decided_for() {
    for (operation, kind, reason, change) in [
        (
            "DescribeSubnets",
            "SubnetsReady",
            "SubnetResolutionFailed",
            json!({"subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "other"}}]}),
        ),
        (
            "DescribeSecurityGroups",
            "SecurityGroupsReady",
            "SecurityGroupResolutionFailed",
            json!({"securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "other"}}]}),
        ),
        (
            "DescribeImages",
            "AMIsReady",
            "AMIResolutionFailed",
            json!({"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "other"}]}),
        ),
        (
            "GetInstanceProfile",
            "InstanceProfileReady",
            "InstanceProfileResolutionFailed",
            json!({"role": "other"}),
        ),
        (
            "DescribeCapacityReservations",
            "CapacityReservationsReady",
            "CapacityReservationResolutionFailed",
            json!({"capacityReservationSelectorTerms": [{"tags": {"a": "b"}}]}),
        ),
        (
            "DescribePlacementGroups",
            "PlacementGroupReady",
            "PlacementGroupResolutionFailed",
            json!({"placementGroupSelector": {"name": "other"}}),
        ),
        ("RunInstances", "ValidationSucceeded", "ValidationUnanswered", json!({"detailedMonitoring": true})),
    ] {
        let world = World::settled(|settings| settings.reserved_capacity = true).await;
        world.class("default", &json!({}));
        world.until_ready("default").await;
        world.account.inject(Fault::fail(operation, "InternalError"));
        world.edit(change).await;
        let stated = async || {
            let class = world.get("default").await.unwrap();
            let conditions = class.status.unwrap().conditions;
            let all = conditions.iter().filter(|one| one.kind != "Ready");
            let stale = all.filter(|one| one.observed_generation != class.metadata.generation).count();
            let found = conditions.into_iter().find(|one| one.kind == kind).unwrap();
            (stale, found)
        };
        world.until("the condition says so", async || stated().await.1.status != True).await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let (stale, found) = stated().await;
        assert_eq!(stale, 0, "{kind}: every condition is of the class as it is");
        assert_eq!(found.reason, reason, "{found:?}");
        assert!(found.message.contains("InternalError"), "{found:?}");
        world.account.heal();
    }
}

#[tokio::test(start_paused = true)]
async fn without_dry_runs_a_class_is_ready_although_launches_are_denied() {
    for disable_dry_run in [false, true] {
        let world = World::settled(|settings| settings.disable_dry_run = disable_dry_run).await;
        for operation in ["CreateLaunchTemplate", "CreateFleet", "RunInstances"] {
            world.account.inject(Fault::fail(operation, "UnauthorizedOperation"));
        }
        world.class("default", &json!({}));
        world.until_condition("default", "AMIsReady", (True, "AMIsReady")).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
        let ready = world.condition("default", "Ready").await.map(|(status, _)| status == True);
        assert_eq!(ready, Some(disable_dry_run));
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_found_by_each_value_of_a_tag_that_terms_name() {
    let world = World::new().await;
    let group =
        world.account.clients().ec2.describe_security_groups(&Default::default()).await.unwrap().remove(0);
    for (id, name) in [
        ("sg-000000000000000a1", "first"),
        ("sg-000000000000000a2", "second"),
        ("sg-000000000000000a3", "third"),
    ] {
        world.account.put_security_group(SecurityGroup {
            id: id.into(),
            name: name.to_owned(),
            tags: [("Name".to_owned(), name.to_owned())].into(),
            ..group.clone()
        });
    }
    let terms = json!([{"tags": {"Name": "first"}}, {"tags": {"Name": "second"}}]);
    world.class("default", &json!({"securityGroupSelectorTerms": terms}));
    world.until_ready("default").await;
    let shown = world.status().await.security_groups;
    let ids: Vec<&str> = shown.iter().map(|group| group.id.as_str()).collect();
    assert_eq!(ids, ["sg-000000000000000a1", "sg-000000000000000a2"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_named_and_granting_it_heals() {
    for (operation, reason) in [
        ("CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed"),
        ("CreateFleet", "CreateFleetAuthCheckFailed"),
        ("RunInstances", "RunInstancesAuthCheckFailed"),
    ] {
        let world = World::new().await;
        world.account.inject(Fault::fail(operation, "UnauthorizedOperation"));
        world.class("default", &json!({}));
        world.until_condition("default", "ValidationSucceeded", (False, reason)).await;
        assert!(world.told(reason)[0].contains(&format!("ec2:{operation}")), "{:?}", world.told(reason));
        world.account.heal();
        world.until_ready("default").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_asks_for_another_try_at_once() {
    let world = World::new().await;
    world.account.inject(Fault::fail("CreateFleet", "UnauthorizedOperation"));
    world.class("default", &json!({}));
    world.until_condition("default", "ValidationSucceeded", (False, "CreateFleetAuthCheckFailed")).await;
    world.account.heal();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_ne!(
        world.condition("default", "Ready").await.map(|(status, _)| status),
        Some(True),
        "verdicts last"
    );
    world.patch::<EC2NodeClass>("default", json!({"metadata": {"annotations": {"again": "1"}}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.condition("default", "Ready").await.map(|(status, _)| status), Some(True));
}

#[tokio::test(start_paused = true)]
async fn an_aws_that_does_not_answer_leaves_the_status_alone_and_is_told() {
    let world = World::ready().await;
    let before = world.status().await;
    for operation in ["DescribeSubnets", "DescribeSecurityGroups", "DescribeImages"] {
        world.account.inject(Fault::fail(operation, "InternalError"));
    }
    tokio::time::sleep(Duration::from_mins(20)).await;
    let after = world.status().await;
    assert_eq!(before, after, "nothing is known to have changed");
    for reason in ["SubnetResolutionFailed", "SecurityGroupResolutionFailed", "AMIResolutionFailed"] {
        assert!(!world.told(reason).is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn user_data_above_the_limit_is_named() {
    let world = World::new().await;
    world.class("default", &json!({"userData": format!("#!/bin/bash\n# {}", "x".repeat(17_000))}));
    world.until_condition("default", "ValidationSucceeded", (False, "UserDataSizeLimitExceeded")).await;
}

#[tokio::test(start_paused = true)]
async fn user_data_that_cannot_be_merged_fails_validation_until_it_is_mended() {
    let torn = "Content-Type: multipart/mixed; boundary=\"x\"\n\n--x\n\nbody\n";
    for disable_dry_run in [false, true] {
        for (alias, wrong, right, text) in [
            ("bottlerocket@latest", "a = = b", "a = 1", "user data is not valid TOML"),
            ("al2023@latest", torn, "#!/bin/sh", "the closing line `--x--` is missing"),
        ] {
            let world = World::settled(|settings| settings.disable_dry_run = disable_dry_run).await;
            let refused = (False, "UserDataInvalid");
            world.class("default", &json!({"amiSelectorTerms": [{"alias": alias}], "userData": wrong}));
            world.until_condition("default", "ValidationSucceeded", refused).await;
            let told = world.told("UserDataInvalid");
            assert!(told[0].contains(text) && told[0].contains("fix spec.userData"), "{told:?}");
            world.until_condition("default", "Ready", (False, "UnhealthyDependents")).await;
            world.edit(json!({"userData": right})).await;
            world.until_ready("default").await;
            world.edit(json!({"userData": wrong})).await;
            world.until_condition("default", "ValidationSucceeded", refused).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_claims_and_leaves_nothing_behind() {
    let world = World::ready().await;
    held_claim(&world, "web-1", &json!({}));
    tokio::time::sleep(Duration::from_secs(5)).await;
    world.delete::<EC2NodeClass>("default").await;
    world.until("the event", async || !world.told("WaitingOnNodeClaimTermination").is_empty()).await;
    assert!(world.told("WaitingOnNodeClaimTermination")[0].contains("web-1"));
    assert!(world.get("default").await.is_some());
    let claims = Api::<NodeClaim>::all(world.client.clone());
    if claims.get_opt("web-1").await.unwrap().is_some() {
        let _maybe_gone = claims.delete("web-1", &DeleteParams::default()).await;
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _maybe_gone = claims.patch("web-1", &PatchParams::default(), &patch).await;
    }
    world.until("the node class is gone", async || world.get("default").await.is_none()).await;
    let clients = world.account.clients();
    let templates = clients.ec2.describe_launch_templates(&Default::default()).await.unwrap();
    let profiles = clients.iam.list_instance_profiles("/karpenter/").await.unwrap();
    assert!(templates.is_empty() && profiles.is_empty(), "{templates:?} {profiles:?}");
}

/// aws#9185: the right that is missing is named, whichever it is.
#[tokio::test(start_paused = true)]
async fn a_failed_clean_up_keeps_the_node_class_and_an_event_says_what_it_lacks() {
    for (operation, code, help) in [
        ("ListInstanceProfiles", "AccessDenied", "grant the caller"),
        ("GetInstanceProfile", "AccessDenied", "grant the caller"),
        ("RemoveRoleFromInstanceProfile", "AccessDenied", "grant the caller"),
        ("DeleteInstanceProfile", "AccessDenied", "grant the caller"),
        ("DeleteLaunchTemplate", "UnauthorizedOperation", "grant the caller"),
        ("DeleteLaunchTemplate", "InternalError", "InternalError"),
    ] {
        let world = World::ready().await;
        world.account.inject(Fault::fail(operation, code));
        world.delete::<EC2NodeClass>("default").await;
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(world.get("default").await.is_some());
        let told = world.told(reason::aws::CLEAN_UP_FAILED);
        assert!(
            told.iter().any(|text| text.contains(operation) && text.contains(help)),
            "{operation} {told:?}"
        );
        world.account.heal();
        world.until("the node class is gone", async || world.get("default").await.is_none()).await;
    }
}

/// aws#9028: the profile that a class named itself before has the same role, and is still another's.
#[tokio::test(start_paused = true)]
async fn a_class_that_goes_from_a_profile_to_its_role_gets_a_profile_of_its_own() {
    for path in ["/", "/team/", "/karpenter/us-west-2/demo/another-class/"] {
        let world = World::new().await;
        let iam = world.account.clients().iam;
        foreign_profile(&world, "theirs", path).await;
        world.class("default", &json!({"role": null, "instanceProfile": "theirs"}));
        world.until_ready("default").await;
        let shown = async || world.status().await.instance_profile;
        assert_eq!(shown().await.as_deref(), Some("theirs"));
        world.edit(json!({"role": "node-role", "instanceProfile": null})).await;
        let ours = async || shown().await.is_some_and(|name| name.starts_with("demo_"));
        world.until("it has its own", ours).await;
        world.until_ready("default").await;
        world.delete::<EC2NodeClass>("default").await;
        world.until("the node class is gone", async || world.get("default").await.is_none()).await;
        let left = iam.list_instance_profiles("/").await.unwrap();
        assert_eq!(left.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>(), ["theirs"]);
    }
}

#[tokio::test(start_paused = true)]
async fn templates_of_an_earlier_process_are_swept_though_they_could_not_be_listed_at_first() {
    let world = World::without_role();
    world.account.inject(Fault::fail("DescribeLaunchTemplates", "RequestLimitExceeded").times(3));
    let ec2 = world.account.clients().ec2;
    let left_over = LaunchTemplateSpec {
        name: "karpenter.k8s.aws/left-over".to_owned(),
        client_token: None,
        tags: [("eks:eks-cluster-name".to_owned(), "demo".to_owned())].into(),
        data: LaunchTemplateData::default(),
    };
    ec2.create_launch_template(&left_over).await.unwrap();
    let left = async || ec2.describe_launch_templates(&Default::default()).await.unwrap().len();
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(left().await, 1, "it may be in use yet");
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(left().await, 0);
}

#[tokio::test(start_paused = true)]
async fn claims_of_an_older_hash_are_stamped() {
    let world = World::new().await;
    world.class("default", &json!({}));
    let older = json!({
        annotation::aws::EC2_NODE_CLASS_HASH: "1",
        annotation::aws::EC2_NODE_CLASS_HASH_VERSION: "v4",
    });
    held_claim(&world, "old", &older);
    world.until_ready("default").await;
    let hash = world.get("default").await.unwrap().hash("Y2EtYnVuZGxlCg==");
    world
        .until("the claim is stamped", async || {
            let claim = workload::claims(&world).remove(0);
            claim.annotations().get(annotation::aws::EC2_NODE_CLASS_HASH) == Some(&hash)
                && claim.annotations()[annotation::aws::EC2_NODE_CLASS_HASH_VERSION] == "v6"
        })
        .await;
}

/// Returns the number of passes that one of the queues following claims has requested.
fn claims_woken(world: &World) -> u64 {
    world.metrics.runtime.queue_adds_total.value(["nodeclaim.tagging", "nodeclaim.tagging"])
}

/// A machine that has settled, so that nothing but its node class wakes its claim.
async fn settled(world: &World) {
    world.class("default", &json!({}));
    workload::run(world, &["on-demand"]).await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let before = claims_woken(world);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(claims_woken(world), before, "nothing happens");
}

#[tokio::test(start_paused = true)]
async fn subnets_that_swap_ranks_wake_no_claims() {
    let world = World::new().await;
    settled(&world).await;
    let order = async || -> Vec<String> {
        let subnets = world.status().await.subnets;
        subnets.into_iter().map(|subnet| subnet.id).collect()
    };
    let (before, woken) = (order().await, claims_woken(&world));
    assert!(world.account.set_free_addresses(&before[0].as_str().into(), 7));
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(order().await, [before[1].clone(), before[0].clone()], "the status follows");
    assert_eq!(claims_woken(&world), woken);
}

#[tokio::test(start_paused = true)]
async fn what_claims_are_compared_with_wakes_them() {
    let world = World::new().await;
    settled(&world).await;
    let woken = claims_woken(&world);
    world.patch::<EC2NodeClass>("default", json!({"metadata": {"annotations": {"hash": "1"}}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(claims_woken(&world), woken + 1, "another client has written");

    // The answer to our own write is taken over before the watch brings it.
    let groups = world.account.clients().ec2.describe_security_groups(&Default::default()).await.unwrap();
    let another = SecurityGroup { id: "sg-000000000000000a1".into(), ..groups[0].clone() };
    world.account.put_security_group(another);
    tokio::time::sleep(Duration::from_mins(8)).await;
    assert_eq!(world.status().await.security_groups.len(), 2);
    assert!(claims_woken(&world) > woken + 1, "we have written");
}
