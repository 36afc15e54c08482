//! An IAM policy document as a value that can be measured and written.
//!
//! AWS counts only non-space characters against its limits, and accepts a string where it accepts a list of one: the
//! written form is the shortest. Documents of the account are read by [`Found`](super::Found).

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
    /// Principal of the statement; only in trust and resource policies.
    pub principal: Option<Principal>,
    /// API actions such as `ec2:CreateFleet`.
    pub actions: Vec<String>,
    /// ARNs; empty in trust policies.
    pub resources: Vec<String>,
    /// Condition operator, then key, then values.
    pub conditions: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// Effect of a statement on what it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Permits.
    Allow,
    /// Refuses, whatever else permits.
    Deny,
}

/// Principal of a trust or resource policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Principal {
    /// Any caller: `"*"`.
    Everybody,
    /// AWS services, accounts or federated providers: kind (`Service`, `AWS`, `Federated`) and names.
    Of(String, Vec<String>),
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

    /// Returns the size that AWS counts against a policy's limit: the characters that are not white space.
    pub(crate) fn measured_size(&self) -> usize {
        self.to_json().chars().filter(|character| !character.is_whitespace()).count()
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

    /// Returns the statement for a principal.
    #[must_use]
    pub(crate) fn for_principal(mut self, kind: &str, names: &[&str]) -> Self {
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        self.principal = Some(Principal::Of(kind.to_owned(), names));
        self
    }

    /// Returns the statement under one more condition.
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
}

fn one_or_many(values: &[String]) -> Value {
    match values {
        [single] => json!(single),
        many => json!(many),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_form_is_the_shortest() {
        let statement = Statement::allow("A", &["sqs:GetQueueUrl"], vec!["arn".to_owned()]);
        assert_eq!(
            Document::of(vec![statement]).to_json(),
            r#"{"Version":"2012-10-17","Statement":[{"Sid":"A","Effect":"Allow","Action":"sqs:GetQueueUrl","Resource":"arn"}]}"#
        );
    }
}
