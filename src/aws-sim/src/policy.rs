//! The little of the policy language the account evaluates: is it a policy, may `EventBridge` send to a queue, and
//! what do the policies of a role grant.
//!
//! Unknown condition operators never grant: a fake that lets too much through hides the missing permission that
//! the real account would stumble over.

use std::collections::BTreeMap;

use karpenter_iam::matches as glob;
use serde_json::Value;

/// Looks like a policy: a JSON object with statements.
pub(super) fn is_well_formed(document: &str) -> bool {
    let Ok(Value::Object(policy)) = serde_json::from_str::<Value>(document) else { return false };
    matches!(policy.get("Statement"), Some(Value::Array(_) | Value::Object(_)))
}

/// Who sends what, for a resource policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) service: &'a str,
    pub(super) action: &'a str,
    pub(super) resource: &'a str,
    pub(super) source_arn: &'a str,
    pub(super) source_account: &'a str,
}

/// True when a statement allows the request and none denies it.
pub(super) fn allows(document: &str, request: Request<'_>) -> bool {
    let Ok(policy) = serde_json::from_str::<Value>(document) else { return false };
    let statements = list(policy.get("Statement"));
    let applies = |effect: &str| {
        statements.iter().any(|statement| {
            statement.get("Effect").and_then(Value::as_str) == Some(effect)
                && concerns(statement, request)
                && conditions_hold(statement, request, effect == "Deny")
        })
    };
    applies("Allow") && !applies("Deny")
}

fn concerns(statement: &Value, request: Request<'_>) -> bool {
    let any = |field: &str, wanted: &str, fold: bool| {
        list(statement.get(field)).iter().filter_map(Value::as_str).any(|pattern| {
            if fold { glob(&pattern.to_lowercase(), &wanted.to_lowercase()) } else { glob(pattern, wanted) }
        })
    };
    let principal = match statement.get("Principal") {
        Some(Value::String(all)) => all == "*",
        Some(Value::Object(kinds)) => {
            list(kinds.get("Service")).iter().any(|name| name.as_str() == Some(request.service))
                || list(kinds.get("AWS")).iter().any(|name| name.as_str() == Some("*"))
        }
        _ => false,
    };
    principal && any("Action", request.action, true) && any("Resource", request.resource, false)
}

/// What somebody wants to do, for the policies of an identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) action: &'a str,
    pub(super) resource: &'a str,
    /// Condition keys with one value each.
    pub(super) context: &'a BTreeMap<String, String>,
}

/// True when a statement of one of the documents allows it and none of any denies it.
pub(super) fn grants<'a>(documents: impl IntoIterator<Item = &'a str>, asked: Identity<'_>) -> bool {
    let parsed = documents.into_iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let statements: Vec<Value> = parsed.flat_map(|policy| list(policy.get("Statement"))).collect();
    let applies = |effect: &str| {
        statements.iter().any(|statement| {
            let any = |field: &str, wanted: &str| {
                let patterns = list(statement.get(field));
                patterns
                    .iter()
                    .filter_map(Value::as_str)
                    .any(|pattern| glob(&pattern.to_lowercase(), &wanted.to_lowercase()))
            };
            statement.get("Effect").and_then(Value::as_str) == Some(effect)
                && any("Action", asked.action)
                && any("Resource", asked.resource)
                && context_fits(statement, asked.context, effect == "Deny")
        })
    };
    applies("Allow") && !applies("Deny")
}

/// Equality and likeness of texts; `unknown` for everything else.
fn context_fits(statement: &Value, context: &BTreeMap<String, String>, unknown: bool) -> bool {
    let Some(Value::Object(operators)) = statement.get("Condition") else { return true };
    operators.iter().all(|(operator, keys)| {
        let (Value::Object(keys), "StringEquals" | "StringLike" | "ArnLike" | "ArnEquals") =
            (keys, operator.as_str())
        else {
            return unknown;
        };
        keys.iter().all(|(key, wanted)| {
            let actual = context.iter().find(|(known, _)| known.eq_ignore_ascii_case(key));
            actual.is_some_and(|(_, actual)| {
                list(Some(wanted)).iter().filter_map(Value::as_str).any(|pattern| glob(pattern, actual))
            })
        })
    })
}

