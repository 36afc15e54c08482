//! Failures of every protocol end in the right kind, with AWS's code, text and request id.

use mockito::Matcher;

use super::super::{Config, Retries, connect};
use super::support::{Wire, ec2_error};
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::InstanceQuery;
use karpenter_aws_api::events::Target;
use karpenter_aws_api::sqs::ReceiveOptions;

#[tokio::test]
async fn ec2_codes_become_kinds() {
    for (status, code, kind) in [
        (400, "InvalidInstanceID.NotFound", Kind::NotFound),
        (403, "UnauthorizedOperation", Kind::Denied),
        (503, "RequestLimitExceeded", Kind::Throttled),
        (500, "InternalError", Kind::Transient),
        (500, "NeverHeardOf", Kind::Transient),
        (400, "InvalidParameterValue", Kind::Invalid),
        (400, "InsufficientInstanceCapacity", Kind::NoCapacity),
        (400, "VcpuLimitExceeded", Kind::LimitExceeded),
    ] {
        let mut wire = Wire::new(Retries::Never).await;
        wire.answers("DescribeInstances", status, &ec2_error(code, "some text")).await;
        let query = InstanceQuery { ids: vec!["i-1".into()], filters: Vec::new() };
        let error = wire.clients.ec2.describe_instances(&query).await.unwrap_err();
        assert_eq!(error.kind, kind, "{code}");
        assert_eq!(error.code.as_deref(), Some(code));
        assert_eq!((error.operation, error.subject.as_str()), ("DescribeInstances", "i-1"));
        assert_eq!(error.message, "some text");
        assert_eq!(error.request_id.as_deref(), Some("req-1"));
    }
}

#[tokio::test]
async fn throttled_calls_are_repeated_within_bounds() {
    let mut wire = Wire::new(Retries::Standard { max_attempts: 2 }).await;
    wire.answers("DescribeInstances", 503, &ec2_error("RequestLimitExceeded", "slow down")).await;
    let error = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    assert_eq!((error.kind, wire.times_asked()), (Kind::Throttled, 2));
}

#[tokio::test]
async fn every_call_and_each_attempt_is_reported_with_its_status() {
    let mut wire = Wire::new(Retries::Standard { max_attempts: 2 }).await;
    wire.answers("DescribeInstances", 503, &ec2_error("RequestLimitExceeded", "slow down")).await;
    wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    let attempt = "attempt EC2 DescribeInstances Some(503)";
    let call = "call EC2 DescribeInstances Some(503) repeated 1";
    assert_eq!(*wire.reported.0.lock(), [attempt, attempt, call]);
}

#[tokio::test]
async fn an_answer_that_is_not_aws_is_transient_and_shows_no_default() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 502, "<html>bad gateway</html>").await;
    let error = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Transient, None));
}

#[tokio::test]
async fn nobody_listening_is_transient() {
    let wire = Wire::new(Retries::Never).await;
    let clients = wire.clients.clone();
    drop(wire);
    // The port may be taken again by a server without an answer for us: still not a success.
    let error = clients.sts.get_caller_identity().await.unwrap_err();
    assert_eq!(error.operation, "GetCallerIdentity");
}

