//! Consolidation saves money whatever the launches end up with (spec disruption 3.9 to 3.11): even the most
//! expensive offering a launch may be given costs less than what goes, spot is replaced by spot only with
//! enough choice, and several machines are not replaced by one that could simply have stayed.

use karpenter_model::names::label;
use karpenter_model::plan::command::Candidate;
use karpenter_model::{
    CapacityType, Command, DisruptionReason, InstanceType, InstanceTypeName, Launch, Method, Node, Offering,
    Plan, Price,
};

use crate::finding::{Finding, Rule};
use crate::rules::commands::subject;
use crate::world::World;

/// Fewest instance types that may take over from one spot machine.
const SPOT_TO_SPOT_TYPES: usize = 15;

pub(crate) fn check(world: &World<'_>, plan: &Plan, findings: &mut Vec<Finding>) {
    for command in &plan.commands {
        let mut find = |rule, detail: String| findings.push(Finding::new(rule, subject(command), detail));
        for candidate in &command.candidates {
            let price = bought(world, candidate).map_or(Price::ZERO, |offering| offering.price);
            if price != candidate.price {
                find(
                    Rule::Price,
                    format!("{} costs {price}, not {}", candidate.target.node, candidate.price),
                );
            }
        }
        if command.reason != DisruptionReason::Underutilized || command.replacements.is_empty() {
            continue;
        }
        let wrong = too_dear(world, command).into_iter().chain(same_again(world, command));
        for detail in wrong.chain(incomparable(world, command)) {
            find(Rule::Price, detail);
        }
        for detail in command.replacements.iter().flat_map(|launch| spot(world, command, launch)) {
            find(Rule::Spot, detail);
        }
    }
}

/// The offering the machine of `candidate` was bought through, of its reservation if it has one.
fn bought<'a>(world: &World<'a>, candidate: &Candidate) -> Option<&'a Offering> {
    let node = world.machine(&candidate.target.id);
    let own = |node: &Node| {
        let types = world.snapshot.instance_types.get(&candidate.pool)?;
        let known = types.iter().find(|known| Some(&known.name) == candidate.instance_type.as_ref())?;
        let sold: Vec<_> = known
            .offerings
            .iter()
            .filter(|offering| Some(&offering.zone) == candidate.zone.as_ref())
            .filter(|offering| Some(offering.capacity_type) == candidate.capacity_type)
            .collect();
        let id = world.registry().reservation_id.as_ref().and_then(|key| node.effective_labels().get(key));
        let reserved = sold.iter().find(|offering| {
            let own = offering.reservation.as_ref().map(|reservation| reservation.id.as_str());
            own.is_some() && own == id.map(karpenter_model::LabelValue::as_str)
        });
        reserved.or(sold.first()).copied()
    };
    node.and_then(own)
}

/// Published prices are not compared with estimates. What was paid for ahead costs nothing more.
fn incomparable(world: &World<'_>, command: &Command) -> Option<String> {
    let gone = command.candidates.iter().filter_map(|candidate| bought(world, candidate));
    let launches = command.replacements.iter().flat_map(|launch| {
        let types = world.types_of(launch).into_iter();
        types.flat_map(|known| known.compatible_offerings(&launch.requirements, world.registry()))
    });
    let paid = |offering: &&Offering| offering.capacity_type != CapacityType::Reserved;
    let mut estimated = gone.chain(launches).filter(paid).map(|offering| offering.estimated);
    let first = estimated.next()?;
    let both = estimated.any(|other| other != first);
    both.then(|| "published prices are compared with estimates".to_owned())
}

/// The most `instance_type` may cost when `launch` is launched with it: of what is available, the most
/// expensive reserved offering, else the most expensive spot one, else the most expensive.
fn worst(world: &World<'_>, launch: &Launch, instance_type: &InstanceType) -> Price {
    let sold: Vec<_> = instance_type
        .compatible_offerings(&launch.requirements, world.registry())
        .map(|offering| (offering.capacity_type, offering.price))
        .collect();
    for kind in [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand] {
        if let Some(dearest) = sold.iter().filter(|(own, _)| *own == kind).map(|(_, price)| *price).max() {
            return dearest;
        }
    }
    Price::MAX
}

/// The most expensive outcome of `launch`, with the type that gives it.
fn dearest<'a>(world: &World<'a>, launch: &Launch) -> Option<(Price, &'a InstanceTypeName)> {
    world.types_of(launch).into_iter().map(|known| (worst(world, launch, known), &known.name)).max()
}

fn too_dear(world: &World<'_>, command: &Command) -> Vec<String> {
    let cost: Price = command.candidates.iter().map(|candidate| candidate.price).sum();
    let outcomes: Vec<_> = command.replacements.iter().filter_map(|launch| dearest(world, launch)).collect();
    let worst: Price = outcomes.iter().map(|(price, _)| *price).sum();
    let mut wrong = Vec::new();
    if worst >= cost {
        wrong.push(format!("replacements may cost {worst}, the nodes cost {cost}"));
    }
    if command.method == Method::ManyToMany {
        let rules = &world.snapshot.settings.disruption.many_to_many;
        let saved = i128::from(cost.nanos()) - i128::from(worst.nanos());
        let share = i128::from(cost.nanos()) * i128::from(rules.min_saving_percent);
        if saved < i128::from(rules.min_saving.nanos()) || saved * 100 < share {
            wrong.push(format!("replacements may cost {worst}, too close to {cost}"));
        }
    }
    wrong
}

/// Checks that one machine in place of several is cheaper than each of them whose type it may have.
fn same_again(world: &World<'_>, command: &Command) -> Option<String> {
    let [launch] = &command.replacements[..] else { return None };
    if command.method != Method::MultiNode {
        return None;
    }
    let shared = command.candidates.iter().filter(|candidate| {
        candidate.instance_type.as_ref().is_some_and(|own| launch.instance_types.contains(own))
    });
    let least = shared.map(|candidate| candidate.price).min()?;
    let (worst, name) = dearest(world, launch)?;
    (worst >= least).then(|| format!("may launch `{name}` for {worst}, one of its type costs {least}"))
}

/// Spot and on-demand are not mixed, and spot replaces spot only where that is switched on and leaves choice.
fn spot(world: &World<'_>, command: &Command, launch: &Launch) -> Vec<String> {
    let kinds = launch.requirements.value_of(&label::CAPACITY_TYPE.into());
    let may_be = |kind: CapacityType| {
        kinds.allows(kind.as_str())
            && world.types_of(launch).iter().any(|known| {
                let mut sold = known.compatible_offerings(&launch.requirements, world.registry());
                sold.any(|offering| offering.capacity_type == kind)
            })
    };
    let mut wrong = Vec::new();
    if may_be(CapacityType::Spot) && may_be(CapacityType::OnDemand) {
        wrong.push("may fall back from spot to on-demand".to_owned());
    }
    let all_spot = command.candidates.iter().all(|one| one.capacity_type == Some(CapacityType::Spot));
    if all_spot && may_be(CapacityType::Spot) {
        if !world.snapshot.settings.gates.spot_to_spot_consolidation {
            wrong.push("replaces spot by spot, which is switched off".to_owned());
        }
        let count = launch.instance_types.len();
        if command.candidates.len() == 1 && count < SPOT_TO_SPOT_TYPES {
            wrong.push(format!("replaces spot by spot with a choice of {count}"));
        }
    }
    wrong
}
