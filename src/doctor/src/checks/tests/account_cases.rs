//! Faults of the account.

use serde_json::json;

use super::Case;
use super::world::{KEY, change, first, object, push, set, trust};
use crate::facts::{Answer, Endpoint, Key, Queue, Role};

pub(super) const CASES: &[Case] = &[
    ("P-1", |facts| {
        let long = "c".repeat(47);
        let json = serde_json::to_string(facts)
            .unwrap()
            .replace("\"cluster_name\":\"demo\"", &format!("\"cluster_name\":\"{long}\""))
            .replace(
                "\"karpenter.sh/discovery\":\"demo\"",
                &format!("\"karpenter.sh/discovery\":\"{long}\""),
            );
        *facts = serde_json::from_str(&json).unwrap();
        for queue in facts.account.queues.as_mut().unwrap().values_mut().flatten() {
            queue.tags.insert("eks:eks-cluster-name".to_owned(), long.clone());
        }
    }),
    ("P-3", |facts| role(facts).policies = 10),
    ("P-5", |facts| {
        change(
            first(&mut facts.cluster.node_classes),
            json!({"spec": {"role": "team/KarpenterNodeRole-demo"}}),
        );
    }),
    ("P-6", |facts| role(facts).trust = trust("lambda.amazonaws.com")),
    ("P-6", |facts| {
        role(facts).trust = trust("ec2.amazonaws.com").replace("Allow", "Deny");
    }),
    ("P-4", |facts| {
        let rights = facts.account.rights.as_mut().unwrap();
        for right in rights.iter_mut() {
            (right.allowed, right.by_boundary) = (false, Some(false));
        }
    }),
    ("P-7", |facts| {
        queue(facts).kms_key = Some(KEY.to_owned());
        key(
            facts,
            r#"{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"kms:*","Resource":"*"}]}"#,
        );
    }),
    ("P-7", |facts| queue(facts).kms_key = Some("alias/aws/sqs".to_owned())),
    ("P-8", |facts| {
        facts.account.queues.as_mut().unwrap().insert("Karpenter-demo".to_owned(), Some(Queue::default()));
    }),
    ("P-9", |facts| set(facts, "INTERRUPTION_QUEUE", "arn:aws:sqs:us-west-2:123456789012:demo")),
    ("P-10", |facts| set(facts, "INTERRUPTION_QUEUE", "")),
    ("P-11", |facts| {
        set(facts, "INTERRUPTION_QUEUE", "other");
        facts.account.queues.as_mut().unwrap().insert("other".to_owned(), None);
    }),
    ("P-12", |facts| drop(queue(facts).tags.insert("eks:eks-cluster-name".to_owned(), "west".to_owned()))),
    ("P-13", |facts| {
        close(facts);
        facts
            .account
            .endpoints
            .as_mut()
            .unwrap()
            .retain(|endpoint| endpoint.service.rsplit('.').next() != Some("sts"));
    }),
    ("P-14", |facts| {
        close(facts);
        first(&mut facts.account.endpoints).state = "failed".to_owned();
    }),
    ("P-14", |facts| {
        close(facts);
        first(&mut facts.account.endpoints).private_names = Some(false);
    }),
    ("P-16", |facts| facts.account.spot_role = Answer::Seen(false)),
    ("P-17", |facts| facts.account.security_groups = Answer::Seen(Vec::new())),
    ("P-17", |facts| {
        push(
            &mut facts.account.security_groups,
            json!({
                "id": "sg-2", "tags": {"kubernetes.io/cluster/demo": "owned"}, "classes": ["default", "windows"],
            }),
        );
    }),
    ("P-18", |facts| only_windows_entries(facts)),
    ("P-18", |facts| {
        let entries = facts.account.access_entries.as_mut().unwrap().iter_mut();
        for entry in entries.filter(|entry| entry.kind == "EC2_LINUX") {
            "STANDARD".clone_into(&mut entry.kind);
        }
    }),
    ("P-18", |facts| facts.account.eks = Answer::Seen(None)),
    ("P-18", |facts| {
        only_windows_entries(facts);
        map_roles(facts, "- rolearn: arn:aws:iam::123456789012:role/KarpenterNodeRole-demo-of-before\n");
    }),
    ("P-19", |facts| {
        let rights = facts.account.rights.as_mut().unwrap();
        let launch = rights.iter_mut().filter(|right| right.action == "ec2:RunInstances");
        launch.for_each(|right| (right.allowed, right.by_organization) = (false, Some(false)));
    }),
    ("P-20", |facts| {
        let rights = facts.account.rights.as_mut().unwrap();
        let nodes = rights.iter_mut().filter(|right| right.resource.ends_with("KarpenterNodeRole-demo"));
        nodes.for_each(|right| right.allowed = false);
    }),
    ("P-20", |facts| {
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"role": "gone"}}));
        facts.account.roles.as_mut().unwrap().insert("gone".to_owned(), None);
    }),
    ("P-21", |facts| {
        facts.account.identity_limits.as_mut().unwrap().insert("InstanceProfiles".to_owned(), 900);
    }),
    ("P-22", |facts| {
        facts.account.vcpu_quotas.as_mut().unwrap().insert("spot".to_owned(), 5);
    }),
    ("P-22", |facts| {
        facts.account.vcpu_quotas.as_mut().unwrap().insert("on-demand".to_owned(), 16);
        let node = facts.cluster.nodes.as_mut().unwrap().last_mut().unwrap();
        change(node, json!({"status": {"capacity": {"cpu": "16"}}}));
    }),
    ("P-27", |facts| set(facts, "ENABLE_ZONAL_SHIFT", "true")),
    ("P-28", |facts| {
        push(
            &mut facts.account.subnets,
            json!({
                "id": "subnet-2", "zone": "us-west-2-lax-1a", "free_addresses": 4000,
                "classes": ["default", "windows"],
            }),
        );
    }),
    ("P-30", |facts| {
        facts.account.volumes = object(json!({"seen": {"encrypted": true, "key": KEY}}));
    }),
    ("P-30", |facts| encrypt_with(facts, KEY)),
    ("P-30", |facts| {
        let stranger = r#"{"Statement":[]}"#;
        let alias = "alias/volumes";
        encrypt_with(facts, alias);
        let key = Key { arn: KEY.to_owned(), policy: stranger.to_owned() };
        facts.account.keys.as_mut().unwrap().insert(alias.to_owned(), Answer::Seen(key));
    }),
    ("P-31", |facts| {
        let agent = Some("eks-pod-identity-agent");
        facts.cluster.daemon_sets.as_mut().unwrap().retain(|set| set.metadata.name.as_deref() != agent);
    }),
    ("P-31", |facts| {
        let fargate = json!({"metadata": {"labels": {"eks.amazonaws.com/compute-type": "fargate"}}});
        change(first(&mut facts.cluster.nodes), fargate);
    }),
    ("P-32", |facts| {
        by_web_identity(facts, "karpenter");
        facts.account.identity_provider = Answer::Seen(Some(false));
    }),
    ("P-33", |facts| by_web_identity(facts, "kube-system")),
    ("P-33", |facts| by_pod_identity(facts, "other", "karpenter")),
    ("P-33", |facts| by_pod_identity(facts, "demo", "kube-system")),
    ("D-04", |facts| {
        let name = "r".repeat(65);
        change(first(&mut facts.cluster.node_classes), json!({"spec": {"role": name}}));
    }),
    ("D-18", |facts| first(&mut facts.account.subnets).free_addresses = 10),
    ("D-18", |facts| facts.account.subnets = Answer::Seen(Vec::new())),
    ("D-38", |facts| {
        close(facts);
        set(facts, "ISOLATED_VPC", "false");
    }),
    ("D-39", |facts| queue(facts).rules.clear()),
    ("D-44", |facts| {
        push(
            &mut facts.account.reservations,
            json!({
                "id": "cr-1", "match_criteria": "open", "state": "active",
                "instance_type": "m5.large", "zone": "us-west-2a", "available": 2,
            }),
        );
    }),
];

