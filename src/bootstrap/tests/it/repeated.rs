//! A second run changes nothing; a damaged account is repaired and nothing else is touched.

use std::collections::BTreeMap;

use karpenter_aws_api::id::Arn;
use karpenter_bootstrap::settings::{ExtraNodeRole, Platform};
use karpenter_bootstrap::{make_ready, show};

use crate::account::{Fixture, lines};

#[tokio::test(start_paused = true)]
async fn the_second_apply_has_nothing_to_do_and_writes_nothing() {
    let fixture = Fixture::prepared().await;
    fixture.account.forget_calls();
    let plan = fixture.plan().await;
    assert!(plan.is_empty(), "{:#?}", lines(&plan));
    assert_eq!(show::text(&plan), "nothing to do: the account is as it should be\n");
    fixture.apply().await.unwrap();
    let writes: Vec<_> = fixture.account.calls().counts().into_keys().filter(|call| !is_read(call)).collect();
    assert_eq!(writes, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn one_description_of_the_cluster_serves_a_whole_run() {
    let fixture = Fixture::fresh().await;
    fixture.account.forget_calls();
    make_ready(&fixture.clients, "demo").await.unwrap();
    assert_eq!(fixture.account.calls().count("DescribeCluster"), 1);
}

fn is_read(call: &str) -> bool {
    ["Get", "List", "Describe"].iter().any(|read| call.starts_with(read))
}

#[tokio::test(start_paused = true)]
async fn a_fresh_account_gets_everything() {
    let fixture = Fixture::fresh().await;
    let plan = fixture.plan().await;
    let lines = lines(&plan);
    for expected in [
        "create service-linked role `AWSServiceRoleForEC2Spot`",
        "create role `KarpenterNodeRole-demo`",
        "create role `demo-karpenter`",
        "create instance profile `KarpenterNodeInstanceProfile-demo`",
        "create queue `demo`",
        "create rule `Karpenter-demo-SpotInterrupt` (Spot capacity is about to be reclaimed)",
        "create pod identity association `kube-system/karpenter` (role demo-karpenter)",
    ] {
        assert!(lines.iter().any(|line| line == expected), "no `{expected}` in {lines:#?}");
    }
    assert!(
        lines
            .iter()
            .any(|line| line.contains("tag karpenter.sh/bootstrap=demo, karpenter.sh/discovery=demo"))
    );
}

#[tokio::test(start_paused = true)]
async fn each_damage_is_shown_and_repaired_alone() {
    let fixture = Fixture::prepared().await;
    let iam = &fixture.clients.iam;
    let node_role = fixture.settings.node_role();
    let trust = r#"{"Version":"2012-10-17","Statement":[]}"#;
    iam.update_assume_role_policy(&node_role, trust).await.unwrap();
    let policy = Arn::from("arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy");
    iam.detach_role_policy(&node_role, &policy).await.unwrap();
    let queue = fixture.clients.sqs.get_queue_url("demo").await.unwrap();
    let attributes = BTreeMap::from([("Policy".to_owned(), String::new())]);
    fixture.clients.sqs.set_queue_attributes(&queue, &attributes).await.unwrap();
    let rule = "Karpenter-demo-SpotInterrupt";
    fixture
        .clients
        .events
        .remove_targets(rule, &["KarpenterInterruptionQueueTarget".to_owned()])
        .await
        .unwrap();

    assert_eq!(
        lines(&fixture.plan().await),
        [
            "change role `KarpenterNodeRole-demo` (trust policy)",
            "change role `KarpenterNodeRole-demo` (attach AmazonEKS_CNI_Policy)",
            "change queue `demo` (Policy)",
            "change rule `Karpenter-demo-SpotInterrupt` (send to demo)",
        ]
    );
    fixture.apply().await.unwrap();
    assert!(fixture.plan().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_changed_policy_becomes_a_new_version_and_old_ones_make_room() {
    let mut fixture = Fixture::prepared().await;
    let arn = Arn::from("arn:aws:iam::123456789012:policy/KarpenterIntegration-demo");
    for index in 0..7 {
        fixture.settings.access_entry = false;
        fixture.settings.extra_node_roles = vec![ExtraNodeRole {
            arn: format!("arn:aws:iam::123456789012:role/extra-{index}"),
            platform: Platform::Linux,
        }];
        fixture.apply().await.unwrap();
        assert!(fixture.plan().await.is_empty());
    }
    let versions = fixture.clients.iam.list_policy_versions(&arn).await.unwrap();
    assert_eq!(versions.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn what_users_attached_to_our_roles_stays() {
    let fixture = Fixture::prepared().await;
    let extra = Arn::from("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy");
    fixture.clients.iam.attach_role_policy(&fixture.settings.node_role(), &extra).await.unwrap();
    assert!(fixture.plan().await.is_empty());
}
