//! `check`: what is missing is named, with what to do; who made things does not matter.

use std::collections::BTreeMap;

use karpenter_aws_api::ec2::SubnetQuery;
use karpenter_aws_api::iam::OidcProvider;
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Tags, eks};
use karpenter_aws_sim::{Fault, examples};
use karpenter_bootstrap::check::{Finding, Report, State};
use karpenter_bootstrap::desired::{DISCOVERY_TAG, desired};
use karpenter_bootstrap::settings::Identity;

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
async fn nodes_of_eks_auto_mode_need_no_add_on_for_pod_identity() {
    let fixture = Fixture::fresh().await;
    let cluster = fixture.clients.eks.describe_cluster("demo").await.unwrap();
    fixture.account.put_cluster(eks::Cluster { auto_mode: true, ..cluster });
    fixture.account.remove_addon("demo", "eks-pod-identity-agent");
    fixture.apply().await.unwrap();
    let report = fixture.check().await;
    assert_eq!(wrong(&report), []);
    // The controller may run elsewhere, which the account does not say.
    assert!(
        report.text().contains("on other nodes it needs add-on eks-pod-identity-agent"),
        "{}",
        report.text()
    );
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
    let opaque = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Resource":"*"}]}"#;
    assert!(fixture.account.put_role_policy(controller, "karpenter", opaque));
    assert_eq!(wrong(&fixture.check().await), [("controller-role", State::Warning)], "it is not understood");

    let fixture = stripped().await;
    let all = Arn::from("arn:aws:iam::aws:policy/AdministratorAccess");
    fixture.clients.iam.attach_role_policy(controller, &all).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), []);
}

/// The finding about the controller's role, with these statements on top of what it needs or instead of that.
async fn with_statements(statements: &str, instead: bool) -> Finding {
    let fixture = Fixture::prepared().await;
    if instead {
        for policy in desired(&fixture.settings).policies {
            let arn = Arn::from(policy.arn.as_str());
            fixture.clients.iam.detach_role_policy("demo-karpenter", &arn).await.unwrap();
        }
    }
    let document = format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#);
    assert!(fixture.account.put_role_policy("demo-karpenter", "more", &document));
    let report = fixture.check().await;
    report.findings.into_iter().find(|finding| finding.check == "controller-role").unwrap()
}

