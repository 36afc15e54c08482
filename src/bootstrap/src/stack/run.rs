//! Brings the stack to the settings, or deletes it, and reports its events on the way.

use karpenter_aws_api::Clients;
use karpenter_aws_api::cloudformation::{Stack, StackEvent};

use super::look::{Outcome, PAUSE, again, forget, make, preflight, refusal, untagging};
use super::{Situation, Target, change_set, find};
use crate::Error;
use crate::apply;
use crate::destroy::{InUse, remains};
use crate::leftovers::Leftovers;
use crate::plan::Plan;
use crate::step::Step;

/// An hour: a stack of ours needs two or three minutes.
const LOOKS: u32 = 1_200;
/// Bringing a stack to rest takes two steps at most: waiting for another client, then undoing what it left.
const ROUNDS: u32 = 4;

/// Event that is worth a line to the user who waits.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Next operation.
    Doing(String),
    /// Event of the stack or of one of its resources.
    Event(&'a StackEvent),
    /// A step outside the stack is done.
    Done(&'a Step),
}

impl<'a> From<apply::Progress<'a>> for Progress<'a> {
    fn from(progress: apply::Progress<'a>) -> Self {
        match progress {
            apply::Progress::Waiting(what) => Self::Doing(what.to_owned()),
            apply::Progress::Done(step) => Self::Done(step),
        }
    }
}

/// Receives the progress.
pub(crate) type Listener<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Creates or changes the stack, then tags the network. Returns whether there was anything to do.
pub async fn apply(target: Target<'_>, tell: Listener<'_>) -> Result<bool, Error> {
    let Target { clients, settings, observed, name, .. } = target;
    let existing = find(clients, settings, name).await?;
    let situation = existing.as_ref().map_or(Situation::Absent, |stack| Situation::of(&stack.status));
    let rest = preflight(target, situation);
    if !rest.conflicts.is_empty() {
        return Err(Error::Conflicts(rest.conflicts));
    }
    let existing = at_rest(target, tell).await?;
    let mut changed = situation.first().is_some();

    let spec = change_set(settings, name, existing.as_ref(), observed.spot_role)?;
    let made = make(clients, &spec).await?;
    match refusal(name, &made) {
        Ok(Outcome::Changes) => {
            let doing = if spec.creates { "create" } else { "change" };
            tell(Progress::Doing(format!("{doing} stack `{name}`: {} resource(s)", made.changes.len())));
            let stack = clients.cloudformation.describe_stack(made.stack.as_str()).await;
            let stack = stack.map_err(failed("look at", name))?;
            let seen = last_event(clients, &stack).await?;
            clients.cloudformation.execute_change_set(&made.id).await.map_err(failed(doing, name))?;
            let ended = watch(clients, &stack, seen, tell).await?;
            if !matches!(ended.stack.status.as_str(), "CREATE_COMPLETE" | "UPDATE_COMPLETE") {
                return Err(ended.error(doing));
            }
            changed = true;
        }
        Ok(Outcome::Nothing) => forget(clients, &spec, &made, existing.as_ref()).await?,
        Err(error) => {
            forget(clients, &spec, &made, existing.as_ref()).await?;
            return Err(error);
        }
    }
    changed |= !rest.steps.is_empty();
    apply::apply(clients, &settings.cluster, &rest, &mut |progress| tell(progress.into())).await?;
    Ok(changed)
}

/// Deletes what the controller left behind, then the stack, then takes our tags off the network. Returns whether there
/// was anything to do.
pub async fn destroy(
    target: Target<'_>,
    leftovers: &Leftovers,
    in_use: InUse,
    tell: Listener<'_>,
) -> Result<bool, Error> {
    let Target { clients, settings, desired, observed, name } = target;
    // Profiles hold the stack's role, which could then not be deleted.
    let first = remains(settings, observed, leftovers, in_use);
    let mut changed = !first.steps.is_empty();
    apply::apply(clients, &settings.cluster, &first, &mut |progress| tell(progress.into())).await?;
    if let Some(mut stack) = find(clients, settings, name).await? {
        changed = true;
        if Situation::of(&stack.status) == Situation::Busy {
            stack = wait(clients, &stack, tell).await?;
        }
        delete(clients, &stack, tell).await?;
    }
    let rest = Plan { steps: untagging(settings, desired, observed), ..Plan::default() };
    changed |= !rest.steps.is_empty();
    apply::apply(clients, &settings.cluster, &rest, &mut |progress| tell(progress.into())).await?;
    Ok(changed)
}

