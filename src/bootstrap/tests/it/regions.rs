//! Clusters of one name in two regions: IAM has one set of names for both, and neither run touches what is the other's.

use std::collections::BTreeMap;

use karpenter_aws_api::Tags;
use karpenter_aws_api::id::Arn;
use karpenter_bootstrap::Error;
use karpenter_bootstrap::desired::REGION_TAG as REGION;
use karpenter_bootstrap::destroy::InUse;
use karpenter_bootstrap::settings::Foreign;

use crate::account::{Fixture, lines};

const PROFILE: &str = "KarpenterNodeInstanceProfile-demo";
const ROLES: [&str; 2] = ["KarpenterNodeRole-demo", "demo-karpenter"];
const POLICIES: [&str; 2] = ["KarpenterIntegration-demo", "KarpenterNodeLifecycle-demo"];

fn policy_arn(name: &str) -> Arn {
    Arn::from(format!("arn:aws:iam::123456789012:policy/{name}").as_str())
}

/// Everything IAM holds under the usual names was made for a cluster `demo` in this region.
async fn made_for_region(fixture: &Fixture, region: &str) {
    let iam = &fixture.clients.iam;
    let tag = Tags::from([(REGION.to_owned(), region.to_owned())]);
    for role in ROLES {
        iam.tag_role(role, &tag).await.unwrap();
    }
    for policy in POLICIES {
        iam.tag_policy(&policy_arn(policy), &tag).await.unwrap();
    }
    iam.tag_instance_profile(PROFILE, &tag).await.unwrap();
}

/// The region tag of everything bootstrap made, by what it is.
async fn regions(fixture: &Fixture) -> BTreeMap<String, Option<String>> {
    let observed = fixture.look().await.unwrap().observed;
    let mut tags: BTreeMap<String, Tags> = BTreeMap::new();
    tags.extend(observed.roles.into_iter().map(|(name, role)| (name, role.role.tags)));
    tags.extend(observed.policies.into_values().map(|policy| (policy.name, policy.tags)));
    tags.extend(observed.instance_profile.map(|profile| (profile.name, profile.tags)));
    tags.extend(observed.queue.map(|queue| ("queue".to_owned(), queue.tags)));
    tags.extend(observed.rules.into_iter().map(|(name, rule)| (name, rule.tags)));
    tags.into_iter().map(|(what, tags)| (what, tags.get(REGION).cloned())).collect()
}

