//! Prerequisites through `CloudFormation`: the committed template as one stack, always changed through a change set.
//!
//! | step | what it asks of `CloudFormation` |
//! |---|---|
//! | [`plan`](look::plan) | a change set, read and deleted again, with the stack if there was none before |
//! | [`apply`](run::apply) | whatever brings the stack to rest, a change set, its execution, its events |
//! | [`destroy`](run::destroy) | the deletion of the stack, its events |
//!
//! A stack cannot tag subnets and security groups that exist, so their discovery tags are steps of our own, as without a
//! stack, and carry our tag; everything else belongs to the stack and carries none, so that `destroy` without
//! `--via cloudformation` never takes parts out of a stack.
//!
//! A run that is cut short is continued by the next one: what it began is waited for, what is stuck is taken back or
//! deleted first ([`Situation`]).

pub mod look;
pub mod run;
mod situation;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::iter;

use karpenter_aws_api::cloudformation::{ChangeSetSpec, Stack, TEMPLATE_BODY_MAX};
use karpenter_aws_api::error::optional;
use karpenter_aws_api::{Clients, Tags};

pub use self::situation::Situation;
use crate::Error;
use crate::desired::{CLUSTER_TAG, Desired};
use crate::names::{STACK_NAME_MAX, bounded, hash};
use crate::observe::Observed;
use crate::render::cloudformation::{self, EXTRA_LINUX_ROLES, EXTRA_WINDOWS_ROLES};
use crate::settings::{Platform, Removable, Settings};

/// The stack of a cluster: what it is to hold, and what there is already.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub clients: &'a Clients,
    pub settings: &'a Settings,
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    /// Name of the stack: [`name`] unless the operator gives another.
    pub name: &'a str,
}

/// The parameter that names the cluster of a stack.
const CLUSTER_PARAMETER: &str = "ClusterName";
/// A parameter of our template, which no other has: the reference's own has a `ClusterName` and nothing else, and its
/// documentation calls the stack as we do. Always given, so that it is there whatever `CloudFormation` reports of defaults.
const IDENTITY_PARAMETER: &str = "ControllerIdentity";
const IDENTITY_DEFAULT: &str = "PodIdentity";
/// Parameters that stay as they are when settings do not set them.
const KEPT: [(&str, Removable); 2] =
    [("PermissionsBoundaryArn", Removable::PermissionsBoundary), ("QueueKmsKeyArn", Removable::QueueKmsKey)];
const SPOT_PARAMETER: &str = "SpotServiceLinkedRole";

/// Returns the name of a cluster's stack unless the operator gives another: `Karpenter-<cluster>`, as in the reference's
/// documentation, within the limits of `CloudFormation` for a name.
pub fn name(settings: &Settings) -> String {
    let cluster = settings.cluster.replace('_', "-");
    if cluster == settings.cluster {
        return bounded("Karpenter-", &cluster, "", STACK_NAME_MAX);
    }
    // `a_b` and `a-b` are two clusters.
    bounded("Karpenter-", &cluster, &format!("-{}", hash(&settings.cluster, 8)), STACK_NAME_MAX)
}

/// Reads the stack. Another cluster's, or one of another template, is an error: neither is ours to change or delete.
pub async fn find(clients: &Clients, settings: &Settings, name: &str) -> Result<Option<Stack>, Error> {
    let found = optional(clients.cloudformation.describe_stack(name).await);
    let found = found.map_err(Error::observing(format!("stack `{name}`")))?;
    let Some(stack) = found.filter(|stack| stack.status != "DELETE_COMPLETE") else { return Ok(None) };
    let ours = stack.parameters.contains_key(IDENTITY_PARAMETER);
    match stack.parameters.get(CLUSTER_PARAMETER).filter(|_| ours) {
        Some(cluster) if *cluster == settings.cluster => Ok(Some(stack)),
        // Only looked at so far: it has neither parameters nor resources.
        None if stack.parameters.is_empty() && Situation::of(&stack.status) == Situation::Absent => {
            Ok(Some(stack))
        }
        Some(cluster) => Err(Error::Conflicts(vec![format!(
            "stack `{name}` is that of cluster `{cluster}`: choose another name with --stack-name"
        )])),
        None => Err(Error::Conflicts(vec![format!(
            "stack `{name}` was not made from this template but from another one, as the reference's is: what it made may \
             do as it is, ask `karpenter bootstrap check`; else choose another name with --stack-name"
        )])),
    }
}

