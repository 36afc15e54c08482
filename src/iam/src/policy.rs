//! Policy documents. Ours are read strictly: what this crate would not evaluate, it refuses. In those of an account it
//! is kept as unknown.

use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::error::Error;
use crate::pattern::{is_arn_pattern, matches, matches_arn};
use crate::request::{Principal, Request};
use crate::truth::Truth;

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
    fn takes(&self, fits: impl Fn(&str) -> Truth) -> Truth {
        let found = Truth::any(self.patterns().iter().map(|pattern| fits(pattern)));
        match self {
            Self::Only(_) => found,
            Self::AllBut(_) => !found,
        }
    }

    /// Adds the parts that incomplete ARNs leave out, which IAM takes for `*` (user guide, "Resource").
    fn completed(self) -> Self {
        let completed = |patterns: Vec<String>| patterns.into_iter().map(complete).collect();
        match self {
            Self::Only(patterns) => Self::Only(completed(patterns)),
            Self::AllBut(patterns) => Self::AllBut(completed(patterns)),
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
    conditions: Vec<Condition>,
    /// Fields that are not evaluated here, in a document of an account.
    unread: Vec<String>,
}

/// Way in which a document is read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Its statements name principals.
    of_resource: bool,
    /// True if anything that is not evaluated here is refused.
    is_strict: bool,
}

/// A policy document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) statements: Vec<Statement>,
}

impl Policy {
    /// Reads a policy of an identity, or a permissions boundary: no statement names a principal.
    pub fn of_identity(text: &str) -> Result<Self, Error> {
        Self::parse(text, Reading { of_resource: false, is_strict: true })
    }

    /// Reads a policy of a resource, or a trust document: every statement names principals.
    pub fn of_resource(text: &str) -> Result<Self, Error> {
        Self::parse(text, Reading { of_resource: true, is_strict: true })
    }

    /// Reads a policy of an identity that is in use in an account: what is not evaluated here is kept, and a decision that
    /// depends on it is [undecided](crate::Denial::Undecided).
    pub fn found_on_identity(text: &str) -> Result<Self, Error> {
        Self::parse(text, Reading { of_resource: false, is_strict: false })
    }

    /// Reads a policy of a resource that is in use in an account.
    pub fn found_on_resource(text: &str) -> Result<Self, Error> {
        Self::parse(text, Reading { of_resource: true, is_strict: false })
    }

    fn parse(text: &str, reading: Reading) -> Result<Self, Error> {
        let root: Value = serde_json::from_str(text).map_err(Error::Json)?;
        let root = root.as_object().ok_or_else(|| malformed("", "Version"))?;
        if reading.is_strict {
            if let Some(field) = other_fields(root, &["Version", "Id", "Statement"]).next() {
                return Err(unknown_field("", field));
            }
            if root.get("Version").and_then(Value::as_str) != Some("2012-10-17") {
                return Err(malformed("", "Version"));
            }
        }
        let statements = match root.get("Statement") {
            Some(Value::Array(list)) => list.iter().collect(),
            Some(single @ Value::Object(_)) => vec![single],
            _ => return Err(malformed("", "Statement")),
        };
        let read = |(at, value)| Statement::parse(at, value, reading);
        Ok(Self { statements: statements.into_iter().enumerate().map(read).collect::<Result<_, _>>()? })
    }

    /// Returns what it grants: every statement's name with each of its actions, and with each of its resources, as written.
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