#[tokio::test(start_paused = true)]
async fn what_iam_holds_says_its_region_whatever_tags_the_user_gives() {
    let mut fixture = Fixture::fresh().await;
    fixture.settings.tags.insert(REGION.to_owned(), "mars-1".to_owned());
    fixture.apply().await.unwrap();
    for (what, region) in regions(&fixture).await {
        let of_iam = what == PROFILE || ROLES.contains(&what.as_str()) || POLICIES.contains(&what.as_str());
        assert_eq!(region.as_deref(), of_iam.then_some("us-west-2"), "{what}");
    }
    assert!(fixture.plan().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_has_no_region_tag_is_ours_and_gets_it() {
    let fixture = Fixture::prepared().await;
    let (iam, key) = (&fixture.clients.iam, [REGION.to_owned()]);
    for role in ROLES {
        iam.untag_role(role, &key).await.unwrap();
    }
    iam.untag_policy(&policy_arn(POLICIES[0]), &key).await.unwrap();
    let plan = fixture.plan().await;
    assert_eq!(plan.conflicts, Vec::<String>::new());
    let tagging =
        lines(&plan).iter().filter(|line| line.contains("(tag karpenter.sh/bootstrap-region=")).count();
    assert_eq!((tagging, plan.steps.len()), (3, 3), "{:#?}", lines(&plan));
    fixture.apply().await.unwrap();
    assert!(fixture.plan().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn things_of_the_cluster_in_another_region_are_never_taken_over() {
    let mut fixture = Fixture::prepared().await;
    made_for_region(&fixture, "us-east-1").await;
    for foreign in [Foreign::InTheWay, Foreign::Adopted] {
        fixture.settings.foreign = foreign;
        let conflicts = fixture.plan().await.conflicts;
        assert_eq!(conflicts.len(), 5, "{conflicts:#?}");
        for conflict in &conflicts {
            assert!(conflict.contains(", it is of cluster `demo` in us-east-1: "), "{conflict}");
        }
        let all = conflicts.join("\n");
        for word in
            ["--node-role-name", "--controller-role-name", "--instance-profile-name", "--policy-suffix"]
        {
            assert!(all.contains(word), "no {word} in {all}");
        }
        assert!(matches!(fixture.apply().await, Err(Error::Conflicts(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn with_names_of_its_own_a_second_cluster_lives_beside_the_first() {
    let mut fixture = Fixture::prepared().await;
    made_for_region(&fixture, "us-east-1").await;
    fixture.settings.node_role_name = Some("KarpenterNodeRole-demo-west".to_owned());
    fixture.settings.controller_role_name = Some("demo-west-karpenter".to_owned());
    fixture.settings.instance_profile_name = Some("KarpenterNodeInstanceProfile-demo-west".to_owned());
    fixture.settings.policy_suffix = Some("demo-west".to_owned());
    fixture.apply().await.unwrap();
    assert!(fixture.plan().await.is_empty());
    let report = fixture.check().await;
    assert!(report.ready, "{}", report.text());
    let iam = &fixture.clients.iam;
    let attached = iam.list_attached_role_policies("demo-west-karpenter").await.unwrap();
    let names: Vec<_> = attached.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(names, ["KarpenterIntegration-demo-west", "KarpenterNodeLifecycle-demo-west"]);
    fixture.destroy().await.unwrap();
    assert!(iam.get_role("demo-west-karpenter").await.is_err());
    for policy in POLICIES {
        assert!(iam.get_policy(&policy_arn(policy)).await.is_ok(), "{policy}");
    }
}

/// Policies made under the cluster's name go, whatever versions they have by then.
#[tokio::test(start_paused = true)]
async fn another_suffix_takes_the_old_policies_place() {
    let mut fixture = Fixture::prepared().await;
    fixture.settings.zonal_shift = true;
    fixture.apply().await.unwrap();
    for suffix in [Some("demo-west".to_owned()), None] {
        fixture.settings.policy_suffix = suffix;
        fixture.apply().await.unwrap();
        assert!(fixture.plan().await.is_empty());
        let attached = fixture.clients.iam.list_attached_role_policies("demo-karpenter").await.unwrap();
        assert_eq!(attached.len(), 2, "{attached:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn destroy_leaves_what_is_of_another_region_and_says_so() {
    let fixture = Fixture::prepared().await;
    made_for_region(&fixture, "us-east-1").await;
    let plan = fixture.plan_to_destroy(InUse::Refuse).await.unwrap();
    let steps = lines(&plan);
    let of_iam =
        |line: &String| line.contains("role `") || line.contains("policy `") || line.contains("profile `");
    assert!(!steps.iter().any(of_iam), "{steps:#?}");
    let notes = plan.notes.join("\n");
    assert!(notes.contains("us-east-1") && notes.contains("role `demo-karpenter`"), "{notes}");
    fixture.destroy().await.unwrap();
    for role in ROLES {
        assert!(fixture.clients.iam.get_role(role).await.is_ok(), "{role}");
    }
    for policy in POLICIES {
        assert!(fixture.clients.iam.get_policy(&policy_arn(policy)).await.is_ok(), "{policy}");
    }
    assert!(fixture.clients.iam.get_instance_profile(PROFILE).await.is_ok());
    assert!(fixture.clients.sqs.get_queue_url("demo").await.is_err(), "a queue is of one region");
}

/// Trust and conditions of the controller's role name the other cluster.
#[tokio::test(start_paused = true)]
async fn the_controllers_role_of_another_region_is_not_ready() {
    let mut fixture = Fixture::fresh().await;
    let here = fixture.settings.clone();
    fixture.settings.region = "us-east-1".to_owned();
    fixture.apply().await.unwrap();
    fixture.settings = here;
    let report = fixture.check().await;
    assert!(!report.ready, "{}", report.text());
}
