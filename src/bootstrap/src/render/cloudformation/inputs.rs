//! Parameters, what they must satisfy together, and the conditions derived from them.

use karpenter_aws_api::Partition;
use serde_json::{Map, Value, json};

use super::resources::extra_access_entries;
use crate::names::{POLICY_NAME_MAX, POLICY_SUFFIX_MAX, QUEUE_NAME_MAX, ROLE_NAME_MAX};
use crate::settings::{Identity, IpFamily, Platform, PodIdentityTrust, Settings};

/// Optional texts: parameter, longest value (0: an ARN or URL), allowed pattern, description.
const OPTIONAL: [(&str, usize, &str, &str); 11] = [
    (
        "NodeRoleName",
        ROLE_NAME_MAX,
        NAME,
        "Name of the node role; else KarpenterNodeRole-<cluster>. With ExistingNodeRoleArn: that role's name without path",
    ),
    ("ExistingNodeRoleArn", 0, ARN, "ARN of a node role of your own, instead of one made here"),
    (
        "WindowsNodeRoleName",
        ROLE_NAME_MAX,
        NAME,
        "Name of the node role for Windows; else KarpenterWindowsNodeRole-<cluster>",
    ),
    ("ControllerRoleName", ROLE_NAME_MAX, NAME, "Name of the controller's role; else <cluster>-karpenter"),
    (
        "InstanceProfileName",
        POLICY_NAME_MAX,
        NAME,
        "Name of the instance profile for clusters without an IAM endpoint; else KarpenterNodeInstanceProfile-<cluster>",
    ),
    (
        "PolicySuffix",
        POLICY_SUFFIX_MAX,
        NAME,
        "What the names of the controller's policies end with; else the cluster's name",
    ),
    (
        "QueueName",
        QUEUE_NAME_MAX,
        "^[A-Za-z0-9_-]*$",
        "Name of the interruption queue; else the cluster's name",
    ),
    (
        "RulePrefix",
        44,
        "^[.A-Za-z0-9_-]*$",
        "What the names of the rules begin with; else Karpenter-<cluster>. Needed for cluster names of more than 34 characters",
    ),
    ("PermissionsBoundaryArn", 0, ARN, "ARN of the permissions boundary of every role made here"),
    (
        "QueueKmsKeyArn",
        0,
        ARN,
        "ARN of the key that encrypts the queue, instead of SQS's own; its policy must let events.amazonaws.com use kms:Decrypt and kms:GenerateDataKey",
    ),
    (
        "OidcIssuer",
        0,
        "^(|[^:/]+(/[^:/]+)*)$",
        "The cluster's issuer without https://, for ControllerIdentity IRSA",
    ),
];
const NAME: &str = "^[\\w+=,.@-]*$";
const ARN: &str = "^(|arn:.+)$";

/// Lists that may be empty.
const LISTS: [(&str, &str); 4] = [
    ("ExtraNodePolicyArns", "ARNs of further managed policies of the node roles"),
    (
        "ExtraNodeRoleArns",
        "ARNs of further roles that EC2NodeClasses name; the first four get access entries",
    ),
    (
        "ExtraWindowsNodeRoleArns",
        "ARNs of further roles that EC2NodeClasses for Windows name; the first two get access entries",
    ),
    ("ExtraSsmParameterArns", "ARNs of private SSM parameters that EC2NodeClasses name"),
];

/// Switches: parameter, default, description.
const SWITCHES: [(&str, bool, &str); 4] = [
    ("WindowsNodes", false, "Make a second node role, for Windows nodes"),
    (
        "AccessEntry",
        true,
        "Let the node roles join the cluster; its authentication mode must be API or API_AND_CONFIG_MAP",
    ),
    ("ZonalShift", false, "Let the controller read the zonal-shift status of the cluster"),
    (
        "SpotServiceLinkedRole",
        false,
        "Make the account's service-linked role for spot instances; fails where it exists",
    ),
];

