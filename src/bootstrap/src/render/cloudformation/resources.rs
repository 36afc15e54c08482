//! The resources of the template.

use serde_json::{Map, Value, json};

use super::intrinsic::{
    either, element, named, node_role_arn, node_role_name, object, only_if, queue_name, reference,
    substituted, text, text_with_options,
};
use super::{EXTRA_LINUX_ROLES, EXTRA_WINDOWS_ROLES, SYMBOLS};
use crate::desired::{CLUSTER_TAG, POLICY_DESCRIPTION, Purpose, RULE_TARGET_ID};
use crate::policy::node;
use crate::render::{Documents, node_policies};
use crate::settings::Platform;

/// The `Resources` section.
pub(super) fn resources(documents: &Documents) -> Value {
    let mut all = Map::new();
    let mut add = |name: &str, resource: Value| all.insert(name.to_owned(), resource);
    add("NodeRole", node_role(documents, Purpose::Nodes, "MakeNodeRole", node_role_name()));
    let windows = named("WindowsNodeRoleName", "KarpenterWindowsNodeRole-${ClusterName}");
    add("WindowsNodeRole", node_role(documents, Purpose::WindowsNodes, "WindowsNodes", windows));
    let last = documents.policies.len() - 1;
    for (index, (prefix, document)) in documents.policies.iter().enumerate() {
        let body = if index == last { text_with_options(document, documents) } else { text(document) };
        add(&policy_id(prefix), policy(prefix, body));
    }
    add("ControllerRole", controller_role(documents));
    add(
        "InstanceProfile",
        json!({
            "Type": "AWS::IAM::InstanceProfile",
            "Properties": {
                "InstanceProfileName": named("InstanceProfileName", "KarpenterNodeInstanceProfile-${ClusterName}"),
                "Path": reference("IamPath"),
                "Roles": [either("MakeNodeRole", reference("NodeRole"), node_role_name())],
            },
        }),
    );
    add("InterruptionQueue", queue(documents));
    add(
        "InterruptionQueuePolicy",
        json!({
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": [reference("InterruptionQueue")],
                "PolicyDocument": object(&documents.rest.queue.policy),
            },
        }),
    );
    for rule in &documents.rest.rules {
        let suffix = rule.name.rsplit('-').next().unwrap_or(&rule.name);
        add(
            &format!("{suffix}Rule"),
            json!({
                "Type": "AWS::Events::Rule",
                "Properties": {
                    "Name": substituted(&rule.name),
                    "Description": rule.description,
                    "EventPattern": rule.pattern,
                    "Targets": [{ "Id": RULE_TARGET_ID, "Arn": { "Fn::GetAtt": ["InterruptionQueue", "Arn"] } }],
                },
            }),
        );
    }
    add("NodeAccessEntry", access_entry("AccessEntry", Platform::Linux, node_role_arn()));
    let windows = json!({ "Fn::GetAtt": ["WindowsNodeRole", "Arn"] });
    add("WindowsNodeAccessEntry", access_entry("WindowsAccessEntry", Platform::Windows, windows));
    for entry in extra_access_entries() {
        add(&entry.name, access_entry(&entry.name, entry.platform, entry.principal));
    }
    add("PodIdentity", pod_identity());
    add(
        "SpotRole",
        json!({
            "Type": "AWS::IAM::ServiceLinkedRole",
            "Condition": "SpotServiceLinkedRole",
            // It belongs to the account: every other user of spot instances needs it too.
            "DeletionPolicy": "Retain",
            "UpdateReplacePolicy": "Retain",
            "Properties": { "AWSServiceName": "spot.amazonaws.com" },
        }),
    );
    Value::Object(all)
}

/// The access entry of one element of a list of roles.
pub(super) struct ExtraAccessEntry {
    /// Name of the resource, and of the condition under which it is made.
    pub(super) name: String,
    pub(super) platform: Platform,
    /// The element; empty when the list is shorter.
    pub(super) principal: Value,
}

/// One for each element that gets one.
pub(super) fn extra_access_entries() -> Vec<ExtraAccessEntry> {
    let of = |platform, prefix: &'static str, parameter: &'static str, count| {
        (0..count).map(move |index| ExtraAccessEntry {
            name: format!("{prefix}{}", index + 1),
            platform,
            principal: element(parameter, index, count),
        })
    };
    let linux = of(Platform::Linux, "ExtraNodeAccessEntry", "ExtraNodeRoleArns", EXTRA_LINUX_ROLES);
    let parameter = "ExtraWindowsNodeRoleArns";
    linux
        .chain(of(Platform::Windows, "ExtraWindowsNodeAccessEntry", parameter, EXTRA_WINDOWS_ROLES))
        .collect()
}

