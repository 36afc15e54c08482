//! Policy documents, read strictly: what this crate would not evaluate, it refuses.

use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::error::Error;
use crate::pattern::{is_arn_pattern, matches, matches_arn};
use crate::request::{Principal, Request};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Allow,
    Deny,
}

/// `Action` or `NotAction`, `Resource` or `NotResource`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Only(Vec<String>),
    AllBut(Vec<String>),
}

impl Which {
    fn takes(&self, fits: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Only(patterns) => patterns.iter().any(|pattern| fits(pattern)),
            Self::AllBut(patterns) => !patterns.iter().any(|pattern| fits(pattern)),
        }
    }

    fn patterns(&self) -> &[String] {
        match self {
            Self::Only(patterns) | Self::AllBut(patterns) => patterns,
        }
    }
}

/// Whom a statement of a resource's document is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    Everybody,
    These(Vec<Principal>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) sid: String,
    pub(crate) effect: Effect,
    whom: Option<Whom>,
    actions: Which,
    /// `None` in trust documents, which are about the role they belong to.
    resources: Option<Which>,
    pub(crate) conditions: Vec<Condition>,
}

/// A policy document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) statements: Vec<Statement>,
}

impl Policy {
    /// Reads a policy of an identity, or a permissions boundary: no statement names a principal.
    pub fn of_identity(text: &str) -> Result<Self, Error> {
        Self::parse(text, false)
    }

    /// Reads a policy of a resource, or a trust document: every statement names principals.
    pub fn of_resource(text: &str) -> Result<Self, Error> {
        Self::parse(text, true)
    }

