//! `check`: what is missing is named, with what to do; who made things does not matter.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::SubnetQuery;
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Tags, iam};
use karpenter_aws_sim::Fault;
use karpenter_bootstrap::check::{Report, State};
use karpenter_bootstrap::desired::{DISCOVERY_TAG, desired};

use crate::account::Fixture;

const NOTHING: &str = r#"{"Version":"2012-10-17","Statement":[]}"#;

/// The checks that are not ready, with how they are.
fn wrong(report: &Report) -> Vec<(&'static str, State)> {
    let wrong = report.findings.iter().filter(|finding| finding.state != State::Ready);
    wrong.map(|finding| (finding.check, finding.state)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_prepared_account_is_ready() {
    let report = Fixture::prepared().await.check().await;
    assert_eq!(wrong(&report), []);
    assert!(report.ready && report.text().ends_with("the account is ready\n"), "{}", report.text());
}

#[tokio::test(start_paused = true)]
async fn a_fresh_account_lacks_everything_but_the_cluster() {
    let report = Fixture::fresh().await.check().await;
    assert!(!report.ready);
    assert_eq!(
        wrong(&report),
        [
            ("spot-role", State::Warning),
            ("node-role", State::Missing),
            ("access-entry", State::Missing),
            ("controller-role", State::Missing),
            ("queue", State::Missing),
            ("subnets", State::Warning),
            ("security-group", State::Warning),
        ]
    );
    assert!(report.findings.iter().all(|finding| finding.state == State::Ready || !finding.fix.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn each_damage_is_named() {
    let node = "KarpenterNodeRole-demo";
    let aws = |name: &str| Arn::from(format!("arn:aws:iam::aws:policy/{name}"));

    let fixture = Fixture::prepared().await;
    let iam = &fixture.clients.iam;
    iam.detach_role_policy(node, &aws("AmazonEKS_CNI_Policy")).await.unwrap();
    assert_eq!(
        wrong(&fixture.check().await),
        [("node-role", State::Warning)],
        "the plugin may have its own role"
    );

    let fixture = Fixture::prepared().await;
    let iam = &fixture.clients.iam;
    iam.detach_role_policy(node, &aws("AmazonSSMManagedInstanceCore")).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), [("node-role", State::Warning)]);

    let fixture = Fixture::prepared().await;
    let iam = &fixture.clients.iam;
    iam.detach_role_policy(node, &aws("AmazonEKSWorkerNodePolicy")).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), [("node-role", State::Missing)]);
    assert!(fixture.account.put_role_policy(node, "same", NOTHING));
    assert_eq!(wrong(&fixture.check().await), [("node-role", State::Warning)], "it may grant the same");

    let fixture = Fixture::prepared().await;
    fixture.account.remove_addon("demo", "eks-pod-identity-agent");
    assert_eq!(wrong(&fixture.check().await), [("pod-identity-agent", State::Missing)]);

    let fixture = Fixture::prepared().await;
    let lifecycle = Arn::from("arn:aws:iam::123456789012:policy/KarpenterNodeLifecycle-demo");
    fixture.clients.iam.detach_role_policy("demo-karpenter", &lifecycle).await.unwrap();
    let report = fixture.check().await;
    assert_eq!(wrong(&report), [("controller-role", State::Missing)]);
    assert!(report.text().contains("ec2:TerminateInstances"), "{}", report.text());

    let fixture = Fixture::prepared().await;
    let queue = fixture.clients.sqs.get_queue_url("demo").await.unwrap();
    let nobody = BTreeMap::from([("Policy".to_owned(), String::new())]);
    fixture.clients.sqs.set_queue_attributes(&queue, &nobody).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), [("queue", State::Missing)]);

    let fixture = Fixture::prepared().await;
    let target = "KarpenterInterruptionQueueTarget".to_owned();
    fixture.clients.events.remove_targets("Karpenter-demo-HealthEvent", &[target]).await.unwrap();
    let report = fixture.check().await;
    assert_eq!(wrong(&report), [("rule", State::Warning)]);
    assert!(report.text().contains("\"AWS Health Event\" does not reach the queue"), "{}", report.text());
}

/// The controller's rights count wherever they stand: in the role, in AWS's policies, in several.
#[tokio::test(start_paused = true)]
async fn rights_count_wherever_they_stand() {
    let controller = "demo-karpenter";
    let stripped = async || {
        let fixture = Fixture::prepared().await;
        for policy in desired(&fixture.settings).policies {
            let arn = Arn::from(policy.arn.as_str());
            fixture.clients.iam.detach_role_policy(controller, &arn).await.unwrap();
        }
        assert_eq!(wrong(&fixture.check().await), [("controller-role", State::Missing)]);
        fixture
    };
    let fixture = stripped().await;
    let statements =
        desired(&fixture.settings).policies.into_iter().flat_map(|policy| policy.document.statements);
    let own = karpenter_bootstrap::policy::Document::of(statements.collect()).to_json();
    assert!(fixture.account.put_role_policy(controller, "karpenter", &own));
    assert_eq!(wrong(&fixture.check().await), []);
    fixture.account.inject(Fault::fail("GetRolePolicy", "AccessDenied"));
    assert_eq!(wrong(&fixture.check().await), [("controller-role", State::Warning)], "it may not be read");
    fixture.account.heal();
    let opaque =
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"s3:*","Resource":"*"}]}"#;
    assert!(fixture.account.put_role_policy(controller, "karpenter", opaque));
    assert_eq!(wrong(&fixture.check().await), [("controller-role", State::Warning)], "it is not understood");

    let fixture = stripped().await;
    let all = Arn::from("arn:aws:iam::aws:policy/AdministratorAccess");
    fixture.clients.iam.attach_role_policy(controller, &all).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), []);
}

