//! Commands look like what their method may propose (spec disruption 3.1).

pub(crate) mod terminate_first;

use karpenter_model::{Command, Launch, Method, Plan, Price};

use crate::finding::{Finding, Rule, Subject};
use crate::world::{World, is_for_static};

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    for command in &plan.commands {
        let subject = subject(command);
        let first = terminate_first::check(world, command);
        for detail in shape(world, command).into_iter().chain(from_template(world, command)).chain(first) {
            findings.push(Finding::new(Rule::Command, subject.clone(), detail));
        }
        let settings = &world.snapshot.settings;
        let switched_off = match command.method {
            Method::Repair => world.snapshot.repair.is_empty(),
            Method::StaticDrift => !settings.gates.static_capacity,
            Method::ManyToMany => !settings.disruption.many_to_many.enabled,
            Method::Emptiness | Method::Drift | Method::MultiNode | Method::SingleNode => false,
        };
        if switched_off {
            findings.push(Finding::new(Rule::Command, subject, "comes from a method that is switched off"));
        }
    }
}

/// Returns the name of a command in findings.
pub(crate) fn subject(command: &Command) -> Subject {
    let nodes: Vec<&str> = command.nodes().map(karpenter_model::NodeId::as_str).collect();
    Subject::Command(format!("{:?} [{}]", command.method, nodes.join(", ")))
}

fn shape(world: &World<'_>, command: &Command) -> Vec<String> {
    let fixed = is_for_static(world.snapshot, command);
    let (gone, new) = (command.candidates.len(), command.replacements.len());
    let (most_gone, most_new) = match command.method {
        Method::Repair if command.is_reboot() => (1, 0),
        Method::Emptiness => (usize::MAX, 0),
        Method::Drift | Method::Repair => (1, usize::MAX),
        Method::MultiNode => (usize::MAX, 1),
        Method::StaticDrift | Method::SingleNode => (1, 1),
        Method::ManyToMany => (usize::MAX, usize::MAX),
    };
    let least_gone = if matches!(command.method, Method::MultiNode | Method::ManyToMany) { 2 } else { 1 };
    let mut wrong = Vec::new();
    if !(least_gone..=most_gone).contains(&gone) || new > most_new {
        wrong.push(format!("removes {gone} nodes for {new}"));
    }
    if command.reason != command.method.reason() {
        wrong.push(format!("says its reason is {}", command.reason));
    }
    if (fixed || command.is_reboot() || command.method == Method::Emptiness)
        && !command.nominations.is_empty()
    {
        wrong.push("sends pods somewhere".to_owned());
    }
    let cost: Price = command.candidates.iter().map(|candidate| candidate.price).sum();
    let cheapest = command.replacements.iter().filter_map(|launch| launch.cheapest.as_ref());
    let replacement: Price = cheapest.map(|offering| offering.price).sum();
    // A node that is rebooted costs what it did.
    let cost = if command.is_reboot() { Price::ZERO } else { cost };
    let stated = fixed || command.savings == cost.saturating_sub(replacement);
    if !stated {
        wrong.push(format!("saves {cost} less {replacement}, not {}", command.savings));
    }
    wrong
}

/// The replacement of a static machine is what the template of its pool says, not narrowed and for no pod.
fn from_template(world: &World<'_>, command: &Command) -> Vec<String> {
    if !is_for_static(world.snapshot, command) || command.terminate_first || command.is_reboot() {
        return Vec::new();
    }
    let ([gone], [launch]) = (&command.candidates[..], &command.replacements[..]) else {
        return vec!["does not replace one node by one".to_owned()];
    };
    let Some(pool) = world.pool(&gone.pool) else { return Vec::new() };
    let plain = Launch::from_template(pool, &world.snapshot.settings, world.registry());
    if *launch == plain { Vec::new() } else { vec!["replacement differs from the template".to_owned()] }
}