    fn parse(text: &str, of_resource: bool) -> Result<Self, Error> {
        let root: Value = serde_json::from_str(text).map_err(Error::Json)?;
        let root = root.as_object().ok_or_else(|| malformed("", "Version"))?;
        only_fields("", root, &["Version", "Id", "Statement"])?;
        if root.get("Version").and_then(Value::as_str) != Some("2012-10-17") {
            return Err(malformed("", "Version"));
        }
        let statements = match root.get("Statement") {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(single @ Value::Object(_)) => vec![single],
            _ => return Err(malformed("", "Statement")),
        };
        let read = |(at, value)| Statement::parse(at, value, of_resource);
        Ok(Self { statements: statements.into_iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    /// What it grants: every statement's name with each of its actions, and with each of its resources, as written.
    pub fn grants(&self) -> impl Iterator<Item = (&str, &str)> {
        self.statements.iter().filter(|statement| statement.effect == Effect::Allow).flat_map(|statement| {
            let resources = statement.resources.iter().flat_map(Which::patterns);
            statement
                .actions
                .patterns()
                .iter()
                .chain(resources)
                .map(|pattern| (statement.sid.as_str(), pattern.as_str()))
        })
    }

    /// Those of its grants that `request` makes use of, if the request is allowed by that statement.
    pub fn used_by<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = (&'a str, &'a str)> {
        let granting = self
            .statements
            .iter()
            .filter(move |statement| statement.effect == Effect::Allow && statement.applies(request));
        granting.flat_map(move |statement| {
            let actions =
                statement.actions.patterns().iter().filter(|pattern| same_action(pattern, &request.action));
            let resources = statement
                .resources
                .iter()
                .flat_map(Which::patterns)
                .filter(|pattern| matches_arn(pattern, &request.resource));
            actions.chain(resources).map(|pattern| (statement.sid.as_str(), pattern.as_str()))
        })
    }
}

impl Statement {
    fn parse(at: usize, value: &Value, of_resource: bool) -> Result<Self, Error> {
        let fields = value.as_object().ok_or_else(|| malformed("", "Statement"))?;
        let sid = fields
            .get("Sid")
            .and_then(Value::as_str)
            .map_or_else(|| format!("statement {}", at + 1), str::to_owned);
        only_fields(
            &sid,
            fields,
            &["Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition"],
        )?;
        let effect = match fields.get("Effect").and_then(Value::as_str) {
            Some("Allow") => Effect::Allow,
            Some("Deny") => Effect::Deny,
            _ => return Err(malformed(&sid, "Effect")),
        };
        let whom = match (fields.get("Principal"), of_resource) {
            (Some(value), true) => Some(Whom::parse(value).ok_or_else(|| malformed(&sid, "Principal"))?),
            (None, false) => None,
            _ => return Err(malformed(&sid, "Principal")),
        };
        let actions = which(&sid, fields, "Action", "NotAction")?.ok_or_else(|| malformed(&sid, "Action"))?;
        let resources = which(&sid, fields, "Resource", "NotResource")?;
        if resources.is_none() && !of_resource {
            return Err(malformed(&sid, "Resource"));
        }
        for resource in resources.iter().flat_map(Which::patterns) {
            if resource.contains("${") {
                return Err(Error::Variable { text: resource.clone() });
            }
            if !is_arn_pattern(resource) {
                return Err(Error::Resource { sid, resource: resource.clone() });
            }
        }
        let conditions = conditions(&sid, fields.get("Condition"))?;
        Ok(Self { sid, effect, whom, actions, resources, conditions })
    }

    /// Whether it is about this principal and this action. Actions are the same in upper and lower case.
    pub(crate) fn names_action(&self, request: &Request) -> bool {
        let whom = match (&self.whom, &request.principal) {
            (None | Some(Whom::Everybody), _) => true,
            (Some(Whom::These(_)), None) => false,
            (Some(Whom::These(these)), Some(asking)) => these.contains(asking),
        };
        whom && self.actions.takes(|pattern| same_action(pattern, &request.action))
    }

    /// Whether it is about this resource.
    pub(crate) fn names_resource(&self, request: &Request) -> bool {
        self.resources
            .as_ref()
            .is_none_or(|which| which.takes(|pattern| matches_arn(pattern, &request.resource)))
    }

    /// Whether it is about this request in every respect.
    pub(crate) fn applies(&self, request: &Request) -> bool {
        self.names_action(request)
            && self.names_resource(request)
            && self.conditions.iter().all(|condition| condition.holds(request))
    }
}

impl Whom {
    fn parse(value: &Value) -> Option<Self> {
        if value.as_str() == Some("*") {
            return Some(Self::Everybody);
        }
        let mut these = Vec::new();
        for (kind, names) in value.as_object()? {
            if !matches!(kind.as_str(), "AWS" | "Service" | "Federated") {
                return None;
            }
            let names = texts(names)?;
            if kind == "AWS" && names.iter().any(|name| name == "*") {
                return Some(Self::Everybody);
            }
            these.extend(names.into_iter().map(|name| Principal { kind: kind.clone(), name }));
        }
        Some(Self::These(these))
    }
}

fn same_action(pattern: &str, action: &str) -> bool {
    matches(&pattern.to_lowercase(), &action.to_lowercase())
}

fn conditions(sid: &str, block: Option<&Value>) -> Result<Vec<Condition>, Error> {
    let Some(block) = block else { return Ok(Vec::new()) };
    let malformed = || malformed(sid, "Condition");
    let mut found = Vec::new();
    for (operator, keys) in block.as_object().ok_or_else(malformed)? {
        for (key, values) in keys.as_object().ok_or_else(malformed)? {
            found.push(Condition::parse(operator, key, texts(values).ok_or_else(malformed)?)?);
        }
    }
    Ok(found)
}

fn which(
    sid: &str,
    fields: &Map<String, Value>,
    only: &'static str,
    all_but: &'static str,
) -> Result<Option<Which>, Error> {
    let read = |name: &'static str| {
        fields.get(name).map(|value| texts(value).ok_or_else(|| malformed(sid, name))).transpose()
    };
    match (read(only)?, read(all_but)?) {
        (Some(_), Some(_)) => Err(malformed(sid, only)),
        (Some(patterns), None) => Ok(Some(Which::Only(patterns))),
        (None, Some(patterns)) => Ok(Some(Which::AllBut(patterns))),
        (None, None) => Ok(None),
    }
}

fn only_fields(sid: &str, object: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    match object.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(Error::UnknownField { sid: sid.to_owned(), field: field.clone() }),
        None => Ok(()),
    }
}

fn malformed(sid: &str, field: &'static str) -> Error {
    Error::Field { sid: sid.to_owned(), field }
}

/// A text or a list of texts that is not empty. Conditions also hold bare truth values.
fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    match value {
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => list.iter().map(text).collect(),
        single => text(single).map(|text| vec![text]),
    }
}