/// The key has this policy.
fn key(facts: &mut crate::Facts, policy: &str) {
    let key = Key { arn: KEY.to_owned(), policy: policy.to_owned() };
    facts.account.keys.as_mut().unwrap().insert(KEY.to_owned(), Answer::Seen(key));
}

/// The controller's role is for a cluster, and a namespace in it.
pub(super) fn by_pod_identity(facts: &mut crate::Facts, cluster: &str, namespace: &str) {
    let statement = json!({
        "Effect": "Allow", "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Condition": {
            "ArnEquals": {"aws:SourceArn": format!("arn:aws:eks:us-west-2:123456789012:cluster/{cluster}")},
            "StringEquals": {"aws:SourceAccount": "123456789012", "aws:RequestTag/kubernetes-namespace": namespace},
        },
    });
    let roles = facts.account.roles.as_mut().unwrap();
    let role = roles.get_mut("demo-karpenter").and_then(Option::as_mut).unwrap();
    role.trust = json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
}

/// The service account names its role, which trusts the account of that name in a namespace.
pub(super) fn by_web_identity(facts: &mut crate::Facts, trusted: &str) {
    const ISSUER: &str = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE";
    facts.account.identity_provider = Answer::Seen(Some(true));
    let subject = format!("system:serviceaccount:{trusted}:karpenter");
    let statement = json!({
        "Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": format!("arn:aws:iam::123456789012:oidc-provider/{ISSUER}")},
        "Condition": {"StringEquals": {format!("{ISSUER}:sub"): subject}},
    });
    let roles = facts.account.roles.as_mut().unwrap();
    let role = roles.get_mut("demo-karpenter").and_then(Option::as_mut).unwrap();
    role.trust = json!({"Version": "2012-10-17", "Statement": [statement]}).to_string();
    push(
        &mut facts.cluster.service_accounts,
        json!({"metadata": {
            "name": "karpenter", "namespace": "karpenter",
            "annotations": {"eks.amazonaws.com/role-arn": role.arn},
        }}),
    );
}

