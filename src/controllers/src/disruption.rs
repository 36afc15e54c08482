//! `disruption`: decides which machines go and what takes their place, and starts the commands (spec disruption 3.1,
//! 3.14 and 3.15).
//!
//! Every ten seconds, and as soon as a command has taken its place in the cluster, everything is looked at
//! again. Commands that must be quiet first are held and looked at a second time when they are due, all of
//! them at once; a command that starts is carried out by a task of its own, several side by side. Before that
//! the plan is audited. Taints and conditions of commands that no task carries out, left by a crash, are
//! taken back.

mod confirmations;
mod execute;
mod mark;
mod proposals;
mod publish;
mod reboot;
mod running_commands;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karpenter_audit::sound_commands;
use karpenter_engine::disrupt::{Decision, Memory, Standing, confirm, decide};
use karpenter_kube_harness::{compute, queue};
use karpenter_lifecycle::pods::protection;
use karpenter_model::{Command, Snapshot};
use karpenter_telemetry::observe::{self, Outcome};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::buffers;
use crate::pool::instance_types;
use crate::provisioner::audited;
use crate::publish::step::publish_event;
use crate::{Context, Error};
use confirmations::Confirmations;
use execute::Execution;
use proposals::Proposals;
use running_commands::{CommandOutcome, Number, RunningCommands};

pub(crate) const NAME: &str = "disruption";

/// Period between looks when nothing happens.
const POLL: Duration = Duration::from_secs(10);
/// Least time between two looks, however much happens.
const PAUSE: Duration = Duration::from_secs(1);
/// Writes of one command at a time: bounds the burst on the API server, not the command.
const FAN_OUT: usize = 50;

/// Runs until `shutdown`.
pub(crate) async fn run(context: Context, shutdown: CancellationToken) {
    let mut controller = Disruption::new(context, shutdown.clone());
    let mut next = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            () = sleep_until(next) => {}
            () = controller.commands.any_placed() => {
                // Snapshots show its replacements from now on, so the next decision need not wait for the
                // poll.
                next = next.min(Instant::now() + PAUSE);
                continue;
            }
            Some(ended) = controller.executions.join_next() => {
                resume_panic(ended);
                continue;
            }
        }
        let metrics = Arc::clone(&controller.context.metrics);
        // Failures are logged and counted by the wrapper, and the next look starts from what is true then.
        let _reported = observe::pass(&metrics, NAME, "", |outcome| outcome.again(), controller.pass()).await;
        next = Instant::now() + controller.idle();
    }
    let executions = &mut controller.executions;
    let drained = observe::within(queue::DRAIN, async { while executions.join_next().await.is_some() {} });
    if drained.await.is_none() {
        tracing::warn!(commands = executions.len(), "abandoned commands at shutdown");
    }
}

/// A command that panicked would hold its machines for ever, so its panic is ours and ends the process.
fn resume_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

/// State kept from pass to pass. None of it survives the process.
struct Disruption {
    context: Context,
    shutdown: CancellationToken,
    memory: Memory,
    proposals: Proposals,
    commands: RunningCommands,
    confirmations: Confirmations,
    executions: JoinSet<()>,
    publisher: publish::DecisionPublisher,
}

impl Disruption {
    fn new(context: Context, shutdown: CancellationToken) -> Self {
        let publisher = publish::DecisionPublisher::of(&context.metrics);
        let memory = Memory::starting_at(context.now());
        Self {
            context,
            shutdown,
            memory,
            proposals: Proposals::default(),
            commands: RunningCommands::default(),
            confirmations: Confirmations::default(),
            executions: JoinSet::new(),
            publisher,
        }
    }

    /// Time for which nothing has to be looked at: until the next second look is due, if that is sooner.
    fn idle(&self) -> Duration {
        let until = |due| Duration::try_from(self.context.now().duration_until(due)).unwrap_or(PAUSE);
        self.proposals.next().map_or(POLL, |due| until(due).clamp(PAUSE, POLL))
    }