    /// Returns the grants that `request` makes use of, if the request is allowed by that statement.
    pub fn used_by<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = (&'a str, &'a str)> {
        let granting = self.statements.iter().filter(move |statement| {
            statement.effect == Effect::Allow && statement.applies(request) == Truth::Yes
        });
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
    fn parse(at: usize, value: &Value, reading: Reading) -> Result<Self, Error> {
        let fields = value.as_object().ok_or_else(|| malformed("", "Statement"))?;
        let sid = fields
            .get("Sid")
            .and_then(Value::as_str)
            .map_or_else(|| format!("statement {}", at + 1), str::to_owned);
        let unread: Vec<String> = other_fields(fields, FIELDS).map(str::to_owned).collect();
        if reading.is_strict
            && let Some(field) = unread.first()
        {
            return Err(unknown_field(&sid, field));
        }
        let effect = match fields.get("Effect").and_then(Value::as_str) {
            Some("Allow") => Effect::Allow,
            Some("Deny") => Effect::Deny,
            _ => return Err(malformed(&sid, "Effect")),
        };
        let whom = match (fields.get("Principal"), reading.of_resource) {
            (Some(value), true) => Some(Whom::parse(value).ok_or_else(|| malformed(&sid, "Principal"))?),
            (None, false) => None,
            // Whom it is about is not evaluated: the statement as a whole is unknown.
            (None, true) if unread.iter().any(|field| field == "NotPrincipal") => None,
            _ => return Err(malformed(&sid, "Principal")),
        };
        let actions = which(&sid, fields, "Action", "NotAction")?.ok_or_else(|| malformed(&sid, "Action"))?;
        let resources = which(&sid, fields, "Resource", "NotResource")?;
        if resources.is_none() && !reading.of_resource {
            return Err(malformed(&sid, "Resource"));
        }
        let resources = if reading.is_strict {
            for resource in resources.iter().flat_map(Which::patterns) {
                if resource.contains("${") {
                    return Err(Error::Variable { text: resource.clone() });
                }
                if !is_arn_pattern(resource) {
                    return Err(Error::Resource { sid, resource: resource.clone() });
                }
            }
            resources
        } else {
            resources.map(Which::completed)
        };
        let conditions = conditions(&sid, fields.get("Condition"), reading)?;
        Ok(Self { sid, effect, whom, actions, resources, conditions, unread })
    }

    /// Returns whether it is about this principal and this action. Actions are the same in upper and lower case.
    pub(crate) fn names_action(&self, request: &Request) -> bool {
        let whom = match (&self.whom, &request.principal) {
            (None | Some(Whom::Everybody), _) => true,
            (Some(Whom::These(_)), None) => false,
            (Some(Whom::These(these)), Some(asking)) => {
                // To allow an account leaves the choice to its own policies; to deny it denies all that is in it.
                let as_member = self.effect == Effect::Deny || request.is_allowed_by_account();
                these.iter().any(|named| covers(named, asking, as_member))
            }
        };
        whom && self.actions.takes(|pattern| same_action(pattern, &request.action).into()) == Truth::Yes
    }

    /// Returns whether it is about this resource.
    pub(crate) fn names_resource(&self, request: &Request) -> Truth {
        self.resources.as_ref().map_or(Truth::Yes, |which| {
            which.takes(|pattern| {
                if is_evaluated(pattern) {
                    matches_arn(pattern, &request.resource).into()
                } else {
                    Truth::Unknown
                }
            })
        })
    }

    /// Returns whether it is about this request in every respect.
    pub(crate) fn applies(&self, request: &Request) -> Truth {
        let conditions = self.conditions.iter().map(|condition| condition.holds(request));
        let known = if self.unread.is_empty() { Truth::Yes } else { Truth::Unknown };
        let rest = [self.names_action(request).into(), self.names_resource(request), known];
        Truth::all(conditions.chain(rest))
    }

    /// Returns why it is not about this request.
    pub(crate) fn unmet(&self, request: &Request) -> Vec<String> {
        let other = self.names_resource(request) == Truth::No;
        let other = other.then(|| "it is about other resources".to_owned());
        other.into_iter().chain(self.complaints(request, Truth::No)).collect()
    }

    /// Returns why it is not known whether it is about this request.
    pub(crate) fn unclear(&self, request: &Request) -> Vec<String> {
        let fields = self.unread.iter().map(|field| format!("field `{field}` is not evaluated here"));
        let resources = self.resources.iter().flat_map(Which::patterns);
        let resources = resources
            .filter(|pattern| self.names_resource(request) == Truth::Unknown && !is_evaluated(pattern))
            .map(|pattern| format!("resource `{pattern}` is not evaluated here"));
        fields.chain(resources).chain(self.complaints(request, Truth::Unknown)).collect()
    }

    fn complaints<'a>(&'a self, request: &'a Request, truth: Truth) -> impl Iterator<Item = String> + 'a {
        let conditions = self.conditions.iter().filter(move |condition| condition.holds(request) == truth);
        conditions.map(|condition| condition.complaint(request))
    }
}

/// Fields that a statement may have.
const FIELDS: &[&str] =
    &["Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition"];

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

/// Returns whether a principal that a statement names stands for the one that asks, an account for all that is in it if
/// `as_member`.
fn covers(named: &Principal, asking: &Principal, as_member: bool) -> bool {
    if named.kind != asking.kind {
        return false;
    }
    let is_in_account = || {
        let account = whole_account(&named.name);
        account.is_some()
            && (account == whole_account(&asking.name)
                || as_member && account == asking.name.split(':').nth(4))
    };
    named.name == asking.name || named.name == "*" || (named.kind == "AWS" && is_in_account())
}

/// The id of the account that a principal stands for as a whole: the id itself, or the ARN of its root.
fn whole_account(name: &str) -> Option<&str> {
    if name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(name);
    }
    name.strip_suffix(":root").and_then(|arn| arn.rsplit(':').next())
}

/// Returns whether a pattern of resources means here what it means in IAM.
fn is_evaluated(resource: &str) -> bool {
    !resource.contains("${") && is_arn_pattern(resource)
}

fn same_action(pattern: &str, action: &str) -> bool {
    matches(&pattern.to_lowercase(), &action.to_lowercase())
}

fn complete(mut resource: String) -> String {
    if resource.starts_with("arn:") {
        let parts = resource.splitn(6, ':').count();
        resource.push_str(&":*".repeat(6 - parts));
    }
    resource
}

fn conditions(sid: &str, block: Option<&Value>, reading: Reading) -> Result<Vec<Condition>, Error> {
    let Some(block) = block else { return Ok(Vec::new()) };
    let malformed = || malformed(sid, "Condition");
    let mut found = Vec::new();
    for (operator, keys) in block.as_object().ok_or_else(malformed)? {
        for (key, values) in keys.as_object().ok_or_else(malformed)? {
            found.push(if reading.is_strict {
                Condition::parse(operator, key, texts(values).ok_or_else(malformed)?)?
            } else {
                Condition::found(operator, key, texts(values).unwrap_or_default())
            });
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

fn other_fields<'a>(object: &'a Map<String, Value>, known: &[&str]) -> impl Iterator<Item = &'a str> {
    object.keys().map(String::as_str).filter(|field| !known.contains(field))
}

fn unknown_field(sid: &str, field: &str) -> Error {
    Error::UnknownField { sid: sid.to_owned(), field: field.to_owned() }
}

fn malformed(sid: &str, field: &'static str) -> Error {
    Error::Field { sid: sid.to_owned(), field }
}

/// A text or a list of texts that is not empty. Conditions also hold bare truth values and numbers.
fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Array(list) if list.is_empty() => None,
        Value::Array(list) => list.iter().map(text).collect(),
        single => text(single).map(|text| vec![text]),
    }
}
