//! The second opinion: every rule a plan must keep, re-derived from the specification.
//!
//! Shares nothing with the planner but the model, and prefers the obvious computation to the fast one: a
//! checker that is as clever as what it checks proves nothing. What a finding is about is not applied;
//! [`sound_part`] is the rest of the plan.
//!
//! Soft rules (`PreferNoSchedule`, preferences) are not checked, because a plan may relax them.

mod afterwards;
mod cron;
mod default_spread;
mod finding;
mod places;
mod rules;
mod sound_commands;
mod sound_part;
mod world;

use karpenter_model::{Plan, Snapshot};

pub use finding::{Finding, Rule, Subject};
pub use sound_commands::sound_commands;
pub use sound_part::{SoundPart, sound_part};

/// Everything wrong with `plan` as an answer to `snapshot`; empty for a sound plan. Findings come in a fixed
/// order: by rule family, then in plan order.
pub fn audit(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    audit_in(&world::World::new(&default_spread::given(snapshot, plan)), plan)
}

/// Audits `plan` with `world`, which keeps what it looked up for one plan of its snapshot for the next.
fn audit_in(world: &world::World<'_>, plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    rules::placement::check(world, plan, &mut findings);
    rules::devices::check(world, plan, &mut findings);
    places_hold(world, plan, Others::Waiting, &mut findings);
    if !plan.commands.is_empty() {
        rules::commands::check(world, plan, &mut findings);
        rules::candidates::check(world, plan, &mut findings);
        rules::budgets::check(world, plan, &mut findings);
        rules::evictions::check(world, plan, &mut findings);
        rules::candidates::repair::check(world, plan, &mut findings);
        rules::savings::check(world, plan, &mut findings);
        rules::scores::check(world, plan, &mut findings);
        let after = afterwards::Afterwards::of(world.snapshot, plan);
        let world = world::World::new(&after.snapshot);
        rules::homes::check(&world, plan, &mut findings);
        let others = if after.others_wait { Others::Unknown } else { Others::Waiting };
        places_hold(&world, &after.plan, others, &mut findings);
    }
    findings
}

/// State of the pods that the plan does not mention.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// They wait, so they are nowhere.
    Waiting,
    /// They wait, but were taken to be somewhere when the plan was made.
    Unknown,
}

/// Every claim of `plan` is sound and every pod it places may go there.
fn places_hold(world: &world::World<'_>, plan: &Plan, others: Others, findings: &mut Vec<Finding>) {
    for launch in &plan.launches {
        rules::template::check(world, launch, findings);
        rules::instance_types::check(world, launch, findings);
        rules::requirements::check_launch(world, launch, findings);
        rules::taints::check_launch(world, launch, findings);
        rules::capacity::check_launch(world, launch, findings);
        rules::ports::check_launch(world, launch, findings);
    }
    rules::existing::check(world, plan, findings);
    let places = places::Places::new(world, plan);
    rules::topology::anti_affinity::check(world, &places, findings);
    if others == Others::Waiting {
        rules::topology::spread::check(world, &places, findings);
        rules::topology::pod_affinity::check(world, &places, findings);
    }
    rules::volumes::check(world, plan, &places, findings);
    rules::reservations::check(world, plan, findings);
    rules::limits::check(world, plan, findings);
}
