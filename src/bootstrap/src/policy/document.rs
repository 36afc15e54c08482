//! An IAM policy document as a value that can be compared, measured and written.
//!
//! AWS accepts a string where it accepts a list of one, returns documents in its own order and encoding, and
//! counts only non-space characters against its limits. [`Document::parse`] and [`Document::to_json`] hide
//! all that: two documents that mean the same are equal, and the written form is the shortest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A policy document of version `2012-10-17`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The optional `Id`, used by queue policies.
    pub id: Option<String>,
    /// The statements, in written order.
    pub statements: Vec<Statement>,
}

/// One statement. Lists are kept sorted so that equality does not depend on order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// The statement's name, unique in its document.
    pub sid: String,
    /// Allow or deny.
    pub effect: Effect,
    /// Who is meant; only in trust and resource policies.
    pub principal: Option<Principal>,
    /// API actions such as `ec2:CreateFleet`.
    pub actions: Vec<String>,
    /// ARNs; empty in trust policies.
    pub resources: Vec<String>,
    /// Condition operator, then key, then values.
    pub conditions: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// What a statement does with what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Permits.
    Allow,
    /// Refuses, whatever else permits.
    Deny,
}

/// Who a trust or resource policy speaks of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// Everybody: `"*"`.
    Everybody,
    /// AWS services, accounts or federated providers: kind (`Service`, `AWS`, `Federated`) and names.
    Of(String, Vec<String>),
}

/// Why a policy text from an account cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is not JSON.
    #[error("the policy document is not JSON")]
    Json(#[source] serde_json::Error),
    /// A field does not have the shape IAM documents.
    #[error("the policy document has no usable field `{0}`")]
    Field(&'static str),
}

impl Document {
    /// A document without id.
    pub fn of(statements: Vec<Statement>) -> Self {
        Self { id: None, statements }
    }

    /// The shortest JSON text: no spaces, and a plain string for every list of one.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    /// The document as a JSON value, fields in IAM's customary order.
    pub fn to_value(&self) -> Value {
        let mut root = Map::new();
        root.insert("Version".to_owned(), json!("2012-10-17"));
        if let Some(id) = &self.id {
            root.insert("Id".to_owned(), json!(id));
        }
        root.insert("Statement".to_owned(), self.statements.iter().map(Statement::to_value).collect());
        Value::Object(root)
    }

    /// What AWS counts against a policy's size limit: the characters that are not white space.
    pub fn measured_size(&self) -> usize {
        self.to_json().chars().filter(|character| !character.is_whitespace()).count()
    }

    /// Reads a document as AWS returns it. Statements are put in order of their sid.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let root: Value = serde_json::from_str(text).map_err(ParseError::Json)?;
        let statements = match root.get("Statement") {
            Some(Value::Array(list)) => list.iter().map(Statement::parse).collect::<Result<_, _>>()?,
            Some(single @ Value::Object(_)) => vec![Statement::parse(single)?],
            _ => return Err(ParseError::Field("Statement")),
        };
        let id = root.get("Id").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { id, statements })
    }

    /// Whether two documents mean the same: same statements, whatever their order.
    pub fn equivalent(&self, other: &Self) -> bool {
        let sorted = |document: &Self| {
            let mut statements = document.statements.clone();
            statements.sort();
            statements
        };
        sorted(self) == sorted(other)
    }
}

impl Statement {
    /// An allowing statement without conditions.
    pub fn allow(sid: &str, actions: &[&str], resources: Vec<String>) -> Self {
        let mut statement = Self {
            sid: sid.to_owned(),
            effect: Effect::Allow,
            principal: None,
            actions: actions.iter().map(|action| (*action).to_owned()).collect(),
            resources,
            conditions: BTreeMap::new(),
        };
        statement.actions.sort();
        statement.resources.sort();
        statement
    }

    /// The same statement for a principal.
    #[must_use]
    pub fn for_principal(mut self, kind: &str, names: &[&str]) -> Self {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        self.principal = Some(Principal::Of(kind.to_owned(), names));
        self
    }

    /// The same statement under one more condition.
    #[must_use]
    pub fn when<V: Into<String>>(
        mut self,
        operator: &str,
        key: &str,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        values.sort();
        self.conditions.entry(operator.to_owned()).or_default().insert(key.to_owned(), values);
        self
    }

    fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("Sid".to_owned(), json!(self.sid));
        object.insert("Effect".to_owned(), json!(self.effect.as_str()));
        if let Some(principal) = &self.principal {
            object.insert("Principal".to_owned(), principal.to_value());
        }
        object.insert("Action".to_owned(), one_or_many(&self.actions));
        if !self.resources.is_empty() {
            object.insert("Resource".to_owned(), one_or_many(&self.resources));
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(|(operator, keys)| {
                let keys = keys.iter().map(|(key, values)| (key.clone(), one_or_many(values)));
                (operator.clone(), Value::Object(keys.collect()))
            });
            object.insert("Condition".to_owned(), Value::Object(conditions.collect()));
        }
        Value::Object(object)
    }

    fn parse(value: &Value) -> Result<Self, ParseError> {
        let effect = match value.get("Effect").and_then(Value::as_str) {
            Some("Allow") => Effect::Allow,
            Some("Deny") => Effect::Deny,
            _ => return Err(ParseError::Field("Effect")),
        };
        let mut conditions = BTreeMap::new();
        if let Some(operators) = value.get("Condition") {
            for (operator, keys) in operators.as_object().ok_or(ParseError::Field("Condition"))? {
                let keys = keys.as_object().ok_or(ParseError::Field("Condition"))?;
                let keys = keys.iter().map(|(key, values)| (key.clone(), many(values)));
                conditions.insert(operator.clone(), keys.collect());
            }
        }
        Ok(Self {
            sid: value.get("Sid").and_then(Value::as_str).unwrap_or_default().to_owned(),
            effect,
            principal: value.get("Principal").map(Principal::parse).transpose()?,
            actions: value.get("Action").map(many).ok_or(ParseError::Field("Action"))?,
            resources: value.get("Resource").map(many).unwrap_or_default(),
            conditions,
        })
    }
}

impl Effect {
    fn as_str(self) -> &'static str {
        match self {
            Effect::Allow => "Allow",
            Effect::Deny => "Deny",
        }
    }
}

impl Principal {
    fn to_value(&self) -> Value {
        match self {
            Principal::Everybody => json!("*"),
            Principal::Of(kind, names) => json!({ kind.as_str(): one_or_many(names) }),
        }
    }

    fn parse(value: &Value) -> Result<Self, ParseError> {
        if value.as_str() == Some("*") {
            return Ok(Principal::Everybody);
        }
        let kinds = value.as_object().ok_or(ParseError::Field("Principal"))?;
        let (kind, names) = kinds.iter().next().ok_or(ParseError::Field("Principal"))?;
        Ok(Principal::Of(kind.clone(), many(names)))
    }
}

fn one_or_many(values: &[String]) -> Value {
    match values {
        [single] => json!(single),
        many => json!(many),
    }
}

/// A string or a list of strings, sorted. Booleans and numbers appear in conditions and become their text.
fn many(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut values = match value {
        Value::Array(list) => list.iter().map(text).collect(),
        single => vec![text(single)],
    };
    values.sort();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Document {
        Document::of(vec![
            Statement::allow("Read", &["ec2:DescribeInstances"], vec!["*".to_owned()]).when(
                "StringEquals",
                "aws:RequestedRegion",
                ["eu-west-1"],
            ),
            Statement::allow("Trust", &["sts:AssumeRole", "sts:TagSession"], vec![])
                .for_principal("Service", &["pods.eks.amazonaws.com"]),
        ])
    }

    #[test]
    fn writing_and_parsing_is_identity() {
        assert_eq!(Document::parse(&sample().to_json()).unwrap(), sample());
    }

    #[test]
    fn the_written_form_is_the_shortest() {
        let statement = Statement::allow("A", &["sqs:GetQueueUrl"], vec!["arn".to_owned()]);
        assert_eq!(
            Document::of(vec![statement]).to_json(),
            r#"{"Version":"2012-10-17","Statement":[{"Sid":"A","Effect":"Allow","Action":"sqs:GetQueueUrl","Resource":"arn"}]}"#
        );
    }

    #[test]
    fn a_list_of_one_and_a_plain_string_are_the_same_and_order_does_not_matter() {
        let long = r#"{"Version":"2012-10-17","Statement":[
            {"Sid":"Trust","Effect":"Allow","Principal":{"Service":["pods.eks.amazonaws.com"]},
             "Action":["sts:TagSession","sts:AssumeRole"]},
            {"Sid":"Read","Effect":"Allow","Action":["ec2:DescribeInstances"],"Resource":["*"],
             "Condition":{"StringEquals":{"aws:RequestedRegion":["eu-west-1"]}}}]}"#;
        let parsed = Document::parse(long).unwrap();
        assert!(parsed.equivalent(&sample()));
        assert_ne!(parsed, sample());
    }

    #[test]
    fn an_unusable_document_names_the_field() {
        let error = Document::parse(r#"{"Statement":[{"Sid":"A","Effect":"Maybe"}]}"#).unwrap_err();
        assert_eq!(error.to_string(), "the policy document has no usable field `Effect`");
    }
}
