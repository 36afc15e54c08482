//! A policy document of the account: its meaning, and the comparison with the desired one.
//!
//! AWS accepts a string where it accepts a list of one and returns documents in its own order. Nothing of what a
//! document holds is left out of the comparison, known here or not.

use karpenter_iam::{Error, Policy};
use serde_json::Value;

use super::Document;

/// A document that was read from the account.
#[derive(Clone, Debug)]
pub struct Found {
    /// Parsed policy.
    pub policy: Policy,
    statements: Vec<Value>,
}

impl Found {
    /// A policy of a role.
    pub(crate) fn on_identity(text: &str) -> Result<Self, Error> {
        Ok(Self { policy: Policy::found_on_identity(text)?, statements: statements(text)? })
    }

    /// A trust document, or the policy of a queue.
    pub(crate) fn on_resource(text: &str) -> Result<Self, Error> {
        Ok(Self { policy: Policy::found_on_resource(text)?, statements: statements(text)? })
    }

    /// Returns whether it has the statements of `wanted`, in whatever order, and no others.
    pub fn says(&self, wanted: &Document) -> bool {
        let wanted = normal_statements(wanted.to_value());
        let has = |these: &[Value], those: &[Value]| those.iter().all(|one| these.contains(one));
        self.statements.len() == wanted.len()
            && has(&self.statements, &wanted)
            && has(&wanted, &self.statements)
    }
}

fn statements(text: &str) -> Result<Vec<Value>, Error> {
    serde_json::from_str(text).map(normal_statements).map_err(Error::Json)
}

fn normal_statements(mut document: Value) -> Vec<Value> {
    match document["Statement"].take() {
        Value::Array(list) => list.into_iter().map(normal).collect(),
        single => vec![normal(single)],
    }
}

/// Lists in order, and as their only member if they have one. Booleans and numbers, which conditions may hold, as text.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, normal(value))).collect(),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.into_iter().map(normal).collect();
            list.sort_by_cached_key(Value::to_string);
            match <[Value; 1]>::try_from(list) {
                Ok([single]) => single,
                Err(list) => Value::Array(list),
            }
        }
        Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        Value::String(_) | Value::Null => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Statement;

    fn wanted() -> Document {
        Document::of(vec![
            Statement::allow("Read", &["ec2:DescribeInstances"], vec!["*".to_owned()]).when(
                "Bool",
                "aws:SecureTransport",
                ["true"],
            ),
            Statement::allow("Use", &["sqs:GetQueueUrl", "sqs:ReceiveMessage"], vec!["*".to_owned()]),
        ])
    }

    #[test]
    fn what_is_written_says_what_is_wanted() {
        assert!(Found::on_identity(&wanted().to_json()).unwrap().says(&wanted()));
    }

    #[test]
    fn list_of_one_is_a_string_and_order_does_not_matter() {
        let long = r#"{"Version":"2012-10-17","Statement":[
            {"Sid":"Use","Effect":"Allow","Resource":"*","Action":["sqs:ReceiveMessage","sqs:GetQueueUrl"]},
            {"Sid":"Read","Effect":"Allow","Action":["ec2:DescribeInstances"],"Resource":["*"],
             "Condition":{"Bool":{"aws:SecureTransport":[true]}}}]}"#;
        assert!(Found::on_identity(long).unwrap().says(&wanted()));
    }

    #[test]
    fn each_difference_counts() {
        let text = wanted().to_json();
        for (from, to) in [
            (r#""Action":"ec2:DescribeInstances""#, r#""NotAction":"ec2:DescribeInstances""#),
            (r#""Resource":"*""#, r#""NotResource":"*""#),
            (r#""sqs:GetQueueUrl","#, ""),
            (r#""aws:SecureTransport":"true""#, r#""aws:SecureTransport":"false""#),
            (r#""Statement":["#, r#""Statement":[{"Effect":"Deny","Action":"*","Resource":"*"},"#),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            assert!(!Found::on_identity(&changed).unwrap().says(&wanted()), "{changed}");
        }
    }

    #[test]
    fn unusable_document_names_the_field() {
        let error = Found::on_identity(r#"{"Statement":[{"Sid":"A","Effect":"Maybe"}]}"#).unwrap_err();
        assert_eq!(error.to_string(), "statement `A`: `Effect` is missing or malformed");
    }
}