/// `KarpenterNodeLifecycle-` becomes `NodeLifecyclePolicy`.
pub(super) fn policy_id(prefix: &str) -> String {
    format!("{}Policy", prefix.trim_start_matches("Karpenter").trim_end_matches('-'))
}

fn policy(prefix: &str, document: Value) -> Value {
    json!({
        "Type": "AWS::IAM::ManagedPolicy",
        "Condition": "MakePolicies",
        "Properties": {
            "ManagedPolicyName": either(
                "HasPolicySuffix",
                substituted(&format!("{prefix}${{PolicySuffix}}")),
                substituted(&format!("{prefix}${{ClusterName}}")),
            ),
            "Path": reference("IamPath"),
            "Description": POLICY_DESCRIPTION,
            "PolicyDocument": document,
        },
    })
}

fn node_role(documents: &Documents, purpose: Purpose, condition: &str, name: Value) -> Value {
    let policies: Vec<Value> = node_policies(&SYMBOLS.settings()).into_iter().map(node_policy).collect();
    // A list cannot hold another list, so the further ones go through text and back.
    let with_extra = json!({ "Fn::Split": [",", { "Fn::Join": [",", [
        { "Fn::Join": [",", policies.clone()] },
        { "Fn::Join": [",", reference("ExtraNodePolicyArns")] },
    ]] }] });
    role(
        purpose,
        condition,
        name,
        object(&documents.node_trust),
        either("HasExtraNodePolicyArns", with_extra, json!(policies)),
    )
}

/// The ARN of a policy that every node needs; the account's own for the network plugin of IPv6 clusters.
fn node_policy(name: String) -> Value {
    let of = |account: &str, name: &str| {
        substituted(&format!("arn:${{AWS::Partition}}:iam::{account}:policy/{name}"))
    };
    if name == node::CNI_POLICY {
        either("Ipv6", of("${AWS::AccountId}", node::CNI_IPV6_POLICY), of("aws", &name))
    } else {
        of("aws", &name)
    }
}

fn controller_role(documents: &Documents) -> Value {
    let policies = documents.policies.iter().map(|(prefix, _)| reference(&policy_id(prefix))).collect();
    let pods =
        either("TrustSessionTags", object(&documents.session_trust), object(&documents.pod_identity_trust));
    let trust = either("UsePodIdentity", pods, text(&documents.irsa_trust));
    let name = named("ControllerRoleName", "${ClusterName}-karpenter");
    role(Purpose::Controller, "MakeControllerRole", name, trust, policies)
}

fn role(purpose: Purpose, condition: &str, name: Value, trust: Value, policies: Value) -> Value {
    json!({
        "Type": "AWS::IAM::Role",
        "Condition": condition,
        "Properties": {
            "RoleName": name,
            "Path": reference("IamPath"),
            "Description": purpose.description(),
            "AssumeRolePolicyDocument": trust,
            "ManagedPolicyArns": policies,
            "PermissionsBoundary": only_if("HasPermissionsBoundaryArn", reference("PermissionsBoundaryArn")),
            "Tags": tags(),
        },
    })
}

fn queue(documents: &Documents) -> Value {
    let retention: u32 = documents.rest.queue.attributes["MessageRetentionPeriod"]
        .parse()
        .expect("invariant: the retention is a number of seconds");
    json!({
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "QueueName": queue_name(),
            "MessageRetentionPeriod": retention,
            // SQS-managed encryption and a customer's key exclude each other.
            "SqsManagedSseEnabled": either("HasQueueKmsKeyArn", reference("AWS::NoValue"), json!(true)),
            "KmsMasterKeyId": only_if("HasQueueKmsKeyArn", reference("QueueKmsKeyArn")),
            "Tags": tags(),
        },
        "DeletionPolicy": "Delete",
        "UpdateReplacePolicy": "Delete",
    })
}

fn access_entry(condition: &str, platform: Platform, principal: Value) -> Value {
    json!({
        "Type": "AWS::EKS::AccessEntry",
        "Condition": condition,
        "Properties": {
            "ClusterName": reference("ClusterName"),
            "PrincipalArn": principal,
            "Type": platform.entry_type(),
            "Tags": tags(),
        },
    })
}

fn pod_identity() -> Value {
    json!({
        "Type": "AWS::EKS::PodIdentityAssociation",
        "Condition": "UsePodIdentity",
        "Properties": {
            "ClusterName": reference("ClusterName"),
            "Namespace": reference("Namespace"),
            "ServiceAccount": reference("ServiceAccount"),
            "RoleArn": { "Fn::GetAtt": ["ControllerRole", "Arn"] },
            "Tags": tags(),
        },
    })
}

/// Returns the tags of the template's objects. Stack tags come on top; the tag that marks what `karpenter bootstrap` may delete
/// is left out, because CloudFormation looks after these.
fn tags() -> Value {
    json!([{ "Key": CLUSTER_TAG, "Value": reference("ClusterName") }])
}
