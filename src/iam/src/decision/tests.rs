//! The evaluation logic of the IAM user guide, rule by rule.

use super::*;
use crate::Error;

fn policy(statements: &str) -> Policy {
    Policy::of_identity(&format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)).unwrap()
}

const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:prod";
const READ: &str = r#"{"Sid":"Read","Effect":"Allow","Action":["sqs:Get*","sqs:ReceiveMessage"],
    "Resource":"arn:aws:sqs:eu-west-1:123456789012:*"}"#;
const ALL: &str = r#"{"Sid":"All","Effect":"Allow","Action":"*","Resource":"*"}"#;
const NO_DELETE: &str = r#"{"Sid":"NoDelete","Effect":"Deny","Action":"sqs:Delete*","Resource":"*"}"#;
const ONLY_READING: &str =
    r#"{"Sid":"OnlyReading","Effect":"Deny","NotAction":["sqs:Get*","sqs:List*"],"Resource":"*"}"#;
const ELSEWHERE: &str =
    r#"{"Sid":"Elsewhere","Effect":"Allow","Action":"sqs:*","NotResource":"arn:aws:sqs:eu-west-1:*:prod"}"#;

/// "Determining whether a request is allowed or denied within an account".
#[test]
fn denial_beats_permission_and_silence_is_denial() {
    for (name, attached, boundary, action, wanted) in [
        ("nothing says anything", vec![], None, "sqs:GetQueueUrl", Some("no statement names the action")),
        ("allowed by a wildcard", vec![READ], None, "sqs:GetQueueUrl", None),
        ("actions in any case", vec![READ], None, "SQS:getqueueurl", None),
        ("not the action", vec![READ], None, "sqs:DeleteMessage", Some("no statement names the action")),
        (
            "denial wins over everything",
            vec![ALL, NO_DELETE],
            None,
            "sqs:DeleteQueue",
            Some("denied by `NoDelete`"),
        ),
        ("denial elsewhere is none", vec![ALL, NO_DELETE], None, "sqs:SendMessage", None),
        (
            "denial of all but",
            vec![ALL, ONLY_READING],
            None,
            "sqs:SendMessage",
            Some("denied by `OnlyReading`"),
        ),
        ("all but are not denied", vec![ALL, ONLY_READING], None, "sqs:ListQueues", None),
        (
            "all but grants nothing",
            vec![ONLY_READING],
            None,
            "sqs:ListQueues",
            Some("no statement names the action"),
        ),
        (
            "all resources but this",
            vec![ELSEWHERE],
            None,
            "sqs:SendMessage",
            Some("it is about other resources"),
        ),
        (
            "a boundary allows nothing",
            vec![],
            Some(ALL),
            "sqs:GetQueueUrl",
            Some("no statement names the action"),
        ),
        ("both allow", vec![ALL], Some(READ), "sqs:GetQueueUrl", None),
        (
            "only the policy allows",
            vec![ALL],
            Some(READ),
            "sqs:SendMessage",
            Some("outside the permissions boundary"),
        ),
        (
            "only the boundary allows",
            vec![READ],
            Some(ALL),
            "sqs:SendMessage",
            Some("no statement names the action"),
        ),
        ("the boundary denies", vec![ALL], Some(NO_DELETE), "sqs:DeleteQueue", Some("denied by `NoDelete`")),
    ] {
        let policies =
            Policies { attached: attached.into_iter().map(policy).collect(), boundary: boundary.map(policy) };
        let decision = policies.decide(&Request::new(action, QUEUE));
        match (wanted, decision) {
            (None, Decision::Allowed(_)) => {}
            (Some(wanted), Decision::Denied(denial)) => {
                assert!(denial.to_string().contains(wanted), "{name}: {denial}");
            }
            (_, decision) => panic!("{name}: {decision:?}"),
        }
    }
}

#[test]
fn all_conditions_must_hold_and_the_nearest_statement_says_which_does_not() {
    let tags = r#"{"Sid":"Owned","Effect":"Allow","Action":"ec2:TerminateInstances",
        "Resource":"arn:aws:ec2:eu-west-1:*:instance/*",
        "Condition":{"StringEquals":{"aws:ResourceTag/owner":"us","aws:RequestedRegion":["a","b"]},
                     "StringLike":{"aws:ResourceTag/pool":"*"}}}"#;
    let images =
        r#"{"Sid":"Images","Effect":"Allow","Action":"ec2:*","Resource":"arn:aws:ec2:eu-west-1::image/*"}"#;
    let policies = Policies::of(vec![policy(images), policy(tags)]);
    let instance = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1";
    let request = Request::new("ec2:TerminateInstances", instance)
        .with("aws:ResourceTag/owner", "us")
        .with("aws:RequestedRegion", "b")
        .with("aws:ResourceTag/pool", "p");
    assert_eq!(policies.decide(&request), Decision::Allowed(vec!["Owned".to_owned()]));
    let Decision::Denied(denial) = policies.decide(&request.without("aws:ResourceTag/pool")) else {
        panic!("a condition does not hold");
    };
    assert_eq!(
        denial.to_string(),
        "not granted; nearest is `Owned`: `StringLike` of `aws:ResourceTag/pool` wants [\"*\"], the request has nothing"
    );
}

