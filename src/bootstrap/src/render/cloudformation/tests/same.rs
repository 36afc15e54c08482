//! For settings of every kind the template makes the parts of the desired value: the same names, shortened the same way,
//! and the same documents, attributes, entries and targets.

use std::collections::BTreeMap;

use karpenter_aws_api::Partition;
use serde_json::{Value, json};

use super::evaluate::Evaluated;
use crate::desired::{CLUSTER_TAG, Desired, desired};
use crate::policy::Found;
use crate::render::cloudformation::{inputs, outputs, parameters, resources};
use crate::settings::tests::{settings, settings_for_cluster};
use crate::settings::{ExtraNodeRole, Identity, IpFamily, Platform, PodIdentityTrust, Settings};

fn evaluated(settings: &Settings) -> Evaluated {
    let template = json!({
        "Parameters": inputs::parameters(),
        "Conditions": inputs::conditions(),
        "Resources": resources::resources(&super::documents()),
        "Outputs": outputs::outputs(&super::documents()),
    });
    Evaluated::new(template, &parameters(settings), settings)
}

/// A document that stands in the template as text or as an object.
fn document(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn of_resource(value: &Value) -> Found {
    Found::on_resource(&document(value)).unwrap_or_else(|error| panic!("{error}: {value}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn assert_roles(case: &str, desired: &Desired, template: &Evaluated) {
    let roles: BTreeMap<_, _> = template
        .resources("AWS::IAM::Role")
        .into_values()
        .map(|role| (text(&role["RoleName"]), role))
        .collect();
    let names: Vec<_> = roles.keys().cloned().collect();
    let mut wanted: Vec<_> = desired.roles.iter().map(|role| role.name.clone()).collect();
    wanted.sort();
    assert_eq!(names, wanted, "{case}");
    for role in &desired.roles {
        let made = &roles[&role.name];
        assert_eq!(made["Path"], role.path.as_str(), "{case}");
        assert_eq!(made["Description"], role.purpose.description(), "{case}");
        assert_eq!(made.get("PermissionsBoundary").map(text), role.boundary, "{case}: {}", role.name);
        assert!(of_resource(&made["AssumeRolePolicyDocument"]).says(&role.trust), "{case}: {made}");
        let mut attached: Vec<_> = made["ManagedPolicyArns"].as_array().unwrap().iter().map(text).collect();
        attached.sort();
        assert_eq!(attached, role.attached, "{case}: {}", role.name);
        assert_eq!(made["Tags"], json!([{ "Key": CLUSTER_TAG, "Value": role.tags[CLUSTER_TAG] }]), "{case}");
    }
}

fn assert_policies(case: &str, desired: &Desired, template: &Evaluated) {
    let policies: BTreeMap<_, _> = template
        .resources("AWS::IAM::ManagedPolicy")
        .into_values()
        .map(|policy| (text(&policy["ManagedPolicyName"]), policy))
        .collect();
    assert_eq!(policies.len(), desired.policies.len(), "{case}");
    for policy in &desired.policies {
        let made = policies.get(&policy.name).unwrap_or_else(|| panic!("{case}: no {}", policy.name));
        assert_eq!(made["Path"], policy.path.as_str(), "{case}");
        let found = document(&made["PolicyDocument"]);
        let says = Found::on_identity(&found).is_ok_and(|found| found.says(&policy.document));
        assert!(says, "{case}: {found}\n{}", policy.document.to_json());
    }
}

fn assert_interruption(case: &str, desired: &Desired, template: &Evaluated) {
    let queue = template.resources("AWS::SQS::Queue").remove("InterruptionQueue").unwrap();
    assert_eq!(queue["QueueName"], desired.queue.name.as_str(), "{case}");
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let attributes: BTreeMap<_, _> = ["MessageRetentionPeriod", "SqsManagedSseEnabled", "KmsMasterKeyId"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), plain(queue.get(name)?))))
        .collect();
    assert_eq!(attributes, desired.queue.attributes, "{case}");
    let policy = template.resources("AWS::SQS::QueuePolicy").remove("InterruptionQueuePolicy").unwrap();
    assert!(of_resource(&policy["PolicyDocument"]).says(&desired.queue.policy), "{case}: {policy}");
    let rules = template.resources("AWS::Events::Rule");
    assert_eq!(rules.len(), desired.rules.len(), "{case}");
    for rule in &desired.rules {
        let made = rules.values().find(|made| made["Name"] == rule.name.as_str());
        let made = made.unwrap_or_else(|| panic!("{case}: no rule {}", rule.name));
        assert_eq!(made["EventPattern"], rule.pattern, "{case}");
        assert_eq!(made["Targets"][0]["Arn"], rule.target.as_str(), "{case}");
    }
}

