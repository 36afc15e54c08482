//! IAM and STS.

use serde_json::Value;

use super::{Outcome, Subject, ensure, refused, same, tags};
use crate::Kind;
use crate::iam::{InstanceProfileSpec, PolicySpec, RoleSpec};
use crate::id::Arn;

const TRUST: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;
const OTHER_TRUST: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]}]}"#;

/// A role that EC2 may assume.
pub(super) fn role(name: &str) -> RoleSpec {
    RoleSpec {
        name: name.to_owned(),
        path: "/".to_owned(),
        description: "conformance".to_owned(),
        trust: TRUST.to_owned(),
        permissions_boundary: None,
        tags: tags(&[("suite", "conformance")]),
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn document(version: u32) -> String {
    format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Sid":"V{version}","Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}}]}}"#
    )
}

pub(super) async fn caller_is_known(subject: &Subject) -> Outcome {
    let caller = subject.clients.sts.get_caller_identity().await?;
    let digits = caller.account.len() == 12 && caller.account.bytes().all(|byte| byte.is_ascii_digit());
    ensure(digits, || format!("account `{}` is not twelve digits", caller.account))?;
    ensure(caller.arn.as_str().starts_with("arn:"), || format!("`{}` is not an ARN", caller.arn))
}

pub(super) async fn roles_live_and_die(subject: &Subject) -> Outcome {
    let iam = &subject.clients.iam;
    let name = subject.name("role");
    let policy = Arn::from(format!(
        "arn:{}:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        subject.clients.partition.arn_prefix()
    ));
    let created = iam.create_role(&role(&name)).await?;
    refused(iam.create_role(&role(&name)).await, Kind::AlreadyExists, "second CreateRole")?;
    let found = iam.get_role(&name).await?;
    same(&found.arn, &created.arn, "ARN of the role")?;
    same(&json(&found.trust), &json(TRUST), "trust policy")?;
    same(&found.tags, &tags(&[("suite", "conformance")]), "tags of the role")?;

    same(&iam.list_role_policies(&name).await?, &Vec::new(), "policies of the role itself")?;
    refused(iam.get_role_policy(&name, "none").await, Kind::NotFound, "GetRolePolicy of none")?;
    refused(iam.delete_role_policy(&name, "none").await, Kind::NotFound, "DeleteRolePolicy of none")?;

    iam.update_assume_role_policy(&name, OTHER_TRUST).await?;
    iam.tag_role(&name, &tags(&[("suite", "changed"), ("extra", "1")])).await?;
    iam.untag_role(&name, &["extra".to_owned()]).await?;
    let found = iam.get_role(&name).await?;
    same(&json(&found.trust), &json(OTHER_TRUST), "changed trust policy")?;
    same(&found.tags, &tags(&[("suite", "changed")]), "changed tags")?;

    iam.attach_role_policy(&name, &policy).await?;
    iam.attach_role_policy(&name, &policy).await?;
    let attached = iam.list_attached_role_policies(&name).await?;
    same(&attached.into_iter().map(|found| found.arn).collect(), &vec![policy.clone()], "attached")?;
    refused(iam.delete_role(&name).await, Kind::Conflict, "DeleteRole with a policy attached")?;
    iam.detach_role_policy(&name, &policy).await?;
    refused(iam.detach_role_policy(&name, &policy).await, Kind::NotFound, "second DetachRolePolicy")?;
    iam.delete_role(&name).await?;
    refused(iam.get_role(&name).await, Kind::NotFound, "GetRole after DeleteRole")?;
    refused(iam.delete_role(&name).await, Kind::NotFound, "second DeleteRole")
}