/// `unknown` is the answer for conditions this file does not understand: a denial is then assumed to apply.
fn conditions_hold(statement: &Value, request: Request<'_>, unknown: bool) -> bool {
    let Some(Value::Object(operators)) = statement.get("Condition") else { return true };
    operators.iter().all(|(operator, keys)| {
        let Value::Object(keys) = keys else { return unknown };
        keys.iter().all(|(key, values)| {
            let actual = match key.to_lowercase().as_str() {
                "aws:sourcearn" => request.source_arn,
                "aws:sourceaccount" => request.source_account,
                "aws:securetransport" => "true",
                _ => return unknown,
            };
            let wanted = list(Some(values));
            match operator.as_str() {
                "ArnEquals" | "ArnLike" | "StringLike" | "StringEquals" | "Bool" => {
                    wanted.iter().any(|value| match value {
                        Value::String(pattern) => glob(pattern, actual),
                        Value::Bool(flag) => flag.to_string() == actual,
                        _ => false,
                    })
                }
                _ => unknown,
            }
        })
    })
}

fn list(value: Option<&Value>) -> Vec<Value> {
    match value {
        None => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(single) => vec![single.clone()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request<'_> = Request {
        service: "events.amazonaws.com",
        action: "sqs:SendMessage",
        resource: "arn:aws:sqs:us-west-2:123456789012:demo",
        source_arn: "arn:aws:events:us-west-2:123456789012:rule/SpotInterruption",
        source_account: "123456789012",
    };

    fn queue_policy(extra: &str) -> String {
        format!(
            r#"{{"Version":"2008-10-17","Id":"EC2InterruptionPolicy","Statement":[
                {{"Effect":"Allow","Principal":{{"Service":["events.amazonaws.com","sqs.amazonaws.com"]}},
                  "Action":"sqs:SendMessage","Resource":"{}"{extra}}},
                {{"Sid":"DenyHTTP","Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*",
                  "Condition":{{"Bool":{{"aws:SecureTransport":"false"}}}}}}]}}"#,
            REQUEST.resource
        )
    }

    #[test]
    fn the_reference_queue_policy_lets_event_bridge_send() {
        assert!(allows(&queue_policy(""), REQUEST));
    }

    #[test]
    fn source_conditions_are_evaluated() {
        let matching = r#","Condition":{"ArnLike":{"aws:SourceArn":"arn:aws:events:*:123456789012:rule/*"}}"#;
        let foreign = r#","Condition":{"StringEquals":{"aws:SourceAccount":"999999999999"}}"#;
        let unknown = r#","Condition":{"NumericLessThan":{"aws:SourceArn":"5"}}"#;
        assert!(allows(&queue_policy(matching), REQUEST));
        assert!(!allows(&queue_policy(foreign), REQUEST));
        assert!(!allows(&queue_policy(unknown), REQUEST));
    }

    #[test]
    fn a_denial_wins_and_silence_is_no() {
        let deny = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"},
            {"Effect":"Deny","Principal":"*","Action":"sqs:Send*","Resource":"*"}]}"#;
        assert!(!allows(deny, REQUEST));
        assert!(!allows(r#"{"Statement":[]}"#, REQUEST));
        assert!(!allows("", REQUEST));
    }

    #[test]
    fn an_identity_may_what_is_allowed_and_not_denied() {
        let context = BTreeMap::from([("iam:PassedToService".to_owned(), "ec2.amazonaws.com".to_owned())]);
        let asked = Identity {
            action: "iam:PassRole",
            resource: "arn:aws:iam::123456789012:role/nodes",
            context: &context,
        };
        let allow = r#"{"Statement":{"Effect":"Allow","Action":"iam:passrole","Resource":"arn:aws:iam::*:role/nodes",
            "Condition":{"StringEquals":{"iam:PassedToService":["ec2.amazonaws.com","x"]}}}}"#;
        let deny = r#"{"Statement":[{"Effect":"Deny","Action":"iam:*","Resource":"*"}]}"#;
        assert!(grants([allow], asked));
        assert!(!grants([allow, deny], asked));
        assert!(!grants([""; 0], asked));
        assert!(
            !grants([allow], Identity { context: &BTreeMap::new(), ..asked }),
            "the condition needs a value"
        );
        assert!(!grants([allow], Identity { resource: "arn:aws:iam::123456789012:role/other", ..asked }));
        let unknown = allow.replace("StringEquals", "DateLessThan");
        assert!(!grants([unknown.as_str()], asked));
    }

    #[test]
    fn documents_without_statements_are_malformed() {
        assert!(is_well_formed(r#"{"Version":"2012-10-17","Statement":[]}"#));
        for malformed in ["", "[]", "{}", r#"{"Statement":"x"}"#, "{"] {
            assert!(!is_well_formed(malformed), "{malformed}");
        }
    }
}
