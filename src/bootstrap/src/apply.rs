//! Carries out a plan, step by step.
//!
//! Every step may be repeated: a run that dies or fails half-way is continued by planning again.

use std::slice;
use std::time::Duration;

use karpenter_aws_api::eks::{AccessEntrySpec, PodIdentitySpec};
use karpenter_aws_api::events::{RuleSpec, Target};
use karpenter_aws_api::iam::{InstanceProfileSpec, PolicySpec, RoleSpec};
use karpenter_aws_api::id::Arn;
use karpenter_aws_api::{Clients, Error as AwsError, Kind, Tags};

use crate::Error;
use crate::desired::{
    AccessEntry, InstanceProfile, ManagedPolicy, POLICY_DESCRIPTION, PodIdentity, Queue, RULE_TARGET_ID,
    Role, Rule,
};
use crate::plan::Plan;
use crate::step::{Step, Tagged};

/// Other services see a new IAM role only after some seconds. Steps that refer to one are tried this
/// often before the refusal is believed.
const VISIBILITY_TRIES: u32 = 8;
/// The pause between those tries.
const VISIBILITY_PAUSE: Duration = Duration::from_secs(3);

/// SQS refuses the name of a deleted queue for 60 s: `apply` soon after `destroy` tries again for 70 s.
const QUEUE_NAME_TRIES: u32 = 7;
/// The pause between those tries.
const QUEUE_NAME_PAUSE: Duration = Duration::from_secs(10);