    async fn pass(&mut self) -> Result<Outcome, Error> {
        if buffers::enabled(&self.context) && !self.context.view.knows_buffers() {
            // A machine whose room a buffer counts on would be taken for an empty one.
            return Ok(Outcome::Waiting);
        }
        instance_types::refresh(&self.context, NAME).await;
        // Before the snapshot: a command that takes its place while the pass goes on is in one of the two.
        let shown = self.commands.shown();
        let Some(snapshot) = self.context.snapshot() else {
            return Ok(Outcome::Waiting);
        };
        let snapshot = Arc::new(snapshot);
        publish_protected(&self.context, &snapshot);
        let held = self.commands.nodes();
        let cleaned = mark::take_back_leftovers(&self.context, &snapshot, &held).await;
        let confirmed = self.second_looks(&snapshot, &shown).await;
        // Before anything new is decided, so that the decision takes them into account.
        let mut started = self.start(&snapshot, confirmed).await;
        let decision = self.decide(&snapshot, &shown).await;
        let at_once = self.proposals.sort(decision.commands.clone(), snapshot.now);
        started += self.start(&snapshot, at_once).await;
        // Only at the end: a leftover that cannot be taken back holds up no command.
        let applied = cleaned? || started > 0;
        Ok(if applied { Outcome::Applied } else { Outcome::Skipped })
    }

    /// Looks again at the proposals that are due; returns those that may start, as they may start.
    async fn second_looks(&mut self, snapshot: &Arc<Snapshot>, shown: &BTreeSet<Number>) -> Vec<Command> {
        let due = self.proposals.due(snapshot.now);
        if due.is_empty() {
            return due;
        }
        let (asked, proposed, running) =
            (Arc::clone(snapshot), self.commands.unplaced(shown), self.commands.nodes());
        let (due, answers) = compute::beside(move || {
            let answers = confirm(&asked, &due, &Standing { proposed: &proposed, running: &running });
            (due, answers)
        })
        .await;
        let mut confirmed = Vec::new();
        for (command, answer) in due.into_iter().zip(answers) {
            match answer {
                Ok(fresh) => {
                    publish::shrunk(&self.context, &command, &fresh);
                    confirmed.push(fresh);
                }
                Err(rejection) => {
                    publish::rejected(&self.context, &command, &rejection);
                    self.commands.report(CommandOutcome::Rejected(command, rejection, snapshot.now));
                }
            }
        }
        confirmed
    }

    async fn decide(&mut self, snapshot: &Arc<Snapshot>, shown: &BTreeSet<Number>) -> Arc<Decision> {
        let mut proposed = self.commands.unplaced(shown);
        proposed.extend_from_slice(self.proposals.all());
        // The memory moves to the thread that decides and comes back with the decision: nothing else uses it
        // meanwhile.
        let (asked, running, mut memory) =
            (Arc::clone(snapshot), self.commands.nodes(), std::mem::take(&mut self.memory));
        self.commands.record_outcomes(&mut memory);
        let began = Instant::now();
        let (memory, decision) = compute::beside(move || {
            let standing = Standing { proposed: &proposed, running: &running };
            let decision = decide(&asked, &mut memory, &standing);
            (memory, decision)
        })
        .await;
        self.memory = memory;
        let took = began.elapsed();
        self.context.metrics.scheduler.scheduling_duration_seconds.observe([NAME], took);
        self.publisher.publish(&self.context, snapshot, &decision, took);
        decision
    }

    /// Starts the commands that pass the audit; returns how many.
    async fn start(&mut self, snapshot: &Arc<Snapshot>, commands: Vec<Command>) -> usize {
        if commands.is_empty() {
            return 0;
        }
        let (context, asked) = (self.context.clone(), Arc::clone(snapshot));
        let mut started = 0;
        let sound = move || sound_commands(&asked, commands, |plan| audited(&context, &asked, plan));
        for command in compute::beside(sound).await {
            let (context, commands, confirmations) =
                (self.context.clone(), self.commands.clone(), self.confirmations.clone());
            if command.is_reboot() {
                self.executions.spawn(reboot::run(context, commands, command));
            } else {
                let execution = Execution::new(context, commands, confirmations, command);
                self.executions.spawn(execution.run(self.shutdown.clone()));
            }
            started += 1;
        }
        started
    }
}

/// Publishes the events that explain the do-not-disrupt annotation of pods on our nodes.
fn publish_protected(context: &Context, snapshot: &Snapshot) {
    let ours = snapshot.nodes.iter().filter(|node| node.is_managed());
    let events = ours.flat_map(|node| &node.pods).filter_map(|pod| protection::event(pod, snapshot.now));
    for event in events {
        publish_event(context, &event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "the engine has lost its mind")]
    async fn a_command_that_panics_takes_the_process_with_it() {
        let mut executions = JoinSet::<()>::new();
        executions.spawn(async { panic!("the engine has lost its mind") });
        resume_panic(executions.join_next().await.expect("there is one"));
    }
}