#[test]
fn documents_of_resources_name_who_may() {
    let trust = Policy::of_resource(
        r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sts:AssumeRole","sts:TagSession"],
            "Principal":{"Service":["pods.eks.amazonaws.com"],"AWS":"arn:aws:iam::1:root"},
            "Condition":{"ArnEquals":{"aws:SourceArn":"arn:aws:eks:eu-west-1:1:cluster/prod"}}}]}"#,
    )
    .unwrap();
    let trust = Policies::of(vec![trust]);
    let request = Request::new("sts:AssumeRole", "arn:aws:iam::1:role/prod-karpenter")
        .with("aws:SourceArn", "arn:aws:eks:eu-west-1:1:cluster/prod");
    assert!(trust.allow(&request.clone().by("Service", "pods.eks.amazonaws.com")));
    assert!(trust.allow(&request.clone().by("AWS", "arn:aws:iam::1:root")));
    assert!(!trust.allow(&request.clone().by("Service", "ec2.amazonaws.com")));
    assert!(!trust.allow(&request));
    assert!(!trust.allow(&request.without("aws:SourceArn").by("Service", "pods.eks.amazonaws.com")));
    let everybody = Policy::of_resource(
        r#"{"Version":"2012-10-17","Statement":{"Sid":"Http","Effect":"Deny","Principal":"*","Action":"sqs:*",
            "Resource":"arn:aws:sqs:eu-west-1:1:q","Condition":{"Bool":{"aws:SecureTransport":false}}}}"#,
    )
    .unwrap();
    let plain =
        Request::new("sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:q").with("aws:SecureTransport", "false");
    let explicit = Decision::Denied(Denial::Explicit { sid: "Http".to_owned() });
    assert_eq!(Policies::of(vec![everybody]).decide(&plain.by("AWS", "arn:aws:iam::1:root")), explicit);
}

#[test]
fn what_a_request_makes_use_of_is_named_by_statement() {
    let policy = policy(&format!("{READ},{NO_DELETE}"));
    let resource = "arn:aws:sqs:eu-west-1:123456789012:*";
    let granted: Vec<_> = policy.grants().collect();
    assert_eq!(granted, [("Read", "sqs:Get*"), ("Read", "sqs:ReceiveMessage"), ("Read", resource)]);
    let request = Request::new("sqs:GetQueueUrl", QUEUE);
    assert_eq!(policy.used_by(&request).collect::<Vec<_>>(), [("Read", "sqs:Get*"), ("Read", resource)]);
    assert_eq!(policy.used_by(&Request::new("sqs:SendMessage", QUEUE)).count(), 0);
}

