//! EKS and SSM: who may join, and which image they run.

use super::identity::role;
use super::{Outcome, Subject, ensure, refused, same, tags};
use crate::Kind;
use crate::eks::{AccessEntrySpec, PodIdentitySpec};

pub(super) async fn access_entries_live_and_die(subject: &Subject) -> Outcome {
    let Some(cluster) = &subject.cluster else { return Ok(()) };
    let (eks, iam) = (&subject.clients.eks, &subject.clients.iam);
    same(&eks.describe_cluster(cluster).await?.name, cluster, "cluster name")?;
    refused(eks.describe_cluster(&subject.name("none")).await, Kind::NotFound, "missing cluster")?;
    let name = subject.name("node-role");
    let principal = iam.create_role(&role(&name)).await?.arn;
    refused(
        eks.describe_access_entry(cluster, &principal).await,
        Kind::NotFound,
        "DescribeAccessEntry before it exists",
    )?;
    let spec = AccessEntrySpec {
        principal: principal.clone(),
        kind: "EC2_LINUX".to_owned(),
        tags: tags(&[("suite", "conformance")]),
    };
    let entry = eks.create_access_entry(cluster, &spec).await?;
    same(&entry.kind, &"EC2_LINUX".to_owned(), "type of the entry")?;
    refused(eks.create_access_entry(cluster, &spec).await, Kind::Conflict, "second access entry")?;
    let listed = eks.list_access_entries(cluster).await?;
    ensure(listed.contains(&principal), || format!("`{principal}` is not in {listed:?}"))?;
    eks.delete_access_entry(cluster, &principal).await?;
    refused(
        eks.describe_access_entry(cluster, &principal).await,
        Kind::NotFound,
        "DescribeAccessEntry after DeleteAccessEntry",
    )?;
    iam.delete_role(&name).await?;
    Ok(())
}

pub(super) async fn pod_identity_lives_and_dies(subject: &Subject) -> Outcome {
    let Some(cluster) = &subject.cluster else { return Ok(()) };
    let (eks, iam) = (&subject.clients.eks, &subject.clients.iam);
    let (first, second) = (subject.name("pod-role-a"), subject.name("pod-role-b"));
    let role_a = iam.create_role(&role(&first)).await?.arn;
    let role_b = iam.create_role(&role(&second)).await?.arn;
    let account = subject.name("sa");
    let spec = PodIdentitySpec {
        namespace: "kube-system".to_owned(),
        service_account: account.clone(),
        role: role_a,
        tags: tags(&[("suite", "conformance")]),
    };
    let made = eks.create_pod_identity_association(cluster, &spec).await?;
    refused(
        eks.create_pod_identity_association(cluster, &spec).await,
        Kind::Conflict,
        "second association of a service account",
    )?;
    eks.update_pod_identity_association(cluster, &made.id, &role_b).await?;
    let found = eks.find_pod_identity_associations(cluster, "kube-system", &account).await?;
    same(&found.iter().map(|found| &found.role).collect(), &vec![&role_b], "roles associated")?;
    eks.delete_pod_identity_association(cluster, &made.id).await?;
    let found = eks.find_pod_identity_associations(cluster, "kube-system", &account).await?;
    ensure(found.is_empty(), || format!("still associated: {found:?}"))?;
    iam.delete_role(&first).await?;
    iam.delete_role(&second).await?;
    Ok(())
}

pub(super) async fn missing_parameter_is_not_found(subject: &Subject) -> Outcome {
    let missing = format!("/{}/no/such/parameter", subject.prefix);
    refused(subject.clients.ssm.get_parameter(&missing).await, Kind::NotFound, "GetParameter")
}

/// A public parameter is of no account: its ARN names none.
pub(super) async fn public_parameters_are_read_by_name_and_arn(subject: &Subject) -> Outcome {
    let Some(cluster) = &subject.cluster else { return Ok(()) };
    let (ssm, region) = (&subject.clients.ssm, &subject.clients.region);
    let version = subject.clients.eks.describe_cluster(cluster).await?.version;
    let folder = format!("/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/standard");
    let arn = |leaf: &str| format!("arn:aws:ssm:{region}::parameter{folder}/{leaf}/image_id");
    let image = ssm.get_parameter(&format!("{folder}/recommended/image_id")).await?;
    same(&ssm.get_parameter(&arn("recommended")).await?, &image, "value by ARN")?;
    refused(ssm.get_parameter(&arn("none")).await, Kind::NotFound, "GetParameter by an ARN of nothing")
}