/// A right to hand on some other role is none to hand on the nodes' role.
#[tokio::test(start_paused = true)]
async fn the_role_that_may_be_passed_has_to_be_that_of_the_nodes() {
    let fixture = Fixture::prepared().await;
    let node = "arn:aws:iam::123456789012:role/KarpenterNodeRole-demo";
    for (resource, expected) in [
        (node.to_owned(), State::Ready),
        (node.replace("Karpenter", "karpenter"), State::Missing),
        (node.replace("-demo", "-other"), State::Missing),
        (node.replace("-demo", "-*"), State::Ready),
        ("*".to_owned(), State::Ready),
    ] {
        for policy in desired(&fixture.settings).policies {
            let mut document = policy.document.clone();
            for statement in &mut document.statements {
                if statement.actions.iter().any(|action| action == "iam:PassRole") {
                    statement.resources = vec![resource.clone()];
                }
            }
            let arn = Arn::from(policy.arn.as_str());
            for version in fixture.clients.iam.list_policy_versions(&arn).await.unwrap() {
                if !version.is_default {
                    fixture.clients.iam.delete_policy_version(&arn, &version.id).await.unwrap();
                }
            }
            fixture.clients.iam.create_policy_version(&arn, &document.to_json()).await.unwrap();
        }
        let report = fixture.check().await;
        let found = report.findings.iter().find(|finding| finding.check == "controller-role").unwrap();
        assert_eq!(found.state, expected, "{resource}: {found:?}");
        assert_eq!(found.evidence.contains("iam:PassRole on"), expected == State::Missing, "{found:?}");
    }
}

/// What somebody made with other tools: one policy with wildcards, rules of other names, no tags of ours.
#[tokio::test(start_paused = true)]
async fn who_made_it_does_not_matter() {
    let fixture = Fixture::prepared().await;
    let (iam, events) = (&fixture.clients.iam, &fixture.clients.events);
    for name in ["KarpenterNodeLifecycle-demo", "KarpenterIntegration-demo"] {
        let arn = Arn::from(format!("arn:aws:iam::123456789012:policy/{name}"));
        iam.detach_role_policy("demo-karpenter", &arn).await.unwrap();
        iam.delete_policy(&arn).await.unwrap();
    }
    let actions = ["ec2:*", "iam:*", "ssm:Get*", "pricing:GetProducts", "eks:Describe*", "sqs:*"];
    let document = format!(
        r#"{{"Version":"2012-10-17","Statement":{{"Effect":"Allow","Action":{},"Resource":"*"}}}}"#,
        serde_json::json!(actions)
    );
    let own = iam::PolicySpec {
        name: "own".to_owned(),
        path: "/".to_owned(),
        description: String::new(),
        document,
        tags: Tags::new(),
    };
    let own = iam.create_policy(&own).await.unwrap().arn;
    iam.attach_role_policy("demo-karpenter", &own).await.unwrap();
    let rule = events.describe_rule("Karpenter-demo-SpotInterrupt").await.unwrap();
    let targets = events.list_targets(&rule.name).await.unwrap();
    let ids: Vec<_> = targets.iter().map(|target| target.id.clone()).collect();
    events.remove_targets(&rule.name, &ids).await.unwrap();
    events.delete_rule(&rule.name).await.unwrap();
    let spec = karpenter_aws_api::events::RuleSpec {
        name: "Stack-SpotInterruptionRule-X1Y2".to_owned(),
        description: String::new(),
        pattern: rule.pattern.unwrap(),
        tags: Tags::new(),
    };
    events.put_rule(&spec).await.unwrap();
    events.put_targets(&spec.name, &targets).await.unwrap();
    let report = fixture.check().await;
    assert!(report.ready && wrong(&report).is_empty(), "{}", report.text());
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_another_cluster_is_not_ours() {
    let mut fixture = Fixture::prepared().await;
    let tags = Tags::from([("eks:eks-cluster-name".to_owned(), "other".to_owned())]);
    let plain = BTreeMap::new();
    fixture.clients.sqs.create_queue("shared", &plain, &tags).await.unwrap();
    fixture.settings.queue_name = Some("shared".to_owned());
    let report = fixture.check().await;
    assert!(wrong(&report).contains(&("queue", State::Missing)), "{}", report.text());
    assert!(report.text().contains("belongs to cluster `other`"), "{}", report.text());
}

/// Its advice would otherwise take their subnets from the other cluster's node classes.
#[tokio::test(start_paused = true)]
async fn nobody_is_told_to_take_over_what_is_tagged_for_another_cluster() {
    let fixture = Fixture::fresh().await;
    let ec2 = &fixture.clients.ec2;
    let cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    let group = cluster.cluster_security_group.unwrap().to_string();
    let subnets = ec2.describe_subnets(&SubnetQuery::default()).await.unwrap();
    let subnets: Vec<_> = subnets.iter().map(|subnet| subnet.id.to_string()).collect();
    let fixes = async || -> String {
        let findings = fixture.check().await.findings;
        findings.into_iter().filter(|found| found.check != "cluster").map(|found| found.fix + "\n").collect()
    };
    let tag = Tags::from([(DISCOVERY_TAG.to_owned(), "other".to_owned())]);
    ec2.create_tags(&[subnets[0].clone(), group.clone()], &tag).await.unwrap();
    let text = fixes().await;
    assert!(text.contains("create-tags") && !text.contains(&subnets[0]) && !text.contains(&group), "{text}");
    ec2.create_tags(&subnets, &tag).await.unwrap();
    let text = fixes().await;
    assert!(text.contains("select subnets by id") && !subnets.iter().any(|id| text.contains(id)), "{text}");
}