/// Event that is worth a line to the user who waits.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The next step is tried again for a while.
    Waiting(&'a str),
    Done(&'a Step),
}

/// Carries out `plan` for `cluster`. `progress` receives every step once it is done, and what is waited for.
///
/// Refuses a plan with conflicts before touching anything.
pub async fn apply(
    clients: &Clients,
    cluster: &str,
    plan: &Plan,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<(), Error> {
    if !plan.conflicts.is_empty() {
        return Err(Error::Conflicts(plan.conflicts.clone()));
    }
    for step in &plan.steps {
        until_the_name_is_free(clients, cluster, step, progress)
            .await
            .map_err(|source| Error::Step { step: step.sentence(), source })?;
        progress(Progress::Done(step));
    }
    Ok(())
}

/// Carries out a step, again and again while SQS keeps the name of a deleted queue back.
async fn until_the_name_is_free(
    clients: &Clients,
    cluster: &str,
    step: &Step,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<(), AwsError> {
    for tried in 0..QUEUE_NAME_TRIES {
        match carry_out(clients, cluster, step).await {
            Err(error) if is_name_kept_back(&error) => {
                if tried == 0 {
                    progress(Progress::Waiting(
                        "waiting for SQS, which refuses the name of a deleted queue for 60 s",
                    ));
                }
                tokio::time::sleep(QUEUE_NAME_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
    carry_out(clients, cluster, step).await
}

/// SQS spells the code with or without `AWS.SimpleQueueService.`, depending on the protocol.
fn is_name_kept_back(error: &AwsError) -> bool {
    error.code.as_deref().is_some_and(|code| code.rsplit('.').next() == Some("QueueDeletedRecently"))
}

/// Carries out a step, again and again while services do not see a role that is seconds old.
async fn carry_out(clients: &Clients, cluster: &str, step: &Step) -> Result<(), AwsError> {
    let tries = if is_on_membership(step) { VISIBILITY_TRIES } else { 1 };
    for _ in 1..tries {
        match once(clients, cluster, step).await {
            Err(error) if matches!(error.kind, Kind::Invalid | Kind::NotFound) => {
                tokio::time::sleep(VISIBILITY_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
    once(clients, cluster, step).await
}

/// Returns whether the step changes the identities that may join and act in the cluster. Such steps refer to roles.
fn is_on_membership(step: &Step) -> bool {
    matches!(
        step,
        Step::CreateAccessEntry(_)
            | Step::ReplaceAccessEntry(_)
            | Step::DeleteAccessEntry { .. }
            | Step::CreatePodIdentity(_)
            | Step::UpdatePodIdentity { .. }
            | Step::DeletePodIdentity { .. }
    )
}

// One match with an arm for each kind of step: no arm for all others could report what is not done as done.
async fn once(clients: &Clients, cluster: &str, step: &Step) -> Result<(), AwsError> {
    let Clients { iam, sqs, events, eks, ec2, .. } = clients;
    match step {
        Step::CreateSpotRole => {
            already_fine(iam.create_service_linked_role("spot.amazonaws.com").await.map(drop))
        }
        Step::CreatePolicy(policy) => iam.create_policy(&policy_spec(policy)).await.map(drop),
        Step::UpdatePolicy { policy, spare } => update_policy(clients, policy, spare).await,
        Step::CreateRole(role) => iam.create_role(&role_spec(role)).await.map(drop),
        Step::UpdateTrust { role, trust } => iam.update_assume_role_policy(role, &trust.to_json()).await,
        Step::SetBoundary { role, boundary: Some(boundary) } => {
            iam.put_role_permissions_boundary(role, &Arn::from(boundary.as_str())).await
        }
        Step::SetBoundary { role, boundary: None } => {
            gone_is_fine(iam.delete_role_permissions_boundary(role).await)
        }
        Step::AttachPolicy { role, policy } => {
            iam.attach_role_policy(role, &Arn::from(policy.as_str())).await
        }
        Step::DetachPolicy { role, policy } => {
            gone_is_fine(iam.detach_role_policy(role, &Arn::from(policy.as_str())).await)
        }
        Step::DeletePolicy { policy, versions } => delete_policy(clients, policy, versions).await,
        Step::DeleteOwnPolicy { role, policy } => gone_is_fine(iam.delete_role_policy(role, policy).await),
        Step::DeleteRole { role } => gone_is_fine(iam.delete_role(role).await),
        Step::CreateInstanceProfile(profile) => {
            iam.create_instance_profile(&profile_spec(profile)).await.map(drop)
        }
        Step::FillInstanceProfile { profile, role, replaces } => {
            take_out(clients, profile, replaces.as_deref()).await?;
            iam.add_role_to_instance_profile(profile, role).await
        }
        Step::DeleteInstanceProfile { profile, role } => {
            take_out(clients, profile, role.as_deref()).await?;
            gone_is_fine(iam.delete_instance_profile(profile).await)
        }
        Step::DeleteLaunchTemplate { name } => gone_is_fine(ec2.delete_launch_template(name).await),
        Step::CreateQueue(queue) => {
            sqs.create_queue(&queue.name, &queue_attributes(queue), &queue.tags).await.map(drop)
        }
        Step::UpdateQueue { url, attributes, .. } => sqs.set_queue_attributes(url, attributes).await,
        Step::DeleteQueue { url, .. } => gone_is_fine(sqs.delete_queue(url).await),
        Step::PutRule { rule, .. } => events.put_rule(&rule_spec(rule)).await.map(drop),
        Step::PutTarget { rule, target } => events.put_targets(rule, &[target_spec(target)]).await,
        Step::DeleteRule { rule, targets } => delete_rule(clients, rule, targets).await,
        Step::CreateAccessEntry(entry) => {
            eks.create_access_entry(cluster, &entry_spec(entry)).await.map(drop)
        }
        Step::ReplaceAccessEntry(entry) => replace_entry(clients, cluster, entry).await,
        Step::DeleteAccessEntry { principal } => {
            gone_is_fine(eks.delete_access_entry(cluster, &Arn::from(principal.as_str())).await)
        }
        Step::CreatePodIdentity(identity) => {
            eks.create_pod_identity_association(cluster, &identity_spec(identity)).await.map(drop)
        }
        Step::UpdatePodIdentity { id, role } => {
            eks.update_pod_identity_association(cluster, id, &Arn::from(role.as_str())).await
        }
        Step::DeletePodIdentity { id } => {
            gone_is_fine(eks.delete_pod_identity_association(cluster, id).await)
        }
        Step::Tag { object, tags } => tag(clients, object, tags).await,
        Step::UntagResource { id, keys, .. } => ec2.delete_tags(slice::from_ref(id), keys).await,
    }
}

/// Makes a new default version once the `spare` ones are deleted.
async fn update_policy(clients: &Clients, policy: &ManagedPolicy, spare: &[String]) -> Result<(), AwsError> {
    let arn = Arn::from(policy.arn.as_str());
    delete_versions(clients, &arn, spare).await?;
    clients.iam.create_policy_version(&arn, &policy.document.to_json()).await.map(drop)
}

async fn delete_policy(clients: &Clients, policy: &str, versions: &[String]) -> Result<(), AwsError> {
    let arn = Arn::from(policy);
    delete_versions(clients, &arn, versions).await?;
    gone_is_fine(clients.iam.delete_policy(&arn).await)
}

async fn delete_versions(clients: &Clients, policy: &Arn, versions: &[String]) -> Result<(), AwsError> {
    for version in versions {
        gone_is_fine(clients.iam.delete_policy_version(policy, version).await)?;
    }
    Ok(())
}

/// Takes the role that is in an instance profile out of it.
async fn take_out(clients: &Clients, profile: &str, role: Option<&str>) -> Result<(), AwsError> {
    let Some(role) = role else { return Ok(()) };
    gone_is_fine(clients.iam.remove_role_from_instance_profile(profile, role).await)
}

async fn delete_rule(clients: &Clients, rule: &str, targets: &[String]) -> Result<(), AwsError> {
    gone_is_fine(clients.events.remove_targets(rule, targets).await)?;
    gone_is_fine(clients.events.delete_rule(rule).await)
}

async fn replace_entry(clients: &Clients, cluster: &str, entry: &AccessEntry) -> Result<(), AwsError> {
    let spec = entry_spec(entry);
    gone_is_fine(clients.eks.delete_access_entry(cluster, &spec.principal).await)?;
    clients.eks.create_access_entry(cluster, &spec).await.map(drop)
}

/// Every service has a way of its own to tag what exists.
async fn tag(clients: &Clients, object: &Tagged, tags: &Tags) -> Result<(), AwsError> {
    let iam = &clients.iam;
    match object {
        Tagged::Role(name) => iam.tag_role(name, tags).await,
        Tagged::Policy(arn) => iam.tag_policy(&Arn::from(arn.as_str()), tags).await,
        Tagged::InstanceProfile(name) => iam.tag_instance_profile(name, tags).await,
        Tagged::Queue(_, url) => clients.sqs.tag_queue(url, tags).await,
        Tagged::Rule(_, arn) => clients.events.tag_resource(arn, tags).await,
        Tagged::AccessEntry(_, arn) | Tagged::PodIdentity(_, arn) => {
            clients.eks.tag_resource(arn, tags).await
        }
        Tagged::Subnet(id) | Tagged::SecurityGroup(id) => {
            clients.ec2.create_tags(slice::from_ref(id), tags).await
        }
    }
}

fn entry_spec(entry: &AccessEntry) -> AccessEntrySpec {
    AccessEntrySpec {
        principal: Arn::from(entry.principal.as_str()),
        kind: entry.kind.to_owned(),
        tags: entry.tags.clone(),
    }
}

fn identity_spec(identity: &PodIdentity) -> PodIdentitySpec {
    PodIdentitySpec {
        namespace: identity.namespace.clone(),
        service_account: identity.service_account.clone(),
        role: Arn::from(identity.role.as_str()),
        tags: identity.tags.clone(),
    }
}

fn policy_spec(policy: &ManagedPolicy) -> PolicySpec {
    PolicySpec {
        name: policy.name.clone(),
        path: policy.path.clone(),
        description: POLICY_DESCRIPTION.to_owned(),
        document: policy.document.to_json(),
        tags: policy.tags.clone(),
    }
}

fn role_spec(role: &Role) -> RoleSpec {
    RoleSpec {
        name: role.name.clone(),
        path: role.path.clone(),
        description: role.purpose.description().to_owned(),
        trust: role.trust.to_json(),
        permissions_boundary: role.boundary.as_deref().map(Arn::from),
        tags: role.tags.clone(),
    }
}

fn profile_spec(profile: &InstanceProfile) -> InstanceProfileSpec {
    InstanceProfileSpec { name: profile.name.clone(), path: profile.path.clone(), tags: profile.tags.clone() }
}

fn rule_spec(rule: &Rule) -> RuleSpec {
    RuleSpec {
        name: rule.name.clone(),
        description: rule.description.to_owned(),
        pattern: rule.pattern.to_string(),
        tags: rule.tags.clone(),
    }
}

fn target_spec(queue: &str) -> Target {
    Target { id: RULE_TARGET_ID.to_owned(), arn: Arn::from(queue) }
}

fn queue_attributes(queue: &Queue) -> std::collections::BTreeMap<String, String> {
    let mut attributes = queue.attributes.clone();
    attributes.insert("Policy".to_owned(), queue.policy.to_json());
    attributes
}

/// The spot role may have been made by another client in the meantime.
fn already_fine(outcome: Result<(), AwsError>) -> Result<(), AwsError> {
    outcome.or_else(|error| if error.kind == Kind::AlreadyExists { Ok(()) } else { Err(error) })
}

/// Accepts that an object to be deleted is gone already.
fn gone_is_fine(outcome: Result<(), AwsError>) -> Result<(), AwsError> {
    outcome.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
}
