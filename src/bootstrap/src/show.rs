//! Plans for people and for tools.

use serde::Serialize;

use crate::plan::Plan;
use crate::step::{Effect, Line, Step};

/// A step as the end of "cannot ...".
pub fn sentence(step: &Step) -> String {
    let line = step.line();
    let verb = match line.effect {
        Effect::Create => "create",
        Effect::Change => "change",
        Effect::Delete => "delete",
    };
    let detail = if line.detail.is_empty() { String::new() } else { format!(" ({})", line.detail) };
    format!("{verb} {} `{}`{detail}", line.object, line.name)
}

/// One line per step, then what stands in the way and what should be known, then the sum.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    for line in plan.steps.iter().map(Step::line) {
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
    for conflict in &plan.conflicts {
        out.push_str(&format!("  ! {conflict}\n"));
    }
    for note in &plan.notes {
        out.push_str(&format!("  note: {note}\n"));
    }
    out.push_str(&summary(plan));
    out.push('\n');
    out
}

/// The plan as JSON, one object per step.
pub fn json(plan: &Plan) -> String {
    #[derive(Serialize)]
    struct Shown<'a> {
        steps: Vec<Line>,
        conflicts: &'a [String],
        notes: &'a [String],
    }
    let shown = Shown {
        steps: plan.steps.iter().map(Step::line).collect(),
        conflicts: &plan.conflicts,
        notes: &plan.notes,
    };
    serde_json::to_string_pretty(&shown).expect("invariant: strings and lists always serialise")
}

/// How much there is to do.
pub fn summary(plan: &Plan) -> String {
    if plan.is_empty() {
        return "nothing to do: the account is as it should be".to_owned();
    }
    let count = |effect| plan.steps.iter().filter(|step| step.line().effect == effect).count();
    let mut text = format!(
        "{} to create, {} to change, {} to delete",
        count(Effect::Create),
        count(Effect::Change),
        count(Effect::Delete)
    );
    if !plan.conflicts.is_empty() {
        text.push_str(&format!("; {} in the way", plan.conflicts.len()));
    }
    text
}