fn assert_members(case: &str, desired: &Desired, template: &Evaluated) {
    let entries: BTreeMap<_, _> = template
        .resources("AWS::EKS::AccessEntry")
        .into_values()
        .map(|entry| (text(&entry["PrincipalArn"]), text(&entry["Type"])))
        .collect();
    let wanted: BTreeMap<_, _> =
        desired.access_entries.iter().map(|entry| (entry.principal.clone(), entry.kind.to_owned())).collect();
    assert_eq!(entries, wanted, "{case}");
    let association = template.resources("AWS::EKS::PodIdentityAssociation").remove("PodIdentity");
    let found = association.map(|found| (text(&found["ServiceAccount"]), text(&found["RoleArn"])));
    let wanted =
        desired.pod_identity.as_ref().map(|wanted| (wanted.service_account.clone(), wanted.role.clone()));
    assert_eq!(found, wanted, "{case}");
    let profile = template.resources("AWS::IAM::InstanceProfile").remove("InstanceProfile").unwrap();
    let wanted = &desired.instance_profile;
    assert_eq!(profile["InstanceProfileName"], wanted.name.as_str(), "{case}");
    assert_eq!((&profile["Path"], &profile["Roles"]), (&json!(wanted.path), &json!([wanted.role])), "{case}");
}

fn role(name: &str, platform: Platform) -> ExtraNodeRole {
    ExtraNodeRole { arn: format!("arn:aws:iam::123456789012:role/{name}"), platform }
}

/// The tables of the acceptance, and what else can be set.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<(&'static str, Settings)> {
    let with = |change: fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let everything = |settings: &mut Settings| {
        settings.iam_path = "/platform/karpenter/".to_owned();
        settings.permissions_boundary = Some("arn:aws:iam::123456789012:policy/boundary".to_owned());
        settings.windows = true;
        settings.zonal_shift = true;
        settings.queue_kms_key = Some("arn:aws:kms:eu-west-1:123456789012:key/k".to_owned());
        settings.extra_node_policies = vec!["arn:aws:iam::123456789012:policy/more".to_owned()];
        settings.extra_ssm_parameters = vec!["arn:aws:ssm:eu-west-1:123456789012:parameter/ami".to_owned()];
        settings.extra_node_roles =
            vec![role("gpu", Platform::Linux), role("big", Platform::Linux), role("win", Platform::Windows)];
    };
    let mut longest = settings_for_cluster(&"c".repeat(100));
    let long = longest.clone();
    everything(&mut longest);
    vec![
        ("plain", settings()),
        ("a name of 100 characters", long),
        ("a name of 100 characters with every option", longest),
        ("a name that just fits a role", settings_for_cluster(&"c".repeat(46))),
        ("a name that just does not fit a role", settings_for_cluster(&"c".repeat(47))),
        ("a path", with(|s| s.iam_path = "/platform/karpenter/".to_owned())),
        (
            "a boundary",
            with(|s| s.permissions_boundary = Some("arn:aws:iam::123456789012:policy/b".to_owned())),
        ),
        ("China", Settings::new("prod", "cn-north-1", "123456789012", Partition::China)),
        ("GovCloud", Settings::new("prod", "us-gov-west-1", "123456789012", Partition::UsGov)),
        (
            "the European sovereign cloud",
            Settings::new("prod", "eusc-de-east-1", "123456789012", Partition::EuSovereign),
        ),
        (
            "a key of the customer's",
            with(|s| s.queue_kms_key = Some("arn:aws:kms:eu-west-1:1:key/k".to_owned())),
        ),
        (
            "a node role of the operator's",
            with(|s| s.existing_node_role = Some("arn:aws:iam::123456789012:role/team/nodes".to_owned())),
        ),
        (
            "names of the operator's",
            with(|s| {
                s.node_role_name = Some("nodes".to_owned());
                s.controller_role_name = Some("controller".to_owned());
                s.policy_suffix = Some("prod-eu-west-1".to_owned());
                s.queue_name = Some("interruptions".to_owned());
                s.rule_prefix = Some("nodes".to_owned());
                s.instance_profile_name = Some("profile".to_owned());
            }),
        ),
        (
            "four more roles and two for Windows",
            with(|s| {
                s.extra_node_roles = ["a", "b", "c", "d"].map(|name| role(name, Platform::Linux)).into();
                s.extra_node_roles.extend(["e", "f"].map(|name| role(name, Platform::Windows)));
            }),
        ),
        (
            "more roles without entries",
            with(|s| {
                s.extra_node_roles = vec![role("gpu", Platform::Linux)];
                s.access_entry = false;
            }),
        ),
        ("Windows", with(|s| s.windows = true)),
        ("IPv6", with(|s| s.ip_family = Some(IpFamily::V6))),
        (
            "IPv6 with further policies, a path and Windows",
            with(|s| {
                s.ip_family = Some(IpFamily::V6);
                s.iam_path = "/platform/karpenter/".to_owned();
                s.extra_node_policies = vec!["arn:aws:iam::123456789012:policy/more".to_owned()];
                s.windows = true;
            }),
        ),
        (
            "service accounts",
            with(|s| s.identity = Identity::Irsa { issuer: "oidc.example/id/A".to_owned() }),
        ),
        ("session tags", with(|s| s.pod_identity_trust = PodIdentityTrust::SessionTags)),
        ("credentials of the operator's", with(|s| s.identity = Identity::None)),
    ]
}

#[test]
fn the_template_makes_what_bootstrap_makes_for_settings_of_every_kind() {
    for (case, settings) in cases() {
        assert_eq!(settings.validate(), [], "{case}");
        let (desired, template) = (desired(&settings), evaluated(&settings));
        assert_roles(case, &desired, &template);
        assert_policies(case, &desired, &template);
        assert_interruption(case, &desired, &template);
        assert_members(case, &desired, &template);
    }
}