#[tokio::test(start_paused = true)]
async fn denials_count_where_they_hold() {
    for (name, document, expected, word) in [
        (
            "a denied action",
            r#"{"Sid":"NoLaunch","Effect":"Deny","Action":"ec2:Run*","Resource":"*"}"#,
            State::Missing,
            "ec2:RunInstances (denied by `NoLaunch`)",
        ),
        (
            "a denial of all but what is needed",
            r#"{"Effect":"Deny","NotAction":["ec2:*","iam:*","ssm:*","pricing:*","eks:*","sqs:*"],"Resource":"*"}"#,
            State::Ready,
            "grants what the controller does",
        ),
        (
            "a denial of all but some of it",
            r#"{"Sid":"Only","Effect":"Deny","NotAction":["ec2:*","iam:*","ssm:*","pricing:*","eks:*"],"Resource":"*"}"#,
            State::Missing,
            "sqs:ReceiveMessage (denied by `Only`)",
        ),
        (
            "a denial of other resources",
            r#"{"Effect":"Deny","Action":"sqs:*","NotResource":"arn:aws:sqs:us-west-2:123456789012:demo"}"#,
            State::Ready,
            "grants what the controller does",
        ),
        (
            "a denial in other regions",
            r#"{"Effect":"Deny","Action":"ec2:*","Resource":"*","Condition":{"StringNotEquals":{"aws:RequestedRegion":"us-west-2"}}}"#,
            State::Ready,
            "grants what the controller does",
        ),
        (
            "a denial in this region",
            r#"{"Sid":"Closed","Effect":"Deny","Action":"ec2:*","Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"us-west-2"}}}"#,
            State::Missing,
            "denied by `Closed`",
        ),
        (
            "a denial that is not evaluated",
            r#"{"Sid":"Inside","Effect":"Deny","Action":"ec2:*","Resource":"*","Condition":{"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}"#,
            State::Warning,
            "`Inside`",
        ),
    ] {
        let finding = with_statements(document, false).await;
        assert_eq!(finding.state, expected, "{name}: {finding:?}");
        assert!(finding.evidence.contains(word), "{name}: {finding:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn resources_and_conditions_count() {
    let all_but = r#"{"Effect":"Allow","NotAction":"s3:*","Resource":"*"}"#;
    let operator = r#"{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringMatches":{"aws:RequestedRegion":"us-west-2"}}}"#;
    let own_queue = r#"{"Effect":"Allow","NotAction":"sqs:*","Resource":"*"},
        {"Effect":"Allow","Action":"sqs:*","Resource":"arn:aws:sqs:us-west-2:123456789012:other"}"#;
    for (name, document, expected, word) in [
        ("all actions but others", all_but, State::Ready, "grants what the controller does"),
        (
            "all actions but a needed one",
            r#"{"Effect":"Allow","NotAction":"sqs:*","Resource":"*"}"#,
            State::Missing,
            "does not grant sqs:DeleteMessage, sqs:GetQueueUrl, sqs:ReceiveMessage",
        ),
        (
            "another queue",
            own_queue,
            State::Missing,
            "sqs:ReceiveMessage on arn:aws:sqs:us-west-2:123456789012:demo",
        ),
        ("an operator that is not evaluated", operator, State::Warning, "`StringMatches`"),
        (
            "a condition that does not hold",
            r#"{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalAccount":"1"}}}"#,
            State::Missing,
            "ec2:RunInstances",
        ),
    ] {
        let finding = with_statements(document, true).await;
        assert_eq!(finding.state, expected, "{name}: {finding:?}");
        assert!(finding.evidence.contains(word), "{name}: {finding:?}");
    }
}

/// A matcher that tries every star again for each of the stars before it would not end here.
#[tokio::test(start_paused = true)]
async fn pattern_of_many_stars_does_not_keep_the_check_busy() {
    let stars = "*?".repeat(15);
    let statement = format!(r#"{{"Effect":"Allow","Action":"{stars}!","Resource":"*"}}"#);
    assert_eq!(with_statements(&statement, true).await.state, State::Missing);
}

/// A denial in a document that names principals beats what the document allows.
#[tokio::test(start_paused = true)]
async fn denials_of_trust_documents_and_of_the_queue_count() {
    let denied = |document: &str, principal: &str| {
        let mut document: serde_json::Value = serde_json::from_str(document).unwrap();
        let denial =
            serde_json::json!({"Effect": "Deny", "Principal": {"Service": principal}, "Action": "*"});
        document["Statement"].as_array_mut().unwrap().push(denial);
        document.to_string()
    };
    for (role, principal, check) in [
        ("demo-karpenter", "pods.eks.amazonaws.com", "pod-identity"),
        ("KarpenterNodeRole-demo", "ec2.amazonaws.com", "node-role"),
    ] {
        let fixture = Fixture::prepared().await;
        let trust = fixture.clients.iam.get_role(role).await.unwrap().trust;
        let trust = denied(&trust, principal);
        fixture.clients.iam.update_assume_role_policy(role, &trust).await.unwrap();
        assert_eq!(wrong(&fixture.check().await), [(check, State::Missing)]);
    }
    let fixture = Fixture::prepared().await;
    let sqs = &fixture.clients.sqs;
    let queue = sqs.get_queue_url("demo").await.unwrap();
    let policy = &sqs.get_queue_attributes(&queue).await.unwrap()["Policy"];
    let policy = BTreeMap::from([("Policy".to_owned(), denied(policy, "events.amazonaws.com"))]);
    sqs.set_queue_attributes(&queue, &policy).await.unwrap();
    assert_eq!(wrong(&fixture.check().await), [("queue", State::Missing)]);
}

/// Returns the fix for the association of the controller, which is all that is wrong.
async fn pod_identity_fix(fixture: &Fixture) -> String {
    let report = fixture.check().await;
    assert_eq!(wrong(&report), [("pod-identity", State::Missing)]);
    report.findings.into_iter().find(|finding| finding.check == "pod-identity").unwrap().fix
}

#[tokio::test(start_paused = true)]
async fn missing_association_may_mean_irsa_or_another_service_account() {
    let elsewhere = Fixture::prepared().await;
    let eks = &elsewhere.clients.eks;
    let found = eks.find_pod_identity_associations("demo", "kube-system", "karpenter").await.unwrap();
    eks.delete_pod_identity_association("demo", &found[0].id).await.unwrap();

    let mut by_annotation = Fixture::fresh().await;
    let issuer = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE".to_owned();
    by_annotation.settings.identity = Identity::Irsa { issuer: issuer.clone() };
    let provider = OidcProvider { url: issuer, client_ids: vec!["sts.amazonaws.com".to_owned()] };
    let arn = by_annotation.settings.oidc_provider_arn().unwrap();
    by_annotation.account.put_oidc_provider(arn.into(), provider);
    by_annotation.apply().await.unwrap();
    by_annotation.settings.identity = Identity::PodIdentity;

    for fixture in [elsewhere, by_annotation] {
        let fix = pod_identity_fix(&fixture).await;
        for part in [
            "--identity irsa",
            "eks.amazonaws.com/role-arn",
            "--service-account",
            "karpenter bootstrap apply",
        ] {
            assert!(fix.contains(part), "{part}: {fix}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn association_with_a_role_that_refuses_is_not_taken_for_irsa() {
    let fixture = Fixture::prepared().await;
    fixture.clients.iam.update_assume_role_policy("demo-karpenter", NOTHING).await.unwrap();
    assert_eq!(pod_identity_fix(&fixture).await, "karpenter bootstrap apply");
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

/// A user has made the account ready with other tools: one policy with wildcards, rules of other names, no tags of ours.
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
    let own = iam.create_policy(&examples::policy("own", &document)).await.unwrap().arn;
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
