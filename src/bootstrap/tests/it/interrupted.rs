//! A run that fails at any step is continued by the next run.

use karpenter_aws_sim::Fault;
use karpenter_bootstrap::Error;

use crate::account::Fixture;

/// Every writing operation of `apply`.
const WRITES: &[&str] = &[
    "CreateServiceLinkedRole",
    "CreatePolicy",
    "CreateRole",
    "AttachRolePolicy",
    "CreateInstanceProfile",
    "AddRoleToInstanceProfile",
    "CreateQueue",
    "PutRule",
    "PutTargets",
    "CreateAccessEntry",
    "CreatePodIdentityAssociation",
    "CreateTags",
];

#[tokio::test(start_paused = true)]
async fn every_failed_step_is_named_and_the_next_run_completes() {
    for operation in WRITES {
        let fixture = Fixture::fresh().await;
        fixture.account.inject(Fault::fail(operation, "AccessDenied").times(1));
        let error = fixture.apply().await.expect_err(operation);
        let Error::Step { step, source } = &error else { panic!("{operation}: {error}") };
        assert!(!step.is_empty() && source.operation == *operation, "{operation}: {error}: {source}");
        fixture.apply().await.unwrap_or_else(|error| panic!("{operation}: {error}"));
        assert!(fixture.plan().await.is_empty(), "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_changes_nothing() {
    for operation in
        ["GetRole", "GetPolicy", "GetQueueUrl", "DescribeRule", "DescribeSubnets", "DescribeAccessEntry"]
    {
        let fixture = Fixture::fresh().await;
        fixture.account.forget_calls();
        fixture.account.inject(Fault::fail(operation, "AccessDenied").times(1));
        let error = fixture.apply().await.expect_err(operation);
        assert!(matches!(error, Error::Observe { .. }), "{operation}: {error}");
        assert!(error.to_string().contains("nothing was changed"));
        let writes = WRITES.iter().map(|write| fixture.account.calls().count(write)).sum::<usize>();
        assert_eq!(writes, 0, "{operation}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_eks_does_not_see_yet_is_waited_for() {
    let fixture = Fixture::fresh().await;
    fixture.account.inject(Fault::fail("CreateAccessEntry", "InvalidParameterException").times(3));
    fixture.apply().await.unwrap();
    assert!(fixture.plan().await.is_empty());
}
