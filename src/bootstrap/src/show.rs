//! Plans for people and for tools.

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::Plan;
use crate::stack;
use crate::step::{Effect, Line, Step};

/// One line per step, then what stands in the way and what should be known, then the sum.
pub fn text(plan: &Plan) -> String {
    lines_text(&lines(plan), &plan.conflicts, &plan.notes)
}

/// The plan of a stack and of what belongs with it.
pub fn stack_text(plan: &stack::look::Plan) -> String {
    format!("stack {}\n{}", plan.stack, lines_text(&plan.lines(), &plan.rest.conflicts, &plan.rest.notes))
}

fn lines(plan: &Plan) -> Vec<Line> {
    plan.steps.iter().map(Step::line).collect()
}

fn lines_text(lines: &[Line], conflicts: &[String], notes: &[String]) -> String {
    let mut out = String::new();
    for line in lines {
        let sign = match line.effect {
            Effect::Create => '+',
            Effect::Change => '~',
            Effect::Delete => '-',
        };
        out.push_str(&format!("  {sign} {} {}", line.object, line.name));
        if !line.detail.is_empty() {
            out.push_str(&format!(": {}", line.detail));
        }
        out.push('\n');
    }
    for conflict in conflicts {
        out.push_str(&format!("  ! {conflict}\n"));
    }
    for note in notes {
        out.push_str(&format!("  note: {note}\n"));
    }
    out.push_str(&sum(lines, conflicts));
    out.push('\n');
    out
}

/// A plan for tools.
#[derive(Serialize, JsonSchema)]
pub struct Shown<'a> {
    /// Name of the stack, where the account is changed by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a str>,
    /// Changes, in the order in which `apply` makes them.
    steps: Vec<Line>,
    /// Things of others that are in the way; with one of them `apply` changes nothing.
    conflicts: &'a [String],
    /// Remarks that need no change.
    notes: &'a [String],
}

/// The plan for tools.
pub fn shown(plan: &Plan) -> Shown<'_> {
    Shown { stack: None, steps: lines(plan), conflicts: &plan.conflicts, notes: &plan.notes }
}

/// The plan of a stack for tools.
pub fn shown_stack(plan: &stack::look::Plan) -> Shown<'_> {
    let (conflicts, notes) = (&plan.rest.conflicts, &plan.rest.notes);
    Shown { stack: Some(&plan.stack), steps: plan.lines(), conflicts, notes }
}

/// Returns the number of things to do, in words.
pub fn summary(plan: &Plan) -> String {
    sum(&lines(plan), &plan.conflicts)
}

fn sum(lines: &[Line], conflicts: &[String]) -> String {
    if lines.is_empty() && conflicts.is_empty() {
        return "nothing to do: the account is as it should be".to_owned();
    }
    let count = |effect| lines.iter().filter(|line| line.effect == effect).count();
    let mut text = format!(
        "{} to create, {} to change, {} to delete",
        count(Effect::Create),
        count(Effect::Change),
        count(Effect::Delete)
    );
    if !conflicts.is_empty() {
        text.push_str(&format!("; {} in the way", conflicts.len()));
    }
    text
}