/// The `Parameters` section.
pub(super) fn parameters() -> Value {
    let mut all = Map::new();
    let mut add = |name: &str, value: Value| all.insert(name.to_owned(), value);
    add(
        "ClusterName",
        json!({
            "Type": "String", "Description": "Name of the EKS cluster",
            "AllowedPattern": "^[0-9A-Za-z][A-Za-z0-9_-]*$", "MinLength": 1, "MaxLength": 100,
        }),
    );
    add(
        "ControllerIdentity",
        json!({
            "Type": "String", "Default": "PodIdentity", "AllowedValues": ["PodIdentity", "IRSA", "PoliciesOnly", "None"],
            "Description": "How the controller gets its credentials: EKS Pod Identity, a role for its service account, a role made elsewhere that takes the policies from here, or not from here",
        }),
    );
    add(
        "PodIdentityTrust",
        json!({
            "Type": "String", "Default": "ClusterArn", "AllowedValues": ["ClusterArn", "SessionTags"],
            "Description": "What ties the controller's role to the cluster with PodIdentity: its ARN as aws:SourceArn, or the tags of the session",
        }),
    );
    add(
        "Namespace",
        json!({ "Type": "String", "Default": "kube-system", "Description": "Namespace of the controller's service account" }),
    );
    add(
        "ServiceAccount",
        json!({ "Type": "String", "Default": "karpenter", "Description": "Name of the controller's service account" }),
    );
    add(
        "IamPath",
        json!({
            "Type": "String", "Default": "/", "AllowedPattern": "^/([!-~]+/)?$", "MaxLength": 512,
            "Description": "Path of roles, policies and instance profile",
        }),
    );
    add(
        "ClusterIpFamily",
        json!({
            "Type": "String", "Default": "ipv4", "AllowedValues": ["ipv4", "ipv6"],
            "Description": "ipv6 gives node roles the account's policy AmazonEKS_CNI_IPv6_Policy, which must exist, for AmazonEKS_CNI_Policy of AWS",
        }),
    );
    for (name, longest, pattern, description) in OPTIONAL {
        let mut value =
            json!({ "Type": "String", "Default": "", "AllowedPattern": pattern, "Description": description });
        if longest > 0 {
            value["MaxLength"] = json!(longest);
        }
        add(name, value);
    }
    for (name, description) in LISTS {
        add(name, json!({ "Type": "CommaDelimitedList", "Default": "", "Description": description }));
    }
    for (name, default, description) in SWITCHES {
        let default = default.to_string();
        add(
            name,
            json!({
                "Type": "String", "Default": default, "AllowedValues": ["true", "false"], "Description": description,
            }),
        );
    }
    Value::Object(all)
}

/// The `Rules` section: what parameters must satisfy together.
pub(super) fn rules() -> Value {
    let given = |name: &str| json!({ "Fn::Not": [{ "Fn::Equals": [{ "Ref": name }, ""] }] });
    json!({
        "ExistingNodeRoleHasName": {
            "RuleCondition": given("ExistingNodeRoleArn"),
            "Assertions": [{
                "Assert": given("NodeRoleName"),
                "AssertDescription": "NodeRoleName must be the name, without path, of the role in ExistingNodeRoleArn",
            }],
        },
        "IrsaHasIssuer": {
            "RuleCondition": { "Fn::Equals": [{ "Ref": "ControllerIdentity" }, "IRSA"] },
            "Assertions": [{
                "Assert": given("OidcIssuer"),
                "AssertDescription": "ControllerIdentity IRSA needs OidcIssuer",
            }],
        },
    })
}

