//! A tag that was changed, in settings or by hand, is put right on what exists; tags of others stay.

use std::collections::BTreeMap;

use karpenter_aws_api::Tags;
use karpenter_aws_api::ec2::SubnetQuery;
use karpenter_aws_api::id::Arn;

use crate::account::{Fixture, lines};

const TEAM: &str = "team";
/// Marks what a thing belongs to; put on everything and no part of what `destroy` goes by.
const CLUSTER: &str = "eks:eks-cluster-name";

/// Tags of everything bootstrap made, by what it is.
async fn all(fixture: &Fixture) -> BTreeMap<String, Tags> {
    let observed = fixture.look().await.unwrap().observed;
    let mut found = BTreeMap::new();
    found.extend(observed.roles.into_iter().map(|(name, role)| (format!("role {name}"), role.role.tags)));
    found.extend(observed.policies.into_iter().map(|(arn, policy)| (format!("policy {arn}"), policy.tags)));
    found.extend(observed.instance_profile.map(|profile| ("profile".to_owned(), profile.tags)));
    found.extend(observed.queue.map(|queue| ("queue".to_owned(), queue.tags)));
    found.extend(observed.rules.into_iter().map(|(name, rule)| (format!("rule {name}"), rule.tags)));
    found
        .extend(observed.access_entries.into_iter().map(|(arn, entry)| (format!("entry {arn}"), entry.tags)));
    found.extend(observed.pod_identity.map(|association| ("association".to_owned(), association.tags)));
    found
}

#[tokio::test(start_paused = true)]
async fn a_tag_added_or_changed_in_settings_reaches_everything() {
    let mut fixture = Fixture::prepared().await;
    let things = all(&fixture).await.len();
    assert_eq!(things, 13, "two roles, two policies, profile, queue, five rules, entry, association");
    for value in ["platform", "compute"] {
        fixture.settings.tags.insert(TEAM.to_owned(), value.to_owned());
        let plan = fixture.plan().await;
        assert_eq!(plan.steps.len(), things, "{:#?}", lines(&plan));
        let expected = format!("change queue `demo` (tag team={value})");
        assert!(lines(&plan).contains(&expected), "{:#?}", lines(&plan));
        fixture.apply().await.unwrap();
        assert!(fixture.plan().await.is_empty());
        for (what, tags) in all(&fixture).await {
            assert_eq!(tags.get(TEAM).map(String::as_str), Some(value), "{what}");
        }
    }
    fixture.settings.tags.clear();
    assert!(fixture.plan().await.is_empty(), "a tag that settings no longer name may be anybody's");
}

#[tokio::test(start_paused = true)]
async fn a_tag_altered_by_hand_is_put_right_alone_and_others_stay() {
    let fixture = Fixture::prepared().await;
    let clients = &fixture.clients;
    let other = Tags::from([(CLUSTER.to_owned(), "other".to_owned()), ("cost".to_owned(), "42".to_owned())]);
    let policy = Arn::from("arn:aws:iam::123456789012:policy/KarpenterIntegration-demo");
    let role = clients.iam.get_role("KarpenterNodeRole-demo").await.unwrap().arn;
    let rule = clients.events.describe_rule("Karpenter-demo-HealthEvent").await.unwrap().arn;
    let queue = clients.sqs.get_queue_url("demo").await.unwrap();
    let entry = clients.eks.describe_access_entry("demo", &role).await.unwrap().arn;
    let found = clients.eks.find_pod_identity_associations("demo", "kube-system", "karpenter").await.unwrap();

    clients.iam.tag_role("demo-karpenter", &other).await.unwrap();
    clients.iam.tag_policy(&policy, &other).await.unwrap();
    clients.iam.tag_instance_profile("KarpenterNodeInstanceProfile-demo", &other).await.unwrap();
    clients.sqs.tag_queue(&queue, &other).await.unwrap();
    clients.events.tag_resource(&rule, &other).await.unwrap();
    clients.eks.tag_resource(&entry, &other).await.unwrap();
    clients.eks.tag_resource(&found[0].arn, &other).await.unwrap();
    clients.sqs.untag_queue(&queue, &[CLUSTER.to_owned()]).await.unwrap();

    let tag = format!("tag {CLUSTER}=demo");
    let mut expected = vec![
        format!("change policy `KarpenterIntegration-demo` ({tag})"),
        format!("change role `demo-karpenter` ({tag})"),
        format!("change instance profile `KarpenterNodeInstanceProfile-demo` ({tag})"),
        format!("change queue `demo` ({tag})"),
        format!("change rule `Karpenter-demo-HealthEvent` ({tag})"),
        format!("change access entry `{role}` ({tag})"),
        format!("change pod identity association `{}` ({tag})", found[0].id),
    ];
    let mut planned = lines(&fixture.plan().await);
    planned.sort();
    expected.sort();
    assert_eq!(planned, expected);
    fixture.apply().await.unwrap();
    assert!(fixture.plan().await.is_empty());
    let after = all(&fixture).await;
    assert!(after.values().all(|tags| tags[CLUSTER] == "demo"), "{after:#?}");
    assert_eq!(after.values().filter(|tags| tags.contains_key("cost")).count(), 7, "{after:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_discovery_tag_altered_by_hand_is_put_right_and_others_stay() {
    let fixture = Fixture::prepared().await;
    let ec2 = &fixture.clients.ec2;
    let subnet = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap().remove(0).id;
    let altered = [("karpenter.sh/discovery", "typo"), ("Name", "private-a")];
    let altered = altered.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    ec2.create_tags(&[subnet.to_string()], &altered).await.unwrap();
    let planned = lines(&fixture.plan().await);
    assert_eq!(planned.len(), 1, "{planned:?}");
    assert!(planned[0].starts_with(&format!("change subnet `{subnet}` (tag ")), "{planned:?}");
    fixture.apply().await.unwrap();
    let query = SubnetQuery { ids: vec![subnet], filters: Vec::new() };
    let tags = ec2.describe_subnets(&query).await.unwrap().remove(0).tags;
    assert_eq!((tags["karpenter.sh/discovery"].as_str(), tags["Name"].as_str()), ("demo", "private-a"));
}