/// The volumes of a class's nodes are encrypted with this key.
fn encrypt_with(facts: &mut crate::Facts, key: &str) {
    let volume =
        json!({"deviceName": "/dev/xvda", "ebs": {"encrypted": true, "kmsKeyID": key, "volumeSize": "20Gi"}});
    change(first(&mut facts.cluster.node_classes), json!({"spec": {"blockDeviceMappings": [volume]}}));
}

/// A private cluster as it should be: no way out, an endpoint for everything, and a controller that knows.
pub(super) fn close(facts: &mut crate::Facts) {
    set(facts, "ISOLATED_VPC", "true");
    facts.account.closed_subnets = Answer::Seen(vec!["subnet-1".to_owned()]);
    let services = ["ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "s3", "sqs", "ssm", "sts"];
    let endpoint = |service: &str| Endpoint {
        id: format!("vpce-{service}"),
        service: format!("com.amazonaws.us-west-2.{service}"),
        state: "available".to_owned(),
        private_names: (service != "s3").then_some(true),
    };
    facts.account.endpoints = Answer::Seen(services.into_iter().map(endpoint).collect());
}

#[test]
fn a_private_cluster_with_all_it_needs_is_healthy() {
    let mut facts = super::healthy();
    close(&mut facts);
    assert_eq!(crate::diagnose::diagnose(&facts, &[]).findings, []);
}

#[test]
fn a_key_that_lets_in_who_needs_it_is_healthy() {
    for policy in [
        r#"{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:role/demo-karpenter"},"Action":["kms:CreateGrant","kms:Decrypt"]},
            {"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":["kms:GenerateDataKey*","kms:Decrypt"]}]}"#,
        r#"{"Statement":{"Effect":"Allow","Principal":"*","Action":"kms:*"}}"#,
    ] {
        let mut facts = super::healthy();
        facts.account.volumes = object(json!({"seen": {"encrypted": true, "key": KEY}}));
        encrypt_with(&mut facts, KEY);
        key(&mut facts, policy);
        assert_eq!(crate::diagnose::diagnose(&facts, &[]).findings, [], "{policy}");
    }
}