/// The `Conditions` section.
pub(super) fn conditions() -> Value {
    let mut all = Map::new();
    let mut add = |name: &str, value: Value| all.insert(name.to_owned(), value);
    let is = |name: &str, value: &str| json!({ "Fn::Equals": [{ "Ref": name }, value] });
    let not = |condition: Value| json!({ "Fn::Not": [condition] });
    let both = |a: &str, b: &str| json!({ "Fn::And": [{ "Condition": a }, { "Condition": b }] });
    add("MakeNodeRole", is("ExistingNodeRoleArn", ""));
    add("MakePolicies", not(is("ControllerIdentity", "None")));
    add("UsePodIdentity", is("ControllerIdentity", "PodIdentity"));
    add("TrustSessionTags", is("PodIdentityTrust", "SessionTags"));
    add("Ipv6", is("ClusterIpFamily", "ipv6"));
    add("EuSovereign", is("AWS::Partition", Partition::EuSovereign.arn_prefix()));
    let irsa = is("ControllerIdentity", "IRSA");
    add("MakeControllerRole", json!({ "Fn::Or": [{ "Condition": "UsePodIdentity" }, irsa] }));
    for (name, ..) in OPTIONAL {
        if !matches!(name, "ExistingNodeRoleArn" | "OidcIssuer") {
            add(&format!("Has{name}"), not(is(name, "")));
        }
    }
    for (name, _) in LISTS {
        add(&format!("Has{name}"), not(json!({ "Fn::Equals": [{ "Fn::Join": ["", { "Ref": name }] }, ""] })));
    }
    for (name, ..) in SWITCHES {
        add(name, is(name, "true"));
    }
    add("WindowsAccessEntry", both("WindowsNodes", "AccessEntry"));
    for entry in extra_access_entries() {
        let given = not(json!({ "Fn::Equals": [entry.principal, ""] }));
        add(&entry.name, json!({ "Fn::And": [{ "Condition": "AccessEntry" }, given] }));
    }
    Value::Object(all)
}

/// The parameters for one cluster; those at their default are left out.
pub(super) fn values(settings: &Settings) -> Vec<(&'static str, String)> {
    let cluster = &settings.cluster;
    let unless_default =
        |value: String, default: String| if value == default { String::new() } else { value };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let on = |value: bool, default: bool| if value == default { String::new() } else { value.to_string() };
    let (identity, issuer) = match &settings.identity {
        Identity::PodIdentity => ("", ""),
        Identity::Irsa { issuer } => ("IRSA", issuer.as_str()),
        Identity::None => ("None", ""),
    };
    let trust = match settings.pod_identity_trust {
        PodIdentityTrust::ClusterArn => "",
        PodIdentityTrust::SessionTags => "SessionTags",
    };
    let family = if settings.ip_family == Some(IpFamily::V6) { "ipv6" } else { "" };
    let roles = |platform| {
        let roles = settings.extra_node_roles.iter().filter(|role| role.platform == platform);
        roles.map(|role| role.arn.as_str()).collect::<Vec<_>>().join(",")
    };
    let all = [
        ("ClusterName", cluster.clone()),
        ("ControllerIdentity", identity.to_owned()),
        ("PodIdentityTrust", trust.to_owned()),
        ("OidcIssuer", issuer.to_owned()),
        ("Namespace", unless_default(settings.namespace.clone(), "kube-system".to_owned())),
        ("ServiceAccount", unless_default(settings.service_account.clone(), "karpenter".to_owned())),
        ("ClusterIpFamily", family.to_owned()),
        ("IamPath", unless_default(settings.iam_path.clone(), "/".to_owned())),
        ("NodeRoleName", unless_default(settings.node_role(), format!("KarpenterNodeRole-{cluster}"))),
        ("ExistingNodeRoleArn", text(&settings.existing_node_role)),
        (
            "WindowsNodeRoleName",
            unless_default(settings.windows_node_role(), format!("KarpenterWindowsNodeRole-{cluster}")),
        ),
        ("ControllerRoleName", unless_default(settings.controller_role(), format!("{cluster}-karpenter"))),
        (
            "InstanceProfileName",
            unless_default(settings.instance_profile(), format!("KarpenterNodeInstanceProfile-{cluster}")),
        ),
        ("PolicySuffix", text(&settings.policy_suffix)),
        ("QueueName", unless_default(settings.queue(), cluster.clone())),
        ("RulePrefix", unless_default(settings.rule_prefix(), format!("Karpenter-{cluster}"))),
        ("PermissionsBoundaryArn", text(&settings.permissions_boundary)),
        ("QueueKmsKeyArn", text(&settings.queue_kms_key)),
        ("ExtraNodePolicyArns", settings.extra_node_policies.join(",")),
        ("ExtraNodeRoleArns", roles(Platform::Linux)),
        ("ExtraWindowsNodeRoleArns", roles(Platform::Windows)),
        ("ExtraSsmParameterArns", settings.extra_ssm_parameters.join(",")),
        ("WindowsNodes", on(settings.windows, false)),
        ("AccessEntry", on(settings.access_entry, true)),
        ("ZonalShift", on(settings.zonal_shift, false)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}