/// The change set that brings the stack to the settings.
///
/// `spot_role` is true if the account has the spot service-linked role: a stack makes it once and keeps naming it,
/// because it would otherwise let go of it with the next change.
fn change_set(
    settings: &Settings,
    name: &str,
    existing: Option<&Stack>,
    spot_role: bool,
) -> Result<ChangeSetSpec, Error> {
    let template = cloudformation::template();
    check_size(&template)?;
    let mut parameters: Tags = cloudformation::parameters(settings)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    parameters.entry(IDENTITY_PARAMETER.to_owned()).or_insert_with(|| IDENTITY_DEFAULT.to_owned());
    for (name, removable) in KEPT {
        let value = existing.and_then(|stack| stack.parameters.get(name));
        let kept = |value: &&String| !value.is_empty() && !settings.take_off.contains(&removable);
        if let Some(value) = value.filter(kept) {
            parameters.entry(name.to_owned()).or_insert_with(|| value.clone());
        }
    }
    let made_before = existing
        .is_some_and(|stack| stack.parameters.get(SPOT_PARAMETER).is_some_and(|value| value == "true"));
    if made_before || !spot_role {
        parameters.insert(SPOT_PARAMETER.to_owned(), "true".to_owned());
    }
    // `CloudFormation` replaces the whole set, and others tag stacks, too. Keys of `aws:` are AWS's own: it refuses them.
    let kept = existing.into_iter().flat_map(|stack| &stack.tags).filter(|(key, _)| !key.starts_with("aws:"));
    let mut tags: Tags = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    tags.extend(settings.tags.clone());
    tags.insert(CLUSTER_TAG.to_owned(), settings.cluster.clone());
    let creates = existing.is_none_or(|stack| Situation::of(&stack.status) == Situation::Absent);
    Ok(ChangeSetSpec {
        stack: name.to_owned(),
        name: change_set_name(&template, &parameters, &tags),
        creates,
        template,
        parameters,
        tags,
    })
}

/// Returns a name that is equal for equal content, so that a change set left behind by a killed run is found and replaced.
fn change_set_name(template: &str, parameters: &Tags, tags: &BTreeMap<String, String>) -> String {
    let entries = parameters.iter().chain(tags).map(|(key, value)| format!("\n{key}={value}"));
    let content: String = iter::once(template.to_owned()).chain(entries).collect();
    format!("karpenter-{}", hash(&content, 12))
}

fn check_size(template: &str) -> Result<(), Error> {
    let bytes = template.len();
    if bytes <= TEMPLATE_BODY_MAX { Ok(()) } else { Err(Error::TemplateTooLarge { bytes }) }
}

/// Returns the errors for settings that the template cannot satisfy.
fn beyond_the_template(settings: &Settings) -> Vec<String> {
    let mut found = Vec::new();
    for (platform, most, flag) in [
        (Platform::Linux, EXTRA_LINUX_ROLES, "--extra-node-role"),
        (Platform::Windows, EXTRA_WINDOWS_ROLES, "--extra-windows-node-role"),
    ] {
        let roles = settings.extra_node_roles.iter().filter(|role| role.platform == platform).count();
        if settings.access_entry && roles > most {
            found.push(format!(
                "the template makes access entries for {most} roles named by {flag}, not for {roles}: use --via sdk, or \
                 --no-access-entry and make them yourself"
            ));
        }
    }
    found
}