/// Does whatever the stack needs before it can be changed; `None` when there is none, or none any more.
async fn at_rest(target: Target<'_>, tell: Listener<'_>) -> Result<Option<Stack>, Error> {
    let Target { clients, settings, name, .. } = target;
    for _ in 0..ROUNDS {
        let Some(stack) = find(clients, settings, name).await? else { return Ok(None) };
        let situation = Situation::of(&stack.status);
        if let Some(first) = situation.first() {
            tell(Progress::Doing(format!("stack `{name}` is {}: {first}", stack.status)));
        }
        match situation {
            Situation::Absent | Situation::Settled => return Ok(Some(stack)),
            Situation::Busy => drop(wait(clients, &stack, tell).await?),
            Situation::FailedCreation | Situation::FailedDeletion => delete(clients, &stack, tell).await?,
            Situation::StuckRollback => {
                let seen = last_event(clients, &stack).await?;
                let doing = "continue the rollback of";
                clients
                    .cloudformation
                    .continue_update_rollback(&stack.id)
                    .await
                    .map_err(failed(doing, name))?;
                let ended = watch(clients, &stack, seen, tell).await?;
                if ended.stack.status != "UPDATE_ROLLBACK_COMPLETE" {
                    return Err(ended.error(doing));
                }
            }
        }
    }
    let status = find(clients, settings, name).await?.map(|stack| stack.status).unwrap_or_default();
    Err(Error::StillBusy { stack: name.to_owned(), status })
}

/// Waits for the end of what another client began, whatever its result.
async fn wait(clients: &Clients, stack: &Stack, tell: Listener<'_>) -> Result<Stack, Error> {
    let seen = last_event(clients, stack).await?;
    Ok(watch(clients, stack, seen, tell).await?.stack)
}

async fn delete(clients: &Clients, stack: &Stack, tell: Listener<'_>) -> Result<(), Error> {
    tell(Progress::Doing(format!("delete stack `{}`", stack.name)));
    let seen = last_event(clients, stack).await?;
    clients.cloudformation.delete_stack(&stack.id).await.map_err(failed("delete", &stack.name))?;
    let ended = watch(clients, stack, seen, tell).await?;
    if ended.stack.status == "DELETE_COMPLETE" { Ok(()) } else { Err(ended.error("delete")) }
}

/// Stack at rest after an operation.
struct Ended {
    stack: Stack,
    /// Failures on the way, first things first.
    reasons: Vec<String>,
}

impl Ended {
    fn error(self, doing: &'static str) -> Error {
        Error::Stack { doing, stack: self.stack.name, status: self.stack.status, reasons: self.reasons }
    }
}

/// Reports every event after `seen` until nothing is being done to the stack any more.
async fn watch(
    clients: &Clients,
    stack: &Stack,
    mut seen: Option<String>,
    tell: Listener<'_>,
) -> Result<Ended, Error> {
    let mut reasons = Vec::new();
    for _ in 0..LOOKS {
        // The status first: whatever led to it is then among the events.
        let now = again(clients, stack).await?;
        let events = clients.cloudformation.events_after(&stack.id, seen.as_deref()).await;
        for event in events.map_err(failed("read the events of", &stack.name))? {
            if let Some(reason) = event.reason.as_ref().filter(|_| event.status.ends_with("_FAILED")) {
                reasons.push(format!("{}: {reason}", event.logical_id));
            }
            tell(Progress::Event(&event));
            seen = Some(event.id);
        }
        if Situation::of(&now.status) != Situation::Busy {
            return Ok(Ended { stack: now, reasons });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Error::StillBusy { stack: stack.name.clone(), status: stack.status.clone() })
}

async fn last_event(clients: &Clients, stack: &Stack) -> Result<Option<String>, Error> {
    let events = clients.cloudformation.events_after(&stack.id, None).await;
    let events = events.map_err(failed("read the events of", &stack.name))?;
    Ok(events.into_iter().next_back().map(|event| event.id))
}

/// Makes an error of a call about a stack, for `map_err`.
fn failed(doing: &str, stack: &str) -> impl FnOnce(karpenter_aws_api::Error) -> Error {
    let step = format!("{doing} stack `{stack}`");
    move |source| Error::Step { step, source }
}
