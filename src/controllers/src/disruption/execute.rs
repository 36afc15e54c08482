//! Carries out one command: takes the actions of [`Running::look`] and reports the result (spec disruption 3.15).
//!
//! Each command is a task of its own, so one that waits or fails delays no other. When the process stops, the command
//! stops where it is; the next process takes back what is left of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use karpenter_api::NodeClaim;
use karpenter_kube_harness::write;
use karpenter_lifecycle::command::{self, CommandId, Facts, Failure, Next, Replacement, Running};
use karpenter_lifecycle::pods::nomination::nominated;
use karpenter_model::names::annotation;
use karpenter_model::plan::command::Candidate;
use karpenter_model::{
    Claim, ClaimName, ClaimUid, Command, ConditionType, ConsolidationPolicy, Launch, Target,
};
use karpenter_telemetry::observe::{self, Chain, Outcome};
use kube::ResourceExt;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::FAN_OUT;
use super::confirmations::Confirmations;
use super::mark;
use super::publish;
use super::running_commands::{CommandOutcome, Number, RunningCommands};
use crate::claim::create::{CreateError, create};
use crate::publish::disrupted;
use crate::publish::step::{publish_event, unhealthy};
use crate::{Context, Error};

/// Controller name of a running command in metrics and logs, as in the reference.
const NAME: &str = "disruption.queue";

/// One command being carried out.
pub(super) struct Execution {
    context: Context,
    commands: RunningCommands,
    confirmations: Confirmations,
    number: Number,
    id: CommandId,
    running: Running,
    /// The claims meant, not others that come later under the same names.
    uids: BTreeMap<ClaimName, ClaimUid>,
    /// Names of the replacements that exist.
    replacements: Vec<ClaimName>,
}

impl Execution {
    /// A command that starts now.
    pub(super) fn new(
        context: Context,
        commands: RunningCommands,
        confirmations: Confirmations,
        command: Command,
    ) -> Self {
        let now = context.now();
        let number = commands.begin(command.clone());
        let claims = command.candidates.iter().map(|candidate| &candidate.target.claim);
        let known = claims.filter_map(|name| context.view.claim(name));
        // Fixed at the start: a claim that a person creates under the same name later must not be deleted.
        let uids = known.map(|known| (known.model.name.clone(), known.model.uid.clone())).collect();
        let id = CommandId::new(now, number);
        publish::started(&id, &command);
        let running = Running::new(command, now);
        Self { context, commands, confirmations, number, id, running, uids, replacements: Vec::new() }
    }