pub(super) async fn policies_keep_five_versions(subject: &Subject) -> Outcome {
    let iam = &subject.clients.iam;
    let spec = PolicySpec {
        name: subject.name("policy"),
        path: "/".to_owned(),
        description: "conformance".to_owned(),
        document: document(1),
        tags: tags(&[("suite", "conformance")]),
    };
    let policy = iam.create_policy(&spec).await?;
    refused(iam.create_policy(&spec).await, Kind::AlreadyExists, "second CreatePolicy")?;
    for version in 2..=5 {
        let made = iam.create_policy_version(&policy.arn, &document(version)).await?;
        same(&made.id, &format!("v{version}"), "version id")?;
        ensure(made.is_default, || format!("version {} is not the default", made.id))?;
    }
    let sixth = iam.create_policy_version(&policy.arn, &document(6)).await;
    refused(sixth, Kind::LimitExceeded, "sixth version")?;
    let found = iam.get_policy(&policy.arn).await?;
    same(&found.default_version, &"v5".to_owned(), "default version")?;
    let text = iam.get_policy_version(&policy.arn, "v5").await?;
    same(&json(&text), &json(&document(5)), "document of v5")?;
    let default = iam.delete_policy_version(&policy.arn, "v5").await;
    refused(default, Kind::Conflict, "DeletePolicyVersion of the default")?;
    for version in iam.list_policy_versions(&policy.arn).await? {
        if !version.is_default {
            iam.delete_policy_version(&policy.arn, &version.id).await?;
        }
    }
    iam.delete_policy(&policy.arn).await?;
    refused(iam.get_policy(&policy.arn).await, Kind::NotFound, "GetPolicy after DeletePolicy")
}

pub(super) async fn profiles_hold_one_role(subject: &Subject) -> Outcome {
    let iam = &subject.clients.iam;
    let (profile, first, second) = (subject.name("profile"), subject.name("role-a"), subject.name("role-b"));
    let path = format!("/karpenter/{}/", subject.name("path"));
    iam.create_role(&role(&first)).await?;
    iam.create_role(&role(&second)).await?;
    let spec = InstanceProfileSpec {
        name: profile.clone(),
        path: path.clone(),
        tags: tags(&[("suite", "conformance")]),
    };
    iam.create_instance_profile(&spec).await?;
    refused(iam.create_instance_profile(&spec).await, Kind::AlreadyExists, "second profile")?;
    iam.add_role_to_instance_profile(&profile, &first).await?;
    let more = iam.add_role_to_instance_profile(&profile, &second).await;
    refused(more, Kind::LimitExceeded, "second role in a profile")?;
    let found = iam.get_instance_profile(&profile).await?;
    same(&found.role, &Some(first.clone()), "role of the profile")?;
    same(&found.tags, &tags(&[("suite", "conformance")]), "tags of the profile")?;
    let names = |found: Vec<crate::iam::InstanceProfile>| -> Vec<String> {
        found.into_iter().map(|profile| profile.name).collect()
    };
    let listed = names(iam.list_instance_profiles(&path).await?);
    same(&listed, &vec![profile.clone()], "profiles under the path")?;
    let elsewhere = names(iam.list_instance_profiles("/karpenter/nowhere/").await?);
    ensure(elsewhere.is_empty(), || format!("profiles under an unused path: {elsewhere:?}"))?;
    let of_role = names(iam.list_instance_profiles_for_role(&first).await?);
    same(&of_role, &vec![profile.clone()], "profiles of the role")?;
    refused(iam.delete_instance_profile(&profile).await, Kind::Conflict, "profile with a role deleted")?;
    iam.remove_role_from_instance_profile(&profile, &first).await?;
    iam.delete_instance_profile(&profile).await?;
    refused(iam.get_instance_profile(&profile).await, Kind::NotFound, "deleted profile")?;
    iam.delete_role(&first).await?;
    iam.delete_role(&second).await?;
    Ok(())
}

pub(super) async fn service_linked_role_is_made_once(subject: &Subject) -> Outcome {
    let iam = &subject.clients.iam;
    match iam.create_service_linked_role("spot.amazonaws.com").await {
        Err(error) if error.kind == Kind::AlreadyExists => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let again = iam.create_service_linked_role("spot.amazonaws.com").await;
            refused(again, Kind::AlreadyExists, "second service-linked role")
        }
    }
}