#[tokio::test]
async fn iam_documents_are_decoded_and_its_errors_classified() {
    let mut wire = Wire::new(Retries::Never).await;
    let role = "<GetRoleResponse><GetRoleResult><Role><Path>/</Path><RoleName>node</RoleName><RoleId>AROA</RoleId>\
        <Arn>arn:aws:iam::1:role/node</Arn><CreateDate>2026-01-01T00:00:00Z</CreateDate>\
        <AssumeRolePolicyDocument>%7B%22Statement%22%3A%5B%5D%7D</AssumeRolePolicyDocument>\
        <Tags><member><Key>a</Key><Value>b</Value></member></Tags></Role></GetRoleResult></GetRoleResponse>";
    wire.answers("GetRole", 200, role).await;
    let found = wire.clients.iam.get_role("node").await.unwrap();
    assert_eq!((found.trust.as_str(), found.tags["a"].as_str()), (r#"{"Statement":[]}"#, "b"));
    wire.server.reset();
    let missing = "<ErrorResponse><Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>gone</Message></Error>\
        </ErrorResponse>";
    wire.answers("GetRole", 404, missing).await;
    let error = wire.clients.iam.get_role("node").await.unwrap_err();
    assert_eq!((error.kind, error.request_id.as_deref()), (Kind::NotFound, Some("req-1")));
}

#[tokio::test]
async fn an_iam_role_without_arn_is_half_an_answer() {
    let mut wire = Wire::new(Retries::Never).await;
    let role = "<GetRoleResponse><GetRoleResult><Role><Path>/</Path><RoleName>node</RoleName><RoleId>AROA</RoleId>\
        <CreateDate>2026-01-01T00:00:00Z</CreateDate><AssumeRolePolicyDocument>%7B%7D</AssumeRolePolicyDocument>\
        </Role></GetRoleResult></GetRoleResponse>";
    wire.answers("GetRole", 200, role).await;
    let error = wire.clients.iam.get_role("node").await.unwrap_err();
    assert!(error.message.contains("`Arn`"), "{error}");
}

#[tokio::test]
async fn json_services_report_their_codes() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers_json("AmazonSSM.GetParameter", 400, r#"{"__type":"ParameterNotFound","message":"no"}"#)
        .await;
    let error = wire.clients.ssm.get_parameter("/aws/x").await.unwrap_err();
    assert_eq!((error.kind, error.subject.as_str()), (Kind::NotFound, "/aws/x"));

    let missing = r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no such queue"}"#;
    wire.answers_json("AmazonSQS.GetQueueUrl", 400, missing).await;
    assert_eq!(wire.clients.sqs.get_queue_url("demo").await.unwrap_err().kind, Kind::NotFound);

    let refused = r#"{"FailedEntryCount":1,"FailedEntries":[{"TargetId":"t","ErrorCode":"AccessDenied","ErrorMessage":"no"}]}"#;
    wire.answers_json("AWSEvents.PutTargets", 200, refused).await;
    let target = Target { id: "t".into(), arn: "arn:aws:sqs:us-west-2:1:demo".into() };
    let error = wire.clients.events.put_targets("rule", &[target]).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (Kind::Denied, "entry `t`: no"));

    wire.server
        .mock("GET", "/clusters/none")
        .with_status(404)
        .with_header("x-amzn-errortype", "ResourceNotFoundException")
        .with_body(r#"{"message":"No cluster found"}"#)
        .create_async()
        .await;
    let error = wire.clients.eks.describe_cluster("none").await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (Kind::NotFound, "No cluster found"));
}

#[tokio::test]
async fn messages_are_asked_for_as_the_controller_needs_them() {
    let mut wire = Wire::new(Retries::Never).await;
    let mock = wire
        .server
        .mock("POST", "/")
        .match_header("x-amz-target", "AmazonSQS.ReceiveMessage")
        .match_header("user-agent", Matcher::Regex("app/karpenter.sh-1.14.0".to_owned()))
        .match_body(Matcher::PartialJsonString(
            r#"{"MaxNumberOfMessages":10,"VisibilityTimeout":20,"WaitTimeSeconds":20}"#.to_owned(),
        ))
        .with_header("content-type", "application/x-amz-json-1.0")
        .with_body(
            r#"{"Messages":[{"MessageId":"m","ReceiptHandle":"r","Body":"b","MD5OfBody":"92eb5ffee6ae2fec3ad71c777531578f","Attributes":{"SentTimestamp":"1767225600000"}}]}"#,
        )
        .create_async()
        .await;
    let url = format!("{}/1/demo", wire.server.url());
    let found = wire.clients.sqs.receive_messages(&url.into(), ReceiveOptions::default()).await.unwrap();
    mock.assert_async().await;
    assert_eq!((found[0].body.as_str(), found[0].receipt.as_str()), ("b", "r"));
    assert_eq!(found[0].sent_at.unwrap().to_string(), "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_version_that_is_no_user_agent_is_refused() {
    let config =
        Config { region: Some("us-west-2".into()), version: "not a version".into(), ..Config::default() };
    let error = connect(config).await.unwrap_err();
    assert!(error.message.contains("user agent"), "{error}");
}
