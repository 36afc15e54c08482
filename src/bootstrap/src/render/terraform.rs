//! Input of the Terraform module: documents as templates for `templatefile`, and a file of facts.
//!
//! The module's own code holds resources and variables only; every document, rule and AWS-managed policy is from
//! here, so that the module cannot fall behind `bootstrap apply`.

use serde_json::{Value, json};

use super::{Documents, Symbols, node_policies};
use crate::desired::{Purpose, RULE_TARGET_ID};
use crate::policy::{Document, Statement};

/// Folder of the committed files.
pub const FOLDER: &str = "terraform/generated";

/// Names of the variables that the module hands to `templatefile`.
const SYMBOLS: Symbols = Symbols {
    cluster: "cluster_name",
    region: "region",
    account: "account_id",
    partition: "partition",
    ec2_principal: "ec2_principal",
    iam_path: "iam_path",
    namespace: "namespace",
    service_account: "service_account",
    oidc_issuer: "oidc_issuer",
    node_role_arn: "node_role_arn",
    queue_name: "queue_name",
    queue_key: "queue_kms_key_arn",
    rule_prefix: "rule_prefix",
    more_node_roles: "more_node_role_arns",
    more_parameters: "more_ssm_parameter_arns",
};

/// The files by name, in order.
pub fn files() -> Vec<(String, String)> {
    let documents = SYMBOLS.documents();
    let mut files: Vec<(String, String)> = documents
        .policies
        .iter()
        .map(|(prefix, document)| (template_name(prefix), document_text(document)))
        .collect();
    for (name, document) in [
        ("node-trust", &documents.node_trust),
        ("pod-identity-trust", &documents.pod_identity_trust),
        ("pod-identity-session-trust", &documents.session_trust),
        ("irsa-trust", &documents.irsa_trust),
        ("queue-policy", &documents.rest.queue.policy),
    ] {
        files.push((format!("{name}.json.tftpl"), document_text(document)));
    }
    for (name, statement) in
        [("statement-zonal-shift", &documents.zonal_shift), ("statement-queue-key", &documents.queue_key)]
    {
        files.push((format!("{name}.json.tftpl"), statement_text(statement)));
    }
    files.push(("facts.json".to_owned(), text(&facts(&documents))));
    files.sort();
    files
}

/// Everything that is the same for every cluster.
fn facts(documents: &Documents) -> Value {
    let settings = SYMBOLS.settings();
    let prefix = settings.rule_prefix();
    let rules = documents.rest.rules.iter().map(|rule| {
        json!({
            "suffix": rule.name.strip_prefix(&prefix).unwrap_or(&rule.name),
            "description": rule.description,
            "pattern": rule.pattern,
        })
    });
    let policies = documents.policies.iter();
    let policies = policies.map(|(prefix, _)| json!({ "prefix": prefix, "template": template_name(prefix) }));
    json!({
        "controller_policies": policies.collect::<Value>(),
        "node_policies": node_policies(&settings),
        "queue_attributes": documents.rest.queue.attributes,
        "rules": rules.collect::<Value>(),
        "rule_target_id": RULE_TARGET_ID,
        "descriptions": {
            "policy": crate::desired::POLICY_DESCRIPTION,
            "node_role": Purpose::Nodes.description(),
            "windows_node_role": Purpose::WindowsNodes.description(),
            "controller_role": Purpose::Controller.description(),
        },
    })
}

/// `KarpenterNodeLifecycle-` becomes `node-lifecycle.json.tftpl`.
fn template_name(prefix: &str) -> String {
    let name = prefix.trim_start_matches("Karpenter").trim_end_matches('-');
    let mut words = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !words.is_empty() {
            words.push('-');
        }
        words.push(character.to_ascii_lowercase());
    }
    format!("{words}.json.tftpl")
}

fn document_text(document: &Document) -> String {
    SYMBOLS.spliced(&text(&document.to_value()))
}

fn statement_text(statement: &Statement) -> String {
    let document = Document::of(vec![statement.clone()]).to_value();
    text(&document["Statement"][0])
}

fn text(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value);
    format!("{}\n", text.expect("invariant: strings and lists always serialise"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Found;
    use crate::settings::{PodIdentityTrust, Settings};

    #[test]
    fn files_have_names_for_reading() {
        let names: Vec<_> = files().into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "facts.json",
                "integration.json.tftpl",
                "irsa-trust.json.tftpl",
                "node-lifecycle.json.tftpl",
                "node-trust.json.tftpl",
                "pod-identity-session-trust.json.tftpl",
                "pod-identity-trust.json.tftpl",
                "queue-policy.json.tftpl",
                "statement-queue-key.json.tftpl",
                "statement-zonal-shift.json.tftpl",
            ]
        );
    }

    #[test]
    fn the_facts_hold_no_placeholder() {
        let facts = facts(&SYMBOLS.documents()).to_string();
        assert!(!facts.contains("${"), "{facts}");
    }

    #[test]
    fn templates_filled_in_are_the_documents_of_a_cluster() {
        let settings = crate::settings::tests::settings();
        let values = [
            ("cluster_name", settings.cluster.as_str()),
            ("region", "eu-west-1"),
            ("account_id", "123456789012"),
            ("partition", "aws"),
            ("ec2_principal", "ec2.amazonaws.com"),
            ("namespace", "kube-system"),
            ("service_account", "karpenter"),
            ("node_role_arn", "arn:aws:iam::123456789012:role/KarpenterNodeRole-prod"),
            ("queue_name", "prod"),
            ("rule_prefix", "Karpenter-prod"),
            ("more_node_role_arns", ""),
            ("more_ssm_parameter_arns", ""),
        ];
        let files: std::collections::BTreeMap<_, _> = files().into_iter().collect();
        let filled = |name: &str| {
            values
                .iter()
                .fold(files[name].clone(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
        };
        let on_resource = |name: &str| Found::on_resource(&filled(name)).unwrap();
        let desired = crate::desired::desired(&settings);
        for policy in &desired.policies {
            let prefix = policy.name.strip_suffix("prod").unwrap();
            assert!(
                Found::on_identity(&filled(&template_name(prefix))).unwrap().says(&policy.document),
                "{prefix}"
            );
        }
        assert!(on_resource("node-trust.json.tftpl").says(&desired.roles[0].trust));
        assert!(on_resource("pod-identity-trust.json.tftpl").says(&desired.roles[1].trust));
        assert!(on_resource("queue-policy.json.tftpl").says(&desired.queue.policy));
        let session = Settings { pod_identity_trust: PodIdentityTrust::SessionTags, ..settings.clone() };
        let session = crate::desired::desired(&session);
        assert!(on_resource("pod-identity-session-trust.json.tftpl").says(&session.roles[1].trust));
    }
}
