//! CloudFormation's functions, and the values that need more than one of them.

use serde_json::{Map, Value, json};

use super::SYMBOLS;
use crate::policy::{Document, Statement};
use crate::render::Documents;

/// `{ Ref: name }`
pub(super) fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

/// `{ Fn::GetAtt: [resource, attribute] }`
pub(super) fn attribute(resource: &str, attribute: &str) -> Value {
    json!({ "Fn::GetAtt": [resource, attribute] })
}

/// `{ Fn::If: [condition, then, otherwise] }`
pub(super) fn either(condition: &str, then: Value, otherwise: Value) -> Value {
    json!({ "Fn::If": [condition, then, otherwise] })
}

/// `value` when `condition` holds, else nothing at all.
pub(super) fn only_if(condition: &str, value: Value) -> Value {
    either(condition, value, reference("AWS::NoValue"))
}

/// The text of a parameter, or a default when it is empty. Every such parameter `X` has a condition `HasX`.
pub(super) fn named(parameter: &str, default: &str) -> Value {
    either(&format!("Has{parameter}"), reference(parameter), substituted(default))
}

/// The name of the node role, of this stack or not.
pub(super) fn node_role_name() -> Value {
    named("NodeRoleName", "KarpenterNodeRole-${ClusterName}")
}

/// The ARN of the node role, of this stack or not.
pub(super) fn node_role_arn() -> Value {
    either("MakeNodeRole", attribute("NodeRole", "Arn"), reference("ExistingNodeRoleArn"))
}

/// The name of the interruption queue.
pub(super) fn queue_name() -> Value {
    named("QueueName", "${ClusterName}")
}

/// Returns the prefix of the rules' names.
pub(super) fn rule_prefix() -> Value {
    named("RulePrefix", "Karpenter-${ClusterName}")
}

/// Returns the principal of EC2, which is not always under `AWS::URLSuffix`
/// ([`Partition::ec2_principal`](karpenter_aws_api::Partition::ec2_principal)).
fn ec2_principal() -> Value {
    either("EuSovereign", json!("ec2.amazonaws.com"), substituted("ec2.${AWS::URLSuffix}"))
}

/// `text` with its placeholders filled in; plain when it has none.
pub(super) fn substituted(text: &str) -> Value {
    if !text.contains("${") {
        return json!(text);
    }
    if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && !name.contains('$')
    {
        let value = computed().into_iter().find(|(computed, _)| *computed == name);
        return value.map_or_else(|| reference(name), |(_, value)| value());
    }
    let mut values = Map::new();
    for (name, value) in computed() {
        if text.contains(&format!("${{{name}}}")) {
            values.insert(name.to_owned(), value());
        }
    }
    if values.is_empty() { json!({ "Fn::Sub": text }) } else { json!({ "Fn::Sub": [text, values] }) }
}

/// A placeholder and what stands for it.
type Computed = (&'static str, fn() -> Value);

/// Placeholders that are neither parameters nor pseudo parameters.
fn computed() -> [Computed; 6] {
    [
        (SYMBOLS.ec2_principal, ec2_principal),
        (SYMBOLS.node_role_arn, node_role_arn),
        (SYMBOLS.queue_name, queue_name),
        (SYMBOLS.rule_prefix, rule_prefix),
        (SYMBOLS.more_node_roles, || {
            let windows =
                json!({ "Fn::Sub": ["\"${Arn}\",", { "Arn": attribute("WindowsNodeRole", "Arn") }] });
            let windows = either("WindowsNodes", windows, json!(""));
            let extra = either("HasExtraNodeRoleArns", elements("ExtraNodeRoleArns"), json!(""));
            let extra_windows = "ExtraWindowsNodeRoleArns";
            let extra_windows = either("HasExtraWindowsNodeRoleArns", elements(extra_windows), json!(""));
            json!({ "Fn::Join": ["", [windows, extra, extra_windows]] })
        }),
        (SYMBOLS.more_parameters, || {
            either("HasExtraSsmParameterArns", elements("ExtraSsmParameterArns"), json!(""))
        }),
    ]
}

/// Returns element `index` below `count` of a list parameter; empty beyond its end, where `Fn::Select` alone fails.
pub(super) fn element(parameter: &str, index: usize, count: usize) -> Value {
    let list = json!({ "Fn::Join": [",", reference(parameter)] });
    let padded = json!({ "Fn::Join": ["", [list, ",".repeat(count)]] });
    json!({ "Fn::Select": [index, { "Fn::Split": [",", padded] }] })
}

/// The elements of a list parameter as JSON strings, each followed by a comma.
fn elements(parameter: &str) -> Value {
    json!({ "Fn::Sub": ["\"${Arns}\",", { "Arns": { "Fn::Join": ["\",\"", reference(parameter)] } }] })
}

/// A document as JSON text, with placeholders in keys as well as in values.
pub(super) fn text(document: &Document) -> Value {
    substituted(&pretty(document))
}

/// The last of the controller's policies as JSON text, with its conditional statements.
pub(super) fn text_with_options(document: &Document, documents: &Documents) -> Value {
    let text = pretty(document);
    let end = text.rfind("\n  ]").expect("invariant: a document ends with its list of statements");
    let text = format!("{}${{ZonalShiftStatement}}${{QueueKeyStatement}}{}", &text[..end], &text[end..]);
    let mut value = substituted(&text);
    let option = |condition, statement: &Statement| {
        let json = Document::of(vec![statement.clone()]).to_value()["Statement"][0].to_string();
        either(condition, substituted(&format!(",{json}")), json!(""))
    };
    value["Fn::Sub"][1]["ZonalShiftStatement"] = option("ZonalShift", &documents.zonal_shift);
    value["Fn::Sub"][1]["QueueKeyStatement"] = option("HasQueueKmsKeyArn", &documents.queue_key);
    value
}

/// A document as an object, with placeholders in its values only.
pub(super) fn object(document: &Document) -> Value {
    fn fill(value: &Value) -> Value {
        match value {
            Value::String(text) => substituted(text),
            Value::Array(elements) => elements.iter().map(fill).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), fill(value))).collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }
    fill(&document.to_value())
}

fn pretty(document: &Document) -> String {
    let text = serde_json::to_string_pretty(&document.to_value());
    SYMBOLS.spliced(&text.expect("invariant: strings and lists always serialise"))
}