#[test]
fn what_would_not_be_evaluated_is_refused() {
    let statement = |fields: &str| {
        let text =
            format!(r#"{{"Version":"2012-10-17","Statement":[{{"Sid":"A","Effect":"Allow",{fields}}}]}}"#);
        Policy::of_identity(&text).unwrap_err()
    };
    for (fields, wanted) in [
        (r#""Action":"a:B""#, "statement `A`: `Resource` is missing or malformed"),
        (r#""Resource":"*""#, "statement `A`: `Action` is missing or malformed"),
        (r#""Action":[],"Resource":"*""#, "statement `A`: `Action` is missing or malformed"),
        (
            r#""Action":"a:B","NotAction":"a:C","Resource":"*""#,
            "statement `A`: `Action` is missing or malformed",
        ),
        (
            r#""Action":"a:B","Resource":"*","Principal":"*""#,
            "statement `A`: `Principal` is missing or malformed",
        ),
        (
            r#""Action":"a:B","Resource":"*","Conditions":{}"#,
            "statement `A` has a field `Conditions`, which is not evaluated here",
        ),
        (
            r#""Action":"a:B","Resource":"arn:aws:sqs:prod""#,
            "statement `A`: resource `arn:aws:sqs:prod` is no ARN of six parts",
        ),
        (
            r#""Action":"a:B","Resource":"arn:aws:s3:::${aws:username}""#,
            "policy variables are not evaluated here: `arn:aws:s3:::${aws:username}`",
        ),
    ] {
        assert_eq!(statement(fields).to_string(), wanted);
    }
    assert!(matches!(Policy::of_identity("{"), Err(Error::Json(_))));
    let old = Policy::of_identity(r#"{"Version":"2008-10-17","Statement":[]}"#).unwrap_err();
    assert_eq!(old.to_string(), "statement ``: `Version` is missing or malformed");
}

fn found(statements: &str) -> Policies {
    let text = format!(r#"{{"Version":"2008-10-17","Statement":[{statements}]}}"#);
    Policies::of(vec![Policy::found_on_identity(&text).unwrap()])
}

/// Policies of an account hold what is not evaluated here.
#[test]
fn what_is_not_evaluated_never_grants() {
    let when = |effect: &str, condition: &str| {
        format!(
            r#"{{"Sid":"{effect}When","Effect":"{effect}","Action":"*","Resource":"*","Condition":{condition}}}"#
        )
    };
    let unknown_operator = r#"{"StringMatches":{"aws:RequestedRegion":"eu-west-1"}}"#;
    let unknown_key = r#"{"StringEquals":{"aws:PrincipalOrgID":"o"}}"#;
    let unmet =
        r#"{"StringMatches":{"aws:RequestedRegion":"a"},"StringEquals":{"aws:RequestedRegion":"us-east-1"}}"#;
    let variable = r#"{"Sid":"Own","Effect":"Allow","Action":"*","Resource":"arn:aws:sqs:eu-west-1:123456789012:${aws:username}"}"#;
    let not_principal =
        r#"{"Sid":"Not","Effect":"Allow","NotPrincipal":{"AWS":"1"},"Action":"*","Resource":"*"}"#;
    for (statements, wanted) in [
        (
            when("Allow", unknown_operator),
            Some(
                "not decided by `AllowWhen`: `StringMatches` of `aws:RequestedRegion` wants [\"eu-west-1\"], which is not evaluated here",
            ),
        ),
        (
            when("Allow", unknown_key),
            Some(
                "not decided by `AllowWhen`: `StringEquals` of `aws:PrincipalOrgID` wants [\"o\"], which is not known here",
            ),
        ),
        (
            when("Allow", unmet),
            Some(
                "not granted; nearest is `AllowWhen`: `StringEquals` of `aws:RequestedRegion` wants [\"us-east-1\"], the request has [\"eu-west-1\"]",
            ),
        ),
        (format!("{ALL},{}", when("Deny", unknown_operator)), Some("not decided by `DenyWhen`")),
        (format!("{ALL},{}", when("Deny", unmet)), None),
        (format!("{ALL},{}", when("Allow", unknown_operator)), None),
        (when("Deny", unknown_operator), Some("not granted; no statement names the action")),
        (
            variable.to_owned(),
            Some(
                "not decided by `Own`: resource `arn:aws:sqs:eu-west-1:123456789012:${aws:username}` is not evaluated here",
            ),
        ),
        (not_principal.to_owned(), Some("not decided by `Not`: field `NotPrincipal` is not evaluated here")),
    ] {
        let request = Request::new("sqs:GetQueueUrl", QUEUE).with("aws:RequestedRegion", "eu-west-1");
        match (wanted, found(&statements).decide(&request)) {
            (None, Decision::Allowed(_)) => {}
            (Some(wanted), Decision::Denied(denial)) => {
                assert!(denial.to_string().starts_with(wanted), "{statements}: {denial}");
            }
            (_, decision) => panic!("{statements}: {decision:?}"),
        }
    }
}

#[test]
fn boundary_that_is_not_evaluated_leaves_the_request_undecided() {
    let text = r#"{"Statement":{"Sid":"Limit","Effect":"Allow","Action":"*","Resource":"*",
        "Condition":{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}}}"#;
    let mut policies = found(ALL);
    policies.boundary = Some(Policy::found_on_identity(text).unwrap());
    let decision = policies.decide(&Request::new("sqs:GetQueueUrl", QUEUE));
    assert!(
        matches!(&decision, Decision::Denied(Denial::Undecided { sid, .. }) if sid == "Limit"),
        "{decision:?}"
    );
}

/// IAM user guide, "Resource": missing parts of an ARN are `*`.
#[test]
fn incomplete_arns_are_completed() {
    let policies = found(r#"{"Effect":"Allow","Action":"*","Resource":"arn:aws:sqs"}"#);
    assert!(policies.allow(&Request::new("sqs:GetQueueUrl", QUEUE)));
    assert!(!policies.allow(&Request::new("sns:Publish", "arn:aws:sns:eu-west-1:123456789012:topic")));
}

#[test]
fn account_stands_for_its_identities_in_a_denial() {
    let role = "arn:aws:iam::123456789012:role/demo";
    let policies = |effect: &str, principal: &str| {
        let text = format!(
            r#"{{"Statement":[{{"Sid":"A","Effect":"{effect}","Action":"*","Principal":{{"AWS":"{principal}"}}}},
                {{"Effect":"Allow","Action":"*","Principal":{{"Service":"*"}}}}]}}"#
        );
        Policies::of(vec![Policy::found_on_resource(&text).unwrap()])
    };
    let request = |asking: &str| Request::new("kms:Decrypt", "*").by("AWS", asking);
    let decide =
        |effect: &str, principal: &str, asking: &str| policies(effect, principal).decide(&request(asking));
    let (root, id) = ("arn:aws:iam::123456789012:root", "123456789012");
    for principal in [root, id] {
        assert!(matches!(decide("Allow", principal, root), Decision::Allowed(_)), "{principal}");
        assert!(matches!(decide("Allow", principal, role), Decision::Denied(Denial::NotGranted { .. })));
        assert!(matches!(decide("Deny", principal, role), Decision::Denied(Denial::Explicit { .. })));
        assert!(policies("Allow", principal).allow(&request(role).allowed_by_account()), "{principal}");
    }
    assert!(matches!(decide("Deny", "210987654321", role), Decision::Denied(Denial::NotGranted { .. })));
    assert!(matches!(decide("Allow", role, role), Decision::Allowed(_)));
}
