//! The second opinion: every rule a plan must keep, re-derived from the specification.
//!
//! Shares nothing with the planner but the model, and prefers the obvious computation to the fast one: a
//! checker that is as clever as what it checks proves nothing. A plan with a finding is refused by whoever
//! was about to apply it.
//!
//! Soft rules (`PreferNoSchedule`, preferences) are not checked, because a plan may relax them.

mod finding;
mod places;
mod rules;
mod world;

use karpenter_model::{Plan, Snapshot};

pub use finding::{Finding, Rule};

/// Everything wrong with `plan` as an answer to `snapshot`; empty for a sound plan. Findings come in a fixed
/// order: by rule family, then in plan order.
pub fn audit(snapshot: &Snapshot, plan: &Plan) -> Vec<Finding> {
    let world = world::World::new(snapshot);
    let mut findings = Vec::new();
    rules::placement::check(&world, plan, &mut findings);
    for launch in &plan.launches {
        rules::template::check(&world, launch, &mut findings);
        rules::instance_types::check(&world, launch, &mut findings);
        rules::requirements::check_launch(&world, launch, &mut findings);
        rules::taints::check_launch(&world, launch, &mut findings);
        rules::capacity::check_launch(&world, launch, &mut findings);
        rules::ports::check_launch(&world, launch, &mut findings);
    }
    rules::existing::check(&world, plan, &mut findings);
    rules::anti_affinity::check(&world, plan, &mut findings);
    let places = places::Places::new(&world, plan);
    rules::spread::check(&world, &places, &mut findings);
    rules::pod_affinity::check(&world, &places, &mut findings);
    rules::volumes::check(&world, plan, &mut findings);
    rules::reservations::check(&world, plan, &mut findings);
    rules::limits::check(&world, plan, &mut findings);
    rules::removals::check(&world, plan, &mut findings);
    rules::budgets::check(&world, plan, &mut findings);
    findings
}