    /// Carries the command out, or the part of it before `shutdown`.
    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let metrics = std::sync::Arc::clone(&self.context.metrics);
        let subject = self.id.to_string();
        loop {
            let outcome = |next: &ControlFlow<(), Duration>| {
                if next.is_break() { Outcome::Applied } else { Outcome::Waiting }
            };
            let step = observe::pass(&metrics, NAME, &subject, outcome, self.step());
            // Only rolling back can fail. The wrapper logs it, and the loop takes back what is left.
            let Ok(ControlFlow::Continue(delay)) = step.await else { break };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                () = sleep(delay) => {}
            }
        }
        self.commands.ended(self.number);
    }

    /// One look and what follows from it: how long to wait before the next one, or that the command is over.
    async fn step(&mut self) -> Result<ControlFlow<(), Duration>, Error> {
        let facts = self.facts().await;
        let look = self.running.look(&facts);
        for event in &look.events {
            publish_event(&self.context, event);
        }
        match look.next {
            Next::Mark => self.mark().await,
            Next::Confirm => self.confirm().await,
            Next::Create => self.create().await,
            Next::Delete(claims) => {
                if !self.delete(claims).await {
                    return Ok(ControlFlow::Continue(command::POLL));
                }
            }
            Next::Wait(delay) => return Ok(ControlFlow::Continue(delay)),
            Next::Done { came_up } => {
                tracing::debug!("command-id" = %self.id, came_up, "command is over");
                if came_up {
                    self.commands.report(CommandOutcome::Succeeded(self.running.command().clone()));
                }
                return Ok(ControlFlow::Break(()));
            }
            Next::RollBack(failure) => return self.roll_back(&failure).await.map(ControlFlow::Break),
        }
        Ok(ControlFlow::Continue(Duration::ZERO))
    }

    async fn facts(&self) -> Facts {
        let candidates = self.running.command().candidates.iter().map(|candidate| &candidate.target.claim);
        let leaving = candidates.filter(|claim| self.is_leaving(claim)).cloned().collect();
        let mut replacements = BTreeMap::new();
        for name in &self.replacements {
            replacements.insert(name.clone(), self.replacement(name).await);
        }
        Facts { now: self.context.now(), leaving, replacements, queued: self.commands.queued() }
    }

    fn is_leaving(&self, claim: &ClaimName) -> bool {
        self.context.view.claim(claim).is_none_or(|known| {
            known.model.deletion.is_some() || self.uids.get(claim).is_some_and(|uid| *uid != known.model.uid)
        })
    }

    async fn replacement(&self, name: &ClaimName) -> Replacement {
        let Some(known) = self.context.view.claim(name) else {
            // A watch that broke may have forgotten it for a moment; only the API server's answer shows that it is gone.
            return match write::read(&self.context.all::<NodeClaim>(), name.as_str()).await {
                Ok(None) => Replacement::Missing,
                Ok(Some(_)) | Err(_) => Replacement::Launching,
            };
        };
        let holds = |kind| known.model.is_true(kind);
        match (known.model.deletion.is_some(), holds(ConditionType::Launched)) {
            (true, false) => Replacement::GivenUp,
            (true, true) => Replacement::Failed,
            (false, _) if holds(ConditionType::Initialized) && self.takes_over(&known.model) => {
                Replacement::Initialized
            }
            (false, true) => Replacement::Joining,
            (false, false) => Replacement::Launching,
        }
    }

    /// Returns whether the Node of a replacement can take the pods of the candidates.
    fn takes_over(&self, replacement: &Claim) -> bool {
        let candidates = self.running.command().candidates.iter().map(|candidate| &candidate.target.claim);
        let before: Vec<_> = candidates.filter_map(|name| self.context.view.claim(name)).collect();
        self.context.view.with_cluster(|cluster| {
            let node = |claim: &Claim| {
                let id = claim.provider_id.as_ref()?;
                cluster.nodes_of(id).next().map(|known| Arc::clone(&known.model))
            };
            let before: Vec<_> = before.iter().filter_map(|known| node(&known.model)).collect();
            let before: Vec<_> = before.iter().map(AsRef::as_ref).collect();
            // Without a Node there is nothing to compare: the condition decides, and a lost Node has rules of its own.
            node(replacement).is_none_or(|node| command::takes_over(replacement, &node, &before))
        })
    }

    async fn mark(&mut self) {
        let command = self.running.command();
        let failed = mark::mark(&self.context, &command.candidates, command.reason).await;
        let dropped = self.running.marked(failed);
        self.commands.changed(self.number, self.running.command());
        self.release(&dropped).await;
    }

    /// The look after the taint: pods that came before it may have made the command wrong.
    async fn confirm(&mut self) {
        let asked = self.running.command().clone();
        match self.confirmations.look(&self.context, &self.commands, (self.number, &asked)).await {
            None => self.running.rejected("the cluster is not known completely"),
            Some(Ok(now)) => {
                publish::shrunk(&self.context, &asked, &now);
                let dropped = self.running.confirmed(now);
                self.release(&dropped).await;
            }
            Some(Err(rejection)) => {
                publish::rejected(&self.context, &asked, &rejection);
                self.running.rejected(rejection.detail.as_str());
                self.commands.report(CommandOutcome::Rejected(asked, rejection, self.context.now()));
            }
        }
    }

    /// Takes back candidates that are no longer part of the command. What cannot be taken back now is found again by
    /// the loop, because no command holds the machine any more.
    async fn release(&mut self, dropped: &[Candidate]) {
        if dropped.is_empty() {
            return;
        }
        if let Err(error) = mark::take_back(&self.context, dropped).await {
            tracing::warn!("command-id" = %self.id, error = %Chain(&error), "cannot take back candidates yet");
        }
    }

    /// Creates the replacements; only once all of them exist are the candidates marked in the index, or the
    /// provisioner would launch for their pods as well.
    async fn create(&mut self) {
        let command = self.running.command();
        let reason = command.reason.to_string().to_lowercase();
        let claims = || command.candidates.iter().map(|candidate| &candidate.target.claim);
        let view = std::sync::Arc::clone(&self.context.view);
        let replacing = view.replacing(claims().cloned());
        let creations: Vec<_> =
            command.replacements.iter().map(|launch| created(&self.context, launch, &reason)).collect();
        let results: Vec<_> = stream::iter(creations).buffered(FAN_OUT).collect().await;
        let (mut names, mut errors) = (Vec::new(), Vec::new());
        for result in results {
            match result {
                Ok(name) => names.push(name),
                Err(error) => errors.push(Chain(&error).to_string()),
            }
        }
        if !errors.is_empty() {
            return self.running.not_created(errors.join("; "));
        }
        self.context.view.with_cluster(|cluster| cluster.mark_for_deletion(claims()));
        // Only now: until the candidates are marked this guard alone keeps them out of the limits.
        drop(replacing);
        self.nominate(&names);
        publish::decided(&self.context, command);
        self.commands.report(CommandOutcome::Started(command.clone(), names.clone(), self.context.now()));
        self.replacements.clone_from(&names);
        self.running.created(names);
        self.commands.placed(self.number);
    }

    /// Publishes where pods are expected to go, and keeps those places from being disrupted meanwhile.
    fn nominate(&self, replacements: &[ClaimName]) {
        let (context, command) = (&self.context, self.running.command());
        let existing = command.nominations.iter().map(|one| (one.pod.clone(), one.target.clone()));
        let new = command.replacements.iter().zip(replacements).flat_map(|(launch, name)| {
            launch.pods.iter().map(|pod| (pod.clone(), Target::Claim(name.clone())))
        });
        for (pod, target) in existing.chain(new) {
            context.view.with_cluster(|cluster| cluster.nominate(&target, context.now()));
            if let Some(pod) = context.view.pod(&pod) {
                publish_event(context, &nominated(&pod, &target));
            }
        }
    }

    /// Deletes claims side by side; true when all deletions were accepted.
    async fn delete(&mut self, claims: Vec<ClaimName>) -> bool {
        let asked: BTreeSet<_> = claims.into_iter().collect();
        let candidates: Vec<_> = self.running.left().cloned().collect();
        let wanted = candidates.iter().filter(|candidate| asked.contains(&candidate.target.claim));
        let deletions: Vec<_> = wanted.map(|candidate| self.delete_one(candidate)).collect();
        let accepted: BTreeSet<_> =
            stream::iter(deletions).buffer_unordered(FAN_OUT).filter_map(std::future::ready).collect().await;
        let all = accepted == asked;
        self.running.deleted(accepted);
        all
    }

    async fn delete_one(&self, candidate: &Candidate) -> Option<ClaimName> {
        let (context, name) = (&self.context, &candidate.target.claim);
        // A claim that was created under the same name meanwhile is not meant.
        let uid = self.uids.get(name).map(ToString::to_string);
        // Before the deletion: a crash between the two writes must not leave a drain without an end.
        if let Err(error) = self.bound_drain(name).await {
            tracing::warn!(nodeclaim = %name, error = %Chain(&error), "cannot write the deadline of a drain, trying again");
            return None;
        }
        match write::delete(&context.all::<NodeClaim>(), name.as_str(), uid).await {
            Ok(deleted) => {
                if let Some(known) = context.view.claim(name).filter(|_| deleted) {
                    let reason = self.running.command().reason;
                    let policy = self.policy_of(candidate);
                    disrupted(context, &known.object, Some(&reason.to_string().to_lowercase()), policy);
                    if let Some(repair) = &self.running.command().repair {
                        unhealthy(&context.metrics, &known.model, &repair.condition);
                    }
                    for event in command::terminating(candidate, reason) {
                        publish_event(context, &event);
                    }
                }
                Some(name.clone())
            }
            Err(error) => {
                tracing::warn!(nodeclaim = %name, error = %Chain(&error), "cannot delete nodeclaim, trying again");
                None
            }
        }
    }

    /// Writes the deadline of the drain that a repair bounds: now, so that the time the replacement took is not part of it.
    async fn bound_drain(&self, name: &ClaimName) -> Result<(), Error> {
        let drain = self.running.command().repair.as_ref().and_then(|repair| repair.drain);
        let (Some(drain), Some(known)) = (drain, self.context.view.claim(name)) else { return Ok(()) };
        let Some(at) = command::deadline(&known.model, drain, self.context.now()) else { return Ok(()) };
        let change = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: at}}});
        let claims = self.context.all::<NodeClaim>();
        if let Some(claim) = write::merge(&claims, name.as_str(), &change).await? {
            self.context.view.put_claim(claim);
        }
        Ok(())
    }

    /// Returns the consolidation policy of a candidate's pool if the command consolidates.
    fn policy_of(&self, candidate: &Candidate) -> Option<ConsolidationPolicy> {
        let consolidates = !self.running.command().method.consolidation_type().is_empty();
        let pool = consolidates.then(|| self.context.view.pool(&candidate.pool)).flatten()?;
        Some(pool.model.disruption.policy)
    }

    async fn roll_back(&self, failure: &Failure) -> Result<(), Error> {
        publish::rolled_back(&self.context, &self.id, &self.running, failure);
        if !failure.is_change_of_mind() {
            let (command, now) = (self.running.command().clone(), self.context.now());
            self.commands.report(CommandOutcome::RolledBack(command, failure.clone(), now));
        }
        mark::take_back(&self.context, self.running.left()).await
    }
}

async fn created(context: &Context, launch: &Launch, reason: &str) -> Result<ClaimName, CreateError> {
    create(context, launch, reason).await.map(|claim| claim.name_any().as_str().into())
}
