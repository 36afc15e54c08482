//! Preview of `apply` on the stack and the network, without doing it.

use std::time::Duration;

use karpenter_aws_api::cloudformation::{Change, ChangeSet, ChangeSetSpec, Stack, says_nothing_to_change};
use karpenter_aws_api::id::ChangeSetId;
use karpenter_aws_api::{Clients, Tags};

use super::{Situation, Target, beyond_the_template, change_set, find};
use crate::desired::Desired;
use crate::destroy::{InUse, destroy, remains};
use crate::leftovers::Leftovers;
use crate::observe::Observed;
use crate::plan::{self, surroundings};
use crate::resource_owner::{OTHER_NAMES, ResourceOwner};
use crate::step::{Effect, Line, Step};
use crate::{Error, Settings};

/// The pause between two looks at a status.
pub(super) const PAUSE: Duration = Duration::from_secs(3);
/// A change set that is not whole after five minutes never will be.
const CHANGE_SET_LOOKS: u32 = 100;

/// Planned changes of stack and network.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the stack.
    pub stack: String,
    /// Current situation of the stack.
    pub situation: Situation,
    /// Changes of the change set. Empty, too, while the stack is in no state to be asked.
    pub changes: Vec<Change>,
    /// Discovery tags, and what stands in the way.
    pub rest: plan::Plan,
}

impl Plan {
    /// Returns whether stack and network already are as they should be.
    pub fn is_empty(&self) -> bool {
        self.situation.first().is_none() && self.changes.is_empty() && self.rest.is_empty()
    }

    /// One line for each thing that would happen.
    pub fn lines(&self) -> Vec<Line> {
        let stack = |effect, detail: &str| Line {
            effect,
            object: "stack",
            name: self.stack.clone(),
            detail: detail.to_owned(),
        };
        let mut lines = Vec::new();
        if let Some(first) = self.situation.first() {
            let effect = match self.situation {
                Situation::FailedCreation | Situation::FailedDeletion => Effect::Delete,
                _ => Effect::Change,
            };
            lines.push(stack(effect, first));
        }
        if matches!(self.situation, Situation::FailedCreation | Situation::FailedDeletion) {
            lines.push(stack(Effect::Create, "with all its resources"));
        }
        lines.extend(self.changes.iter().map(line));
        lines.extend(self.rest.steps.iter().map(Step::line));
        lines
    }
}

fn line(change: &Change) -> Line {
    let effect = match change.action.as_str() {
        "Add" | "Import" => Effect::Create,
        "Remove" => Effect::Delete,
        _ => Effect::Change,
    };
    let replaced = match change.replacement.as_deref() {
        Some("True") => ", replaced",
        Some("Conditional") => ", possibly replaced",
        _ => "",
    };
    let detail = format!("{}{replaced}", change.kind);
    Line { effect, object: "stack resource", name: change.logical_id.clone(), detail }
}

/// Asks for a change set, reads it and deletes it again, with the stack if that was made for it.
pub async fn plan(target: Target<'_>) -> Result<Plan, Error> {
    let Target { clients, settings, observed, name, .. } = target;
    let existing = find(clients, settings, name).await?;
    let situation = existing.as_ref().map_or(Situation::Absent, |found| Situation::of(&found.status));
    let rest = preflight(target, situation);
    let mut planned = Plan { stack: name.to_owned(), situation, changes: Vec::new(), rest };
    if situation.first().is_some() || !planned.rest.conflicts.is_empty() {
        return Ok(planned);
    }
    let spec = change_set(settings, name, existing.as_ref(), observed.spot_role)?;
    let made = make(clients, &spec).await?;
    forget(clients, &spec, &made, existing.as_ref()).await?;
    planned.changes = match refusal(name, &made)? {
        Outcome::Changes => made.changes,
        Outcome::Nothing => Vec::new(),
    };
    Ok(planned)
}

/// Plans what `destroy` would do: take away what the controller left behind, the stack, and our tags of the network.
pub async fn removal(target: Target<'_>, leftovers: &Leftovers, in_use: InUse) -> Result<Plan, Error> {
    let Target { clients, settings, desired, observed, name } = target;
    let existing = find(clients, settings, name).await?;
    let mut rest = remains(settings, observed, leftovers, in_use);
    rest.steps.extend(untagging(settings, desired, observed));
    let change = Change {
        action: "Remove".to_owned(),
        logical_id: name.to_owned(),
        kind: "the stack with all its resources".to_owned(),
        physical_id: None,
        replacement: None,
    };
    let changes = existing.iter().map(|_| change.clone()).collect();
    Ok(Plan { stack: name.to_owned(), situation: Situation::Settled, changes, rest })
}

/// Takes our tags off the network.
pub(super) fn untagging(settings: &Settings, desired: &Desired, observed: &Observed) -> Vec<Step> {
    let mut steps = destroy(settings, desired, observed, &Leftovers::default(), InUse::Ignore).steps;
    steps.retain(|step| matches!(step, Step::UntagResource { .. }));
    steps
}

