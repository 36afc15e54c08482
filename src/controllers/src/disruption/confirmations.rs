//! The check of commands after their machines are tainted, batched over all commands that wait for it.
//!
//! A check compiles the whole cluster, which takes time and memory in proportion to its size, and a change of an image starts
//! hundreds of commands. So one check runs at a time: the task that holds the lock checks all commands that wait by then.

use std::sync::Arc;

use karpenter_engine::disrupt::{Rejection, Standing, confirm};
use karpenter_model::Command;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, oneshot};

use super::running_commands::{Number, RunningCommands};
use crate::Context;
use karpenter_kube_harness::compute;

/// Result of a check: the command as it may go on, or the reason for its rejection.
pub(super) type Answer = Result<Command, Rejection>;

/// Queue of commands that wait for their check. Cheap to clone; shared.
#[derive(Clone, Default)]
pub(super) struct Confirmations {
    waiting: Arc<Mutex<Vec<Waiting>>>,
    turn: Arc<Turn<()>>,
}

struct Waiting {
    number: Number,
    command: Command,
    answer: oneshot::Sender<Answer>,
}

impl Confirmations {
    /// Checks a command of `open`; `None` when the cluster is not known completely.
    pub(super) async fn look(
        &self,
        context: &Context,
        open: &RunningCommands,
        (number, command): (Number, &Command),
    ) -> Option<Answer> {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push(Waiting { number, command: command.clone(), answer });
        let turn = self.turn.lock().await;
        // The task that held the lock before has checked this command, too.
        if let Ok(answer) = answered.try_recv() {
            return Some(answer);
        }
        let mut round = std::mem::take(&mut *self.waiting.lock());
        // Commands that began earlier have precedence: the check of each assumes those before it.
        round.sort_by_key(|one| one.number);
        let shown = open.shown();
        // Without a snapshot, each task that waits finds that out by itself.
        let snapshot = context.snapshot()?;
        let (proposed, running) = (open.unplaced(&shown), open.nodes());
        let commands: Vec<Command> = round.iter().map(|one| one.command.clone()).collect();
        let answers = compute::beside(move || {
            confirm(&snapshot, &commands, &Standing { proposed: &proposed, running: &running })
        })
        .await;
        for (one, answer) in round.into_iter().zip(answers) {
            // Before the next round begins: what is promised now must not go in it.
            if let Ok(fresh) = &answer {
                open.changed(one.number, fresh);
            }
            // No task waits any more when the process is about to end.
            let _ended = one.answer.send(answer);
        }
        drop(turn);
        answered.try_recv().ok()
    }
}
