//! The template as a value: what cfn-lint and an emulator do not see.

mod evaluate;
mod same;

use super::*;
use crate::render::Documents;
use crate::settings::tests::{settings, settings_for_cluster};
use crate::settings::{ExtraNodeRole, Identity, Platform};

fn documents() -> Documents {
    SYMBOLS.documents()
}

#[test]
fn every_parameter_is_used() {
    let resources = resources::resources(&documents()).to_string();
    let everything = format!("{resources}{}{}", inputs::conditions(), outputs::outputs(&documents()));
    for name in inputs::parameters().as_object().unwrap().keys() {
        let used =
            everything.contains(&format!("\"{name}\"")) || everything.contains(&format!("${{{name}}}"));
        assert!(used, "{name}");
    }
}

#[test]
fn nothing_names_a_partition_region_or_account() {
    let template = template();
    for fixed in ["arn:aws:", "amazonaws.com.cn/", "us-east", "us-west", "eu-west", "123456789012"] {
        assert!(!template.contains(fixed), "{fixed}");
    }
}

#[test]
fn optional_statements_stand_in_the_last_policy_under_their_condition() {
    let resources = resources::resources(&documents());
    let document = &resources["IntegrationPolicy"]["Properties"]["PolicyDocument"]["Fn::Sub"];
    assert!(document[0].as_str().unwrap().contains("}${ZonalShiftStatement}${QueueKeyStatement}\n  ]"));
    assert_eq!(document[1]["ZonalShiftStatement"]["Fn::If"][0], "ZonalShift");
    assert_eq!(document[1]["QueueKeyStatement"]["Fn::If"][0], "HasQueueKmsKeyArn");
}

/// A role made elsewhere takes them on.
#[test]
fn every_policy_of_the_controller_is_an_output_under_its_own_condition() {
    let documents = documents();
    let (resources, outputs) = (resources::resources(&documents), outputs::outputs(&documents));
    let is_policy = |resource: &serde_json::Value| resource["Type"] == "AWS::IAM::ManagedPolicy";
    let resources = resources.as_object().unwrap().iter();
    let policies: Vec<_> = resources.filter(|(_, resource)| is_policy(resource)).collect();
    assert_eq!(policies.len(), documents.policies.len());
    for (id, policy) in policies {
        let output = &outputs[format!("{id}Arn")];
        assert_eq!(output["Value"], json!({ "Ref": id }));
        assert_eq!(output["Condition"], policy["Condition"]);
    }
}

#[test]
fn an_ordinary_cluster_needs_its_name_only() {
    assert_eq!(parameters(&settings()), [("ClusterName", "prod".to_owned())]);
}

#[test]
fn the_longest_cluster_name_comes_with_every_name_that_would_not_fit() {
    let parameters = parameters(&settings_for_cluster(&"c".repeat(100)));
    let names: Vec<_> = parameters.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "ClusterName",
            "NodeRoleName",
            "WindowsNodeRoleName",
            "ControllerRoleName",
            "InstanceProfileName",
            "QueueName",
            "RulePrefix"
        ]
    );
}

#[test]
fn parameters_say_what_the_settings_say() {
    let mut settings = settings();
    settings.identity = Identity::Irsa { issuer: "oidc.example/id/A".to_owned() };
    settings.existing_node_role = Some("arn:aws:iam::123456789012:role/team/nodes".to_owned());
    settings.extra_node_roles = vec![ExtraNodeRole {
        arn: "arn:aws:iam::123456789012:role/gpu".to_owned(),
        platform: Platform::Linux,
    }];
    settings.zonal_shift = true;
    settings.access_entry = false;
    let text: Vec<_> =
        parameters(&settings).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        text,
        [
            "ClusterName=prod",
            "ControllerIdentity=IRSA",
            "OidcIssuer=oidc.example/id/A",
            "NodeRoleName=nodes",
            "ExistingNodeRoleArn=arn:aws:iam::123456789012:role/team/nodes",
            "ExtraNodeRoleArns=arn:aws:iam::123456789012:role/gpu",
            "AccessEntry=false",
            "ZonalShift=true",
        ]
    );
}