/// An ordinary key policy leaves the decision to IAM, which has nothing to say of a role that does not exist.
#[test]
fn a_key_refuses_no_role_before_there_is_one() {
    let mut facts = super::healthy();
    facts.account.rights = Answer::Seen(Vec::new());
    facts.account.volumes = object(json!({"seen": {"encrypted": true, "key": KEY}}));
    encrypt_with(&mut facts, KEY);
    key(
        &mut facts,
        r#"{"Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"kms:*","Resource":"*"}]}"#,
    );
    let report = crate::diagnose::diagnose(&facts, &["P-30".to_owned()]);
    assert_eq!((report.findings, report.unseen), (Vec::new(), Vec::new()));
}

/// IAM knows no `ec2.amazonaws.eu`.
#[test]
fn a_node_role_of_the_sovereign_cloud_lacks_the_name_that_iam_takes() {
    let mut facts = super::healthy();
    facts.account.region = Answer::Seen("eusc-de-east-1".to_owned());
    let only = ["P-6".to_owned()];
    assert_eq!(crate::diagnose::diagnose(&facts, &only).findings, []);
    role(&mut facts).trust = trust("lambda.amazonaws.com");
    let report = crate::diagnose::diagnose(&facts, &only);
    let seen: Vec<_> = report.findings.iter().flat_map(|finding| &finding.evidence).collect();
    assert!(seen.len() == 1 && seen[0].seen == "does not trust ec2.amazonaws.com", "{seen:?}");
}

