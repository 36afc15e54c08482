//! Evaluation of policies in the account: may `EventBridge` send to a queue, and what do the policies of a role grant.
//!
//! Statements that [`karpenter_iam`] does not evaluate never grant: a fake that lets too much through hides the missing
//! permission that the real account would refuse for.

use std::collections::BTreeMap;

use karpenter_iam::{Policies, Policy, Request as Question};
use serde_json::Value;

/// Looks like a policy: a JSON object with statements.
pub(super) fn is_well_formed(document: &str) -> bool {
    let Ok(Value::Object(policy)) = serde_json::from_str::<Value>(document) else { return false };
    matches!(policy.get("Statement"), Some(Value::Array(_) | Value::Object(_)))
}

/// Sender, action and resource of a request, for a resource policy.
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
    let Ok(policy) = Policy::found_on_resource(document) else { return false };
    let question = Question::new(request.action, request.resource)
        .by("Service", request.service)
        .with("aws:SourceArn", request.source_arn)
        .with("aws:SourceAccount", request.source_account)
        .with("aws:SecureTransport", "true");
    Policies::of(vec![policy]).allow(&question)
}

/// A call of an identity, for its policies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) action: &'a str,
    pub(super) resource: &'a str,
    /// Condition keys with one value each.
    pub(super) context: &'a BTreeMap<String, String>,
}

/// True when a statement of one of the documents allows it and none of any denies it. Nothing is allowed when one of
/// them cannot be read: it could hold the denial.
pub(super) fn grants<'a>(documents: impl IntoIterator<Item = &'a str>, asked: Identity<'_>) -> bool {
    let policies: Result<Vec<Policy>, _> = documents.into_iter().map(Policy::found_on_identity).collect();
    let Ok(policies) = policies else { return false };
    let question = Question::new(asked.action, asked.resource);
    let question = asked.context.iter().fold(question, |question, (key, value)| question.with(key, value));
    Policies::of(policies).allow(&question)
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
        assert!(
            !grants([allow, r#"{"Statement":[{"Effect":"Deny"}]}"#], asked),
            "it could be a denial of this"
        );
        let all_but = r#"{"Statement":[{"Effect":"Deny","NotAction":"s3:*","Resource":"*"}]}"#;
        assert!(!grants([allow, all_but], asked));
        let elsewhere =
            r#"{"Statement":[{"Effect":"Deny","Action":"*","NotResource":"arn:aws:iam::*:role/nodes"}]}"#;
        assert!(grants([allow, elsewhere], asked));
    }

    #[test]
    fn documents_without_statements_are_malformed() {
        assert!(is_well_formed(r#"{"Version":"2012-10-17","Statement":[]}"#));
        for malformed in ["", "[]", "{}", r#"{"Statement":"x"}"#, "{"] {
            assert!(!is_well_formed(malformed), "{malformed}");
        }
    }
}
