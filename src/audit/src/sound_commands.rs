//! The commands of a plan that break no rule.

use karpenter_model::{Command, Plan, Snapshot};

use crate::audit;

/// `commands` without those that break a rule. When the whole does, each is judged on top of those that do not, so that one
/// that is wrong stops no other: `is_sound` audits a plan whose last command is the one in question, and returns the findings.
pub fn sound_commands(
    snapshot: &Snapshot,
    commands: Vec<Command>,
    mut is_sound: impl FnMut(&Plan) -> bool,
) -> Vec<Command> {
    let plan = |commands| Plan { revision: snapshot.revision, commands, ..Plan::default() };
    if audit(snapshot, &plan(commands.clone())).is_empty() {
        return commands;
    }
    let mut sound: Vec<Command> = Vec::new();
    for command in commands {
        sound.push(command);
        if !is_sound(&plan(sound.clone())) {
            sound.pop();
        }
    }
    sound
}
