//! Reasons why a pool cannot open an in-flight node for a demand: evaluated once per demand, after everything else
//! has failed (spec scheduling 14, error bookkeeping).
//!
//! Checks go in the order in which [`ReasonCode`] declares its reasons, so that the greatest reason is the one of
//! the pool that comes closest: a pool names limits only where it would host the demand without them.

mod near_miss;

use std::collections::BTreeSet;
use std::fmt::Write;

use karpenter_model::report::ReasonCode;
use karpenter_model::resources;
use karpenter_model::taint::untolerated;
use karpenter_model::{HostPort, Reason, Requirements, Resources, Undefined};

use crate::amounts::{ResourceIndex, looks_like_mega};
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::daemons::DaemonGroup;
use crate::index::{ProfileIx, VariantIx};
use crate::place::constraint::limits::Limits;
use crate::place::constraint::min_values;
use crate::place::devices::Holdings;
use crate::place::in_flight;
use crate::place::level::Demand;
use crate::place::pool::PoolSpace;
use crate::place::topology::Topology;
use crate::rules::{RuleSetId, Rules};
use near_miss::Refused;

/// State that placement has changed so far, as far as it can make a pool refuse a pod.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances<'s, 'a> {
    /// Resources that the pool may still add.
    pub(crate) limits: &'s Limits,
    /// Profile of the pod, where other pods matter.
    pub(crate) others: Option<(&'s Topology, ProfileIx)>,
    /// The devices that are taken.
    pub(crate) devices: Option<&'s Holdings<'a>>,
}

/// The reason why `space` refuses `demand`.
pub(crate) fn explain<'a>(
    demand: &Demand,
    circumstances: Circumstances<'_, 'a>,
    space: &PoolSpace<'a>,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
    resources: &ResourceIndex,
) -> Reason {
    let Some(asked) = demand.rules else {
        return Reason::new(ReasonCode::Requirements, "requirements of the pod contradict each other");
    };
    let Some(set) = rules.meet(space.rules, asked) else {
        return requirements_clash(&rules.requirements(space.rules), &rules.requirements(asked), rules);
    };
    let Some(set) = demand.places.iter().find_map(|place| rules.meet(set, *place)) else {
        return volumes_clash(demand, set, rules);
    };
    let taints: Vec<String> =
        untolerated(&space.pool.template.taints, &demand.tolerations).map(ToString::to_string).collect();
    if !taints.is_empty() {
        return Reason::new(ReasonCode::Taint, taints.join(", "));
    }
    if let Some(port) = held_by_daemons(demand, space) {
        return Reason::new(ReasonCode::HostPort, format_args!("{port} is held by a daemon"));
    }
    let requirements = rules.requirements(set);
    let mask = catalogue.mask(set, rules);
    let mut wanted = demand.amounts.clone();
    demand.attach(&mut BTreeSet::new(), &mut wanted);
    let criteria = Criteria {
        requirements: mask.requirements.and(&space.base),
        fits: in_flight::fitting(&wanted, &space.base, &demand.host_ports, space, catalogue),
        offerings: mask.offerings.and(&space.base),
    };
    let left = criteria.requirements.and(&criteria.fits).and(&criteria.offerings);
    if !left.is_empty() {
        if let Some(reason) = circumstances
            .devices
            .and_then(|held| without_devices(demand, set, &left, space, catalogue, rules, held))
        {
            return reason;
        }
        return beyond_types(circumstances, set, &left, space, catalogue, rules);
    }
    let mut detail = format!("{}, requirements={requirements}, {}", criteria.verdict(), needs(demand, space));
    let mut refused =
        Refused { demand, wanted: &wanted, set, criteria: &criteria, space, catalogue, rules, resources };
    if let Some(miss) = refused.nearest() {
        let _ = write!(detail, "; {miss}");
    }
    if looks_like_mega(demand.requests.amount(resources::CPU)) {
        detail.push_str(" (did you mean `m` instead of `M`?)");
    }
    Reason::new(ReasonCode::InstanceTypes, detail)
}

/// Returns the problem with the devices of the types `left`, for a pod with claims.
fn without_devices<'a>(
    demand: &Demand,
    set: RuleSetId,
    left: &Bits<VariantIx>,
    space: &PoolSpace<'a>,
    catalogue: &Catalogue<'a>,
    rules: &mut Rules<'a>,
    devices: &Holdings<'_>,
) -> Option<Reason> {
    if demand.claims.is_empty() {
        return None;
    }
    let variants = left.iter().map(|variant| &catalogue.variant(variant).instance_type.name);
    let names: Vec<_> = variants.collect::<BTreeSet<_>>().into_iter().collect();
    let requirements = rules.whole(set);
    let types = (&space.pool.name, names.as_slice());
    devices.propose(None, &demand.claims, types, &requirements, &mut |_, _| true).err()
}