/// Everything that does not depend on the stack itself.
pub(super) fn preflight(target: Target<'_>, situation: Situation) -> plan::Plan {
    let Target { settings, desired, observed, .. } = target;
    let mut rest = surroundings(settings, desired, observed);
    rest.conflicts.extend(beyond_the_template(settings));
    // After a creation that failed, some of what is there may be the stack's own.
    if situation == Situation::Absent {
        rest.conflicts.extend(in_the_way(settings, desired, observed));
    }
    rest
}

/// A stack cannot take over what exists under one of its names.
fn in_the_way(settings: &Settings, desired: &Desired, observed: &Observed) -> Vec<String> {
    let mut found: Vec<(String, &Tags)> = Vec::new();
    found.extend(observed.roles.iter().map(|(name, role)| (format!("role `{name}`"), &role.role.tags)));
    found.extend(desired.policies.iter().filter_map(|policy| {
        let existing = observed.policies.get(&policy.arn)?;
        Some((format!("policy `{}`", policy.name), &existing.tags))
    }));
    let profile = observed.instance_profile.iter();
    found.extend(profile.map(|profile| (format!("instance profile `{}`", profile.name), &profile.tags)));
    let queue = observed.queue.iter();
    found.extend(queue.map(|queue| (format!("queue `{}`", desired.queue.name), &queue.tags)));
    found.extend(observed.rules.iter().map(|(name, rule)| (format!("rule `{name}`"), &rule.tags)));
    let entries = observed.access_entries.iter();
    found.extend(entries.map(|(principal, entry)| (format!("access entry of `{principal}`"), &entry.tags)));
    found.extend(observed.pod_identity.iter().map(|found| {
        let what = format!("pod identity association of `{}/{}`", found.namespace, found.service_account);
        (what, &found.tags)
    }));
    let sentence = |(what, tags): (String, &Tags)| {
        let maker = ResourceOwner::of(tags, settings);
        let phrase = maker.phrase();
        let way_out = match maker {
            ResourceOwner::Us => {
                "remove what bootstrap made with `karpenter bootstrap destroy` first, or stay with --via sdk".to_owned()
            }
            ResourceOwner::Stack(stack) => format!(
                "it may do as it is, ask `karpenter bootstrap check`; to replace it, delete stack `{stack}` first"
            ),
            ResourceOwner::OtherRegion { .. } => OTHER_NAMES.to_owned(),
            _ => "it may do as it is, ask `karpenter bootstrap check`; else choose another name, delete it, or take it \
                  over with `--via sdk --adopt`"
                .to_owned(),
        };
        format!("{what} exists outside the stack{phrase}: {way_out}")
    };
    found.into_iter().map(sentence).collect()
}

/// Makes the change set and waits until it is whole.
pub(super) async fn make(clients: &Clients, spec: &ChangeSetSpec) -> Result<ChangeSet, Error> {
    let step = || format!("make a change set for stack `{}`", spec.stack);
    let failed = |source| Error::Step { step: step(), source };
    let stacks = &clients.cloudformation;
    if !spec.creates {
        stacks.delete_change_set(&spec.stack, &spec.name).await.map_err(failed)?;
    } else if let Err(error) = stacks.delete_change_set(&spec.stack, &spec.name).await
        && !error.is_not_found()
    {
        return Err(failed(error));
    }
    let id: ChangeSetId = stacks.create_change_set(spec).await.map_err(failed)?;
    for _ in 0..CHANGE_SET_LOOKS {
        let found = stacks.describe_change_set(&id).await.map_err(failed)?;
        if !matches!(found.status.as_str(), "CREATE_PENDING" | "CREATE_IN_PROGRESS") {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::StillBusy {
        stack: spec.stack.clone(),
        status: "CREATE_IN_PROGRESS of its change set".to_owned(),
    })
}

/// Result of a whole change set: changes, or nothing.
pub(super) enum Outcome {
    Changes,
    Nothing,
}

/// AWS refuses an empty change set as it refuses a wrong one: only the wording differs.
pub(super) fn refusal(stack: &str, made: &ChangeSet) -> Result<Outcome, Error> {
    if made.status == "CREATE_COMPLETE" {
        return Ok(Outcome::Changes);
    }
    let reason = made.reason.clone().unwrap_or_else(|| made.status.clone());
    if says_nothing_to_change(&reason) {
        return Ok(Outcome::Nothing);
    }
    Err(Error::ChangeSet { stack: stack.to_owned(), reason })
}

/// Deletes the change set, and the stack if it was made for it: there was none `before`. One that was there and holds
/// nothing waits for a change set of another client, which would be deleted with it.
pub(super) async fn forget(
    clients: &Clients,
    spec: &ChangeSetSpec,
    made: &ChangeSet,
    before: Option<&Stack>,
) -> Result<(), Error> {
    let stacks = &clients.cloudformation;
    let outcome = match before {
        None => stacks.delete_stack(&made.stack).await,
        Some(_) => stacks.delete_change_set(&spec.stack, &spec.name).await,
    };
    let step = || format!("delete the change set of stack `{}`", spec.stack);
    outcome.map_err(|source| Error::Step { step: step(), source })
}

/// The stack as it is now, for a caller that has just looked at its name.
pub(super) async fn again(clients: &Clients, stack: &Stack) -> Result<Stack, Error> {
    let found = clients.cloudformation.describe_stack(stack.id.as_str()).await;
    found.map_err(|source| Error::Step { step: format!("look at stack `{}`", stack.name), source })
}
