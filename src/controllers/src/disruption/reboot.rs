//! Begins the reboot that a command of repair asks for. Its further course is recorded on the claim, where
//! `nodeclaim.reboot` reads it, so the command is over as soon as that is written.

use karpenter_api::NodeClaim;
use karpenter_kube_harness::write;
use karpenter_lifecycle::command::CommandId;
use karpenter_lifecycle::node::reboot;
use karpenter_lifecycle::step::{Effect, Step};
use karpenter_model::Command;
use karpenter_telemetry::observe::Chain;

use super::publish;
use super::running_commands::{CommandOutcome, RunningCommands};
use crate::pass::draft::Draft;
use crate::{Context, Error};

/// Requests the reboot of the machine of `command`; what fails is decided again by the next look.
pub(super) async fn run(context: Context, commands: RunningCommands, command: Command) {
    let number = commands.begin(command.clone());
    let id = CommandId::new(context.now(), number);
    publish::started(&id, &command);
    match request(&context, &command).await {
        Ok(true) => {
            publish::decided(&context, &command);
            commands.report(CommandOutcome::Started(command, Vec::new(), context.now()));
        }
        Ok(false) => tracing::debug!("command-id" = %id, "the node is being rebooted or removed already"),
        Err(error) => {
            tracing::warn!("command-id" = %id, error = %Chain(&error), "cannot request a reboot, deciding again");
        }
    }
    commands.ended(number);
}

/// Writes what begins the reboot on the claim as it is on the server; false where there is nothing to begin.
async fn request(context: &Context, command: &Command) -> Result<bool, Error> {
    let (Some(candidate), Some(repair)) = (command.candidates.first(), &command.repair) else {
        return Ok(false);
    };
    let claims = context.all::<NodeClaim>();
    let name = candidate.target.claim.as_str();
    // The decision was made on a snapshot, and a reboot that has begun cannot be taken back.
    let Some(present) = write::read(&claims, name).await? else { return Ok(false) };
    context.view.put_claim(present);
    let Some(known) = context.view.claim(&candidate.target.claim) else { return Ok(false) };
    let Some(step) = reboot::request(&known.model, repair) else { return Ok(false) };
    let mut draft = Draft::of(&known, context.now());
    draw(&mut draft, &step);
    // First: the conditions make the reboot begin.
    if let Some(patch) = draft.metadata_patch() {
        let Some(claim) = write::merge(&claims, name, &patch).await? else { return Ok(false) };
        let known = context.view.put_claim(claim);
        draft = Draft::new(known, context.now());
        draw(&mut draft, &step);
    }
    let Some(patch) = draft.status_patch(draft.base()) else { return Ok(false) };
    let Some(claim) = write::merge_status(&claims, name, &patch).await? else { return Ok(false) };
    context.view.put_claim(claim);
    Ok(true)
}

fn draw(draft: &mut Draft, step: &Step) {
    for effect in &step.effects {
        match effect {
            Effect::ForgetAnnotations(keys) => draft.forget_annotations(keys),
            Effect::AnnotateClaim(annotations) => draft.annotate(annotations),
            _ => {}
        }
    }
    for change in &step.conditions {
        draft.change(change);
    }
}