/// Denials count, and so do both wildcards.
#[test]
fn a_key_that_keeps_out_who_needs_it_is_found() {
    let all = r#"{"Effect":"Allow","Principal":"*","Action":"kms:*","Resource":"*"}"#;
    for (name, statements, expected) in [
        ("all", all.to_owned(), &[][..]),
        (
            "a question mark",
            r#"{"Effect":"Allow","Principal":"*","Action":["kms:CreateGran?","kms:Decryp?","kms:*DataKey"]}"#.to_owned(),
            &[],
        ),
        (
            "a question mark too many",
            r#"{"Effect":"Allow","Principal":"*","Action":["kms:CreateGrant","kms:Decrypt?","kms:*DataKey"]}"#.to_owned(),
            &["P-7", "P-30"],
        ),
        (
            "a denial to EventBridge",
            format!(r#"{all},{{"Effect":"Deny","Principal":{{"Service":"events.amazonaws.com"}},"Action":"kms:*"}}"#),
            &["P-7"],
        ),
        (
            "a denial to the account",
            format!(r#"{all},{{"Effect":"Deny","Principal":{{"AWS":"123456789012"}},"Action":"kms:Decrypt"}}"#),
            &["P-30"],
        ),
        (
            "a denial of all but other things",
            format!(r#"{all},{{"Effect":"Deny","Principal":"*","NotAction":"kms:Describe*","Resource":"*"}}"#),
            &["P-7", "P-30"],
        ),
        (
            "only by way of another service",
            r#"{"Effect":"Allow","Principal":"*","Action":"kms:*","Condition":{"StringEquals":{"kms:ViaService":"rds.us-west-2.amazonaws.com"}}}"#.to_owned(),
            &["P-30"],
        ),
    ] {
        let mut facts = super::healthy();
        queue(&mut facts).kms_key = Some(KEY.to_owned());
        facts.account.volumes = object(json!({"seen": {"encrypted": true, "key": KEY}}));
        key(&mut facts, &format!(r#"{{"Statement":[{statements}]}}"#));
        let report = crate::diagnose::diagnose(&facts, &["P-7".to_owned(), "P-30".to_owned()]);
        let found: Vec<_> = report.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Conditions that are not evaluated are neither a permission nor a fault.
#[test]
fn a_key_with_an_unknown_condition_is_not_called_all_right() {
    let mut facts = super::healthy();
    queue(&mut facts).kms_key = Some(KEY.to_owned());
    key(
        &mut facts,
        r#"{"Statement":[{"Sid":"Odd","Effect":"Allow","Principal":"*","Action":"kms:*",
            "Condition":{"StringMatches":{"kms:CallerAccount":"123456789012"}}}]}"#,
    );
    let report = crate::diagnose::diagnose(&facts, &["P-7".to_owned()]);
    assert_eq!(report.findings, []);
    let why: Vec<_> = report.unseen.iter().map(|unseen| unseen.why.as_str()).collect();
    assert!(why.len() == 1 && why[0].contains("`Odd`"), "{why:?}");
}

#[test]
fn a_key_whose_policy_may_not_be_read_is_not_called_all_right() {
    let mut facts = super::healthy();
    facts.account.keys.as_mut().unwrap().insert(KEY.to_owned(), Answer::Unseen("AccessDenied".to_owned()));
    let report = crate::diagnose::diagnose(&facts, &["P-7".to_owned()]);
    assert_eq!(report.findings, []);
    assert_eq!(report.unseen.iter().map(|unseen| unseen.why.as_str()).collect::<Vec<_>>(), ["AccessDenied"]);
}

fn role(facts: &mut crate::Facts) -> &mut Role {
    let roles = facts.account.roles.as_mut().unwrap();
    roles.get_mut("KarpenterNodeRole-demo").and_then(Option::as_mut).unwrap()
}

fn queue(facts: &mut crate::Facts) -> &mut Queue {
    facts.account.queues.as_mut().unwrap().get_mut("demo").and_then(Option::as_mut).unwrap()
}

/// Sets the roles in `aws-auth`.
pub(super) fn map_roles(facts: &mut crate::Facts, roles: &str) {
    let maps = facts.cluster.config_maps.as_mut().unwrap().iter_mut();
    for map in maps.filter(|map| map.metadata.name.as_deref() == Some("aws-auth")) {
        change(map, json!({"data": {"mapRoles": roles}}));
    }
}

fn only_windows_entries(facts: &mut crate::Facts) {
    facts.account.access_entries.as_mut().unwrap().retain(|entry| entry.kind == "EC2_WINDOWS");
}

#[test]
fn a_node_role_may_come_in_by_the_map_where_that_counts() {
    use crate::diagnose::diagnose;
    let only = ["P-18".to_owned()];
    let mut facts = super::healthy();
    only_windows_entries(&mut facts);
    map_roles(&mut facts, "- rolearn: arn:aws:iam::123456789012:role/KarpenterNodeRole-demo\n");
    assert_eq!(diagnose(&facts, &only).findings, []);
    facts.account.eks = Answer::Seen(object(json!({"version": "1.33", "authentication_mode": "API"})));
    assert_eq!(diagnose(&facts, &only).findings.len(), 1, "the map does not count any more");
}

/// terraform-aws-eks#3329
#[test]
fn an_access_entry_older_than_its_role_lets_no_node_join() {
    use crate::diagnose::diagnose;
    let only = ["P-18".to_owned()];
    for (entry, found) in [(Some("2026-01-01T00:00:00Z"), 1), (Some("2026-01-03T00:00:00Z"), 0), (None, 0)] {
        let mut facts = super::healthy();
        role(&mut facts).created_at = "2026-01-02T00:00:00Z".parse().ok();
        for one in facts.account.access_entries.as_mut().unwrap() {
            one.created_at = entry.and_then(|entry| entry.parse().ok());
        }
        let findings = diagnose(&facts, &only).findings;
        assert_eq!(findings.len(), found, "{entry:?}");
        let seen =
            findings.iter().flat_map(|finding| &finding.evidence).map(|evidence| evidence.seen.as_str());
        assert!(seen.into_iter().all(|seen| seen.contains("older than the role")));
    }
}