/// The reason where the types `left` would do if nothing but they mattered.
fn beyond_types<'a>(
    Circumstances { limits, others, .. }: Circumstances<'_, 'a>,
    set: RuleSetId,
    left: &Bits<VariantIx>,
    space: &PoolSpace<'a>,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
) -> Reason {
    let allowed = match limits.admit(catalogue, left) {
        Ok(allowed) => allowed,
        Err(reason) => return reason,
    };
    let short = min_values::shortfalls(set, allowed.iter(), catalogue, rules);
    // Where no rule about other pods applies, `minValues` are all that is left to refuse.
    let Some((topology, profile)) = others.filter(|_| short.is_empty()) else {
        return min_values::reason(&short);
    };
    if let Some(kept_off) = topology.kept_off_by(profile, space, &allowed) {
        return Reason::new(ReasonCode::Topology, kept_off);
    }
    // A domain that other pods leave may be too narrow for the pool.
    if rules.has_min_values(set) {
        let whole = rules.whole(set);
        let choices = topology.choices((profile, None), &whole, space, rules.registry(), &mut |_, _| None);
        for choice in choices.sets(rules) {
            let Some(set) = rules.meet(set, choice) else { continue };
            let allowed = allowed.and(&catalogue.mask(set, rules).both);
            let short = min_values::shortfalls(set, allowed.iter(), catalogue, rules);
            if !short.is_empty() {
                return min_values::reason(&short);
            }
        }
    }
    Reason::new(ReasonCode::Topology, topology.explain(profile))
}

fn volumes_clash(demand: &Demand, set: RuleSetId, rules: &Rules<'_>) -> Reason {
    if !demand.tied.is_empty() {
        return Reason::new(ReasonCode::VolumeTopology, demand.tied.join(", "));
    }
    // Host names too, which the text of a set leaves out: a volume may be on one host only.
    let text = |place: &RuleSetId| {
        let requirements = rules.requirements(*place);
        requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let places: Vec<String> = demand.places.iter().map(text).collect();
    let detail = match places.as_slice() {
        [] => "they can never be attached to one machine".to_owned(),
        places => {
            format!("they need {}, the rest asks for {}", places.join(" or "), rules.requirements(set))
        }
    };
    Reason::new(ReasonCode::VolumeTopology, detail)
}

/// A port of the demand that some daemon holds on every instance type.
fn held_by_daemons(demand: &Demand, space: &PoolSpace<'_>) -> Option<HostPort> {
    let held =
        |port: &HostPort, group: &DaemonGroup| group.ports.iter().any(|held| held.conflicts_with(port));
    let everywhere = |port: &&HostPort| space.daemons.iter().all(|group| held(port, group));
    demand.host_ports.iter().find(everywhere).copied()
}

fn requirements_clash(existing: &Requirements, asked: &Requirements, rules: &Rules<'_>) -> Reason {
    match existing.compatible(asked, Undefined::WellKnown(rules.registry())) {
        Err(clash) => Reason::new(ReasonCode::Requirements, clash),
        Ok(()) => Reason::new(ReasonCode::Requirements, asked),
    }
}

/// Requests including daemons: one amount, or the span when daemons differ by instance type.
fn needs(demand: &Demand, space: &PoolSpace<'_>) -> String {
    let overheads = || space.daemons.iter().map(|group| &group.requests);
    let least = Resources::min(overheads()).merge(&demand.requests);
    let most = Resources::max(overheads()).merge(&demand.requests);
    if least == most { format!("resources={least}") } else { format!("resources=min={least}, max={most}") }
}

/// Instance types that meet each criterion on its own.
pub(super) struct Criteria {
    pub(super) requirements: Bits<VariantIx>,
    pub(super) fits: Bits<VariantIx>,
    pub(super) offerings: Bits<VariantIx>,
}

impl Criteria {
    /// The most telling sentence: what no type does, or what those that do the rest lack.
    fn verdict(&self) -> &'static str {
        let Self { requirements, fits, offerings } = self;
        match (requirements.is_empty(), fits.is_empty(), offerings.is_empty()) {
            (true, true, true) => {
                "no instance type met the requirements, had enough resources or had an offering"
            }
            (true, true, false) => "no instance type met the requirements or had enough resources",
            (true, false, true) => "no instance type met the requirements or had a matching offering",
            (false, true, true) => "no instance type had enough resources or a matching offering",
            (true, false, false) => "no instance type met all requirements",
            (false, true, false) => "no instance type had enough resources",
            (false, false, true) => "no instance type had a matching offering",
            (false, false, false) if requirements.meets(fits) => {
                "no instance type that met the requirements and had enough resources had a matching offering"
            }
            (false, false, false) if fits.meets(offerings) => {
                "no instance type that had enough resources and a matching offering met the requirements"
            }
            (false, false, false) if requirements.meets(offerings) => {
                "no instance type that met the requirements and had a matching offering had enough resources"
            }
            (false, false, false) => {
                "no instance type met the requirements, had enough resources and had a matching offering"
            }
        }
    }
}
