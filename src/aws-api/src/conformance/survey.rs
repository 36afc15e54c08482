//! Queries of a diagnosis.

use std::collections::BTreeMap;

use super::identity::role;
use super::{Outcome, Subject, Violation, ensure, refused, same, tags};
use crate::Kind;
use crate::ec2::SubnetQuery;
use crate::iam::PolicySpec;
use crate::survey::Simulation;

pub(super) async fn volumes_have_a_key(subject: &Subject) -> Outcome {
    let found = subject.clients.survey.volume_encryption().await?;
    ensure(!found.key.is_empty(), || "volumes have no default key".to_owned())
}

pub(super) async fn a_vpc_has_a_main_route_table(subject: &Subject) -> Outcome {
    let query = SubnetQuery { ids: vec![subject.subnet.clone()], ..SubnetQuery::default() };
    let subnets = subject.clients.ec2.describe_subnets(&query).await?;
    let vpc = &subnets.first().ok_or_else(|| Violation("the subnet is not there".to_owned()))?.vpc;
    let tables = subject.clients.survey.route_tables(vpc).await?;
    same(&tables.iter().filter(|table| table.is_main).count(), &1, "main route tables")?;
    ensure(tables.iter().all(|table| table.vpc == *vpc), || format!("tables of other VPCs: {tables:?}"))?;
    let endpoints = subject.clients.survey.vpc_endpoints(vpc).await?;
    ensure(endpoints.iter().all(|found| found.vpc == *vpc), || format!("of other VPCs: {endpoints:?}"))
}

pub(super) async fn a_key_that_is_not_there_is_not_found(subject: &Subject) -> Outcome {
    let missing = "00000000-0000-0000-0000-000000000000";
    refused(subject.clients.survey.key(missing).await, Kind::NotFound, "DescribeKey")
}

pub(super) async fn identity_limits_are_reported(subject: &Subject) -> Outcome {
    let limits = subject.clients.survey.identity_limits().await?;
    for name in ["InstanceProfiles", "InstanceProfilesQuota", "AttachedPoliciesPerRoleQuota"] {
        ensure(limits.contains_key(name), || format!("no `{name}` in {limits:?}"))?;
    }
    Ok(())
}

pub(super) async fn a_quota_that_is_not_there_is_not_found(subject: &Subject) -> Outcome {
    refused(subject.clients.survey.quota("ec2", "L-NONE").await, Kind::NotFound, "GetServiceQuota")
}

pub(super) async fn iam_says_what_a_role_may(subject: &Subject) -> Outcome {
    let iam = &subject.clients.iam;
    let name = subject.name("simulated");
    let principal = iam.create_role(&role(&name)).await?.arn;
    let document = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}]}"#;
    let spec = PolicySpec {
        name: subject.name("describe"),
        path: "/".to_owned(),
        description: "conformance".to_owned(),
        document: document.to_owned(),
        tags: tags(&[]),
    };
    let policy = iam.create_policy(&spec).await?;
    iam.attach_role_policy(&name, &policy.arn).await?;
    let request = Simulation {
        principal,
        actions: vec!["ec2:RunInstances".to_owned(), "ec2:DescribeSubnets".to_owned()],
        resource: "*".to_owned(),
        context: BTreeMap::new(),
    };
    let verdicts = subject.clients.survey.simulate(&request).await?;
    let found: Vec<_> = verdicts.iter().map(|found| (found.action.as_str(), found.is_allowed)).collect();
    same(&found, &vec![("ec2:RunInstances", false), ("ec2:DescribeSubnets", true)], "verdicts")?;
    iam.detach_role_policy(&name, &policy.arn).await?;
    iam.delete_policy(&policy.arn).await?;
    iam.delete_role(&name).await?;
    Ok(())
}
