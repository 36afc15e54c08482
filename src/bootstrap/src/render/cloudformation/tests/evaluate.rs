//! A template with its parameters worked out as CloudFormation would, as far as ours needs it: what the tests compare
//! with the desired value. An emulator does the same, independently written, in the end-to-end suite.

use std::collections::BTreeMap;

use karpenter_aws_api::Partition;
use serde_json::{Map, Value, json};

use crate::settings::Settings;

/// The template for one cluster.
pub(super) struct Evaluated {
    template: Value,
    parameters: BTreeMap<String, Value>,
}

impl Evaluated {
    /// `template` with the parameters that differ from their defaults.
    pub(super) fn new(template: Value, given: &[(&str, String)], settings: &Settings) -> Self {
        let mut parameters = BTreeMap::new();
        for (name, declared) in template["Parameters"].as_object().unwrap() {
            let given = given.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
            let default =
                || declared["Default"].as_str().unwrap_or_else(|| panic!("{name} must have a value"));
            let text = given.unwrap_or_else(|| default().to_owned());
            if let Some(longest) = declared["MaxLength"].as_u64() {
                assert!(text.len() as u64 <= longest, "{name} has {} characters", text.len());
            }
            let list = declared["Type"] == "CommaDelimitedList";
            let value = if list { text.split(',').collect() } else { json!(text) };
            parameters.insert(name.clone(), value);
        }
        for (name, value) in [
            ("AWS::Region", settings.region.as_str()),
            ("AWS::AccountId", settings.account.as_str()),
            ("AWS::Partition", settings.partition.as_str()),
            ("AWS::URLSuffix", Partition::of_region(&settings.region).dns_suffix()),
        ] {
            parameters.insert(name.to_owned(), json!(value));
        }
        Self { template, parameters }
    }

    /// The properties of every resource of a type whose condition holds, by logical id.
    pub(super) fn resources(&self, kind: &str) -> BTreeMap<String, Value> {
        let all = self.template["Resources"].as_object().unwrap().iter();
        let wanted = all.filter(|(_, resource)| resource["Type"] == kind && self.made(resource));
        wanted.map(|(name, resource)| (name.clone(), self.value(&resource["Properties"]))).collect()
    }

    fn made(&self, resource: &Value) -> bool {
        resource["Condition"].as_str().is_none_or(|name| self.condition(name))
    }

    fn condition(&self, name: &str) -> bool {
        self.holds(&self.template["Conditions"][name])
    }

    fn holds(&self, condition: &Value) -> bool {
        let (function, argument) = condition.as_object().unwrap().iter().next().unwrap();
        let parts = || argument.as_array().unwrap().iter();
        match function.as_str() {
            "Condition" => self.condition(argument.as_str().unwrap()),
            "Fn::Equals" => self.value(&argument[0]) == self.value(&argument[1]),
            "Fn::Not" => !self.holds(&argument[0]),
            "Fn::And" => parts().all(|part| self.holds(part)),
            "Fn::Or" => parts().any(|part| self.holds(part)),
            other => panic!("condition {other}"),
        }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::Array(elements) => elements.iter().map(|element| self.value(element)).collect(),
            Value::Object(fields) => match fields.iter().next() {
                Some((name, argument)) if name == "Ref" || name.starts_with("Fn::") => {
                    self.call(name, argument)
                }
                _ => {
                    let fields = fields.iter().map(|(name, value)| (name.clone(), self.value(value)));
                    // `AWS::NoValue` leaves the property out.
                    fields.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
                }
            },
            other => other.clone(),
        }
    }

    fn call(&self, function: &str, argument: &Value) -> Value {
        let text = |value: &Value| self.value(value).as_str().unwrap().to_owned();
        match function {
            "Ref" => self.reference(argument.as_str().unwrap()),
            "Fn::GetAtt" => self.attribute(argument[0].as_str().unwrap(), argument[1].as_str().unwrap()),
            "Fn::If" => {
                let holds = self.condition(argument[0].as_str().unwrap());
                self.value(&argument[if holds { 1 } else { 2 }])
            }
            "Fn::Join" => {
                let list = self.value(&argument[1]);
                let parts: Vec<_> =
                    list.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
                json!(parts.join(argument[0].as_str().unwrap()))
            }
            "Fn::Split" => text(&argument[1]).split(argument[0].as_str().unwrap()).collect(),
            "Fn::Select" => {
                let index = usize::try_from(argument[0].as_u64().unwrap()).unwrap();
                let list = self.value(&argument[1]);
                list.get(index).unwrap_or_else(|| panic!("no element {index} in {list}")).clone()
            }
            "Fn::Sub" => match argument {
                Value::String(template) => self.substituted(template, &json!({})),
                _ => self.substituted(argument[0].as_str().unwrap(), &argument[1]),
            },
            other => panic!("function {other}"),
        }
    }

    fn substituted(&self, template: &str, values: &Value) -> Value {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').unwrap();
            let value = values.get(name).map_or_else(|| self.reference(name), |value| self.value(value));
            out.push_str(before);
            out.push_str(value.as_str().unwrap_or_else(|| panic!("{name} is {value}")));
            rest = after;
        }
        json!(out + rest)
    }

    fn reference(&self, name: &str) -> Value {
        if name == "AWS::NoValue" {
            return Value::Null;
        }
        if let Some(value) = self.parameters.get(name) {
            return value.clone();
        }
        let resource = &self.template["Resources"][name];
        match resource["Type"].as_str().unwrap_or_else(|| panic!("nothing is called {name}")) {
            "AWS::IAM::ManagedPolicy" => self.iam_arn(name, "policy", "ManagedPolicyName"),
            "AWS::IAM::Role" => self.value(&resource["Properties"]["RoleName"]),
            "AWS::IAM::InstanceProfile" => self.value(&resource["Properties"]["InstanceProfileName"]),
            "AWS::SQS::Queue" => json!("https://queue"),
            other => panic!("a reference to a {other}"),
        }
    }

    fn attribute(&self, name: &str, attribute: &str) -> Value {
        assert_eq!(attribute, "Arn");
        let resource = &self.template["Resources"][name];
        assert!(self.made(resource), "{name} is not made, but its ARN is asked for");
        match resource["Type"].as_str().unwrap() {
            "AWS::IAM::Role" => self.iam_arn(name, "role", "RoleName"),
            "AWS::SQS::Queue" => self.substituted(
                "arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:${Name}",
                &json!({ "Name": resource["Properties"]["QueueName"] }),
            ),
            other => panic!("the ARN of a {other}"),
        }
    }

    fn iam_arn(&self, name: &str, kind: &str, property: &str) -> Value {
        let properties = &self.template["Resources"][name]["Properties"];
        let values = json!({ "Kind": kind, "Path": properties["Path"], "Name": properties[property] });
        self.substituted("arn:${AWS::Partition}:iam::${AWS::AccountId}:${Kind}${Path}${Name}", &values)
    }
}
