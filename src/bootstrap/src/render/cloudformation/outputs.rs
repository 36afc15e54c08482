//! Outputs of the stack for other stacks, charts and `karpenter bootstrap check`.

use serde_json::{Map, Value, json};

use super::intrinsic::{attribute, node_role_arn, node_role_name, queue_name, reference};
use super::resources::policy_id;
use crate::render::Documents;

/// The `Outputs` section.
pub(super) fn outputs(documents: &Documents) -> Value {
    let all = [
        ("ClusterName", None, "Chart value settings.clusterName", reference("ClusterName")),
        ("QueueName", None, "Chart value settings.interruptionQueue", queue_name()),
        ("QueueArn", None, "ARN of the interruption queue", attribute("InterruptionQueue", "Arn")),
        ("NodeRoleName", None, "EC2NodeClass spec.role", node_role_name()),
        ("NodeRoleArn", None, "ARN of the node role", node_role_arn()),
        (
            "WindowsNodeRoleName",
            Some("WindowsNodes"),
            "EC2NodeClass spec.role of Windows nodes",
            reference("WindowsNodeRole"),
        ),
        (
            "ControllerRoleName",
            Some("MakeControllerRole"),
            "Name of the controller's role, for policies of your own",
            reference("ControllerRole"),
        ),
        (
            "ControllerRoleArn",
            Some("MakeControllerRole"),
            "ARN of the controller's role; with IRSA the annotation eks.amazonaws.com/role-arn of its service account",
            attribute("ControllerRole", "Arn"),
        ),
        (
            "InstanceProfileName",
            None,
            "EC2NodeClass spec.instanceProfile of clusters without an IAM endpoint",
            reference("InstanceProfile"),
        ),
    ];
    let output = |(name, condition, description, value): (&str, Option<&str>, &str, Value)| {
        let mut output = json!({ "Description": description, "Value": value });
        if let Some(condition) = condition {
            output["Condition"] = json!(condition);
        }
        (name.to_owned(), output)
    };
    let mut outputs: Map<_, _> = all.into_iter().map(output).collect();
    // With `PoliciesOnly` a role made elsewhere takes them: `Ref` of a managed policy is its ARN.
    for (prefix, _) in &documents.policies {
        let id = policy_id(prefix);
        outputs.insert(
            format!("{id}Arn"),
            json!({
                "Condition": "MakePolicies",
                "Description": "ARN of a policy that the controller's role needs; it needs all of them",
                "Value": reference(&id),
            }),
        );
    }
    Value::Object(outputs)
}
