//! A node being filled, and what would be left of its choices if a demand joined
//! (spec scheduling 13.2 and 14).

use std::collections::BTreeSet;

use karpenter_model::settings::MinValuesPolicy;
use karpenter_model::taint::first_untolerated;
use karpenter_model::{HostPort, HostPorts, ReservationId};

use crate::amounts::Amounts;
use crate::bits::Bits;
use crate::catalogue::Catalogue;
use crate::index::{InFlightIx, PodIx, PoolIx, VariantIx, VolumeIx};
use crate::place::constraint::min_values;
use crate::place::level::Demand;
use crate::place::pool::PoolSpace;
use crate::rules::{RuleSetId, Rules};

/// Possible outcomes of an in-flight node.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) rules: RuleSetId,
    /// Requests of its pods, daemons aside.
    pub(crate) total: Amounts,
    /// Instance types that satisfy both.
    pub(crate) variants: Bits<VariantIx>,
    /// Volumes of its pods that other pods mount too.
    pub(crate) attached: BTreeSet<VolumeIx>,
    /// Reservations it may be launched into: it holds one instance of one of them.
    pub(crate) reserved: BTreeSet<ReservationId>,
}

/// An in-flight node: a claim the plan will create.
#[derive(Debug, Clone)]
pub(crate) struct InFlightNode {
    /// Position of its pool.
    pub(crate) pool: PoolIx,
    pub(crate) state: State,
    /// Host ports of its pods.
    pub(crate) ports: HostPorts,
    /// Positions of its pods in the queue.
    pub(crate) pods: Vec<PodIx>,
    /// Number under which its devices are held; `None` without devices.
    pub(crate) devices: Option<InFlightIx>,
}

impl State {
    /// Returns the initial state of a new node of `space`.
    pub(crate) fn new(space: &PoolSpace<'_>, variants: Bits<VariantIx>) -> Self {
        Self::bare(space.rules, Amounts::default(), variants)
    }

    /// The state of a node that shares no volumes and holds no reservation.
    pub(crate) fn bare(rules: RuleSetId, total: Amounts, variants: Bits<VariantIx>) -> Self {
        Self { rules, total, variants, attached: BTreeSet::new(), reserved: BTreeSet::new() }
    }

    /// Returns the state with the amounts and volumes of `demand` alone: other pods that are expected add theirs when they
    /// join.
    pub(crate) fn with_only(self, demand: &Demand) -> Self {
        let (mut total, mut attached) = (demand.amounts.clone(), BTreeSet::new());
        demand.attach(&mut attached, &mut total);
        Self { total, attached, ..self }
    }

    /// Returns the requirements when `demand` joins with its volumes at `place`; `None` when they exclude each other.
    pub(crate) fn rules_with(
        &self,
        demand: &Demand,
        place: RuleSetId,
        rules: &mut Rules<'_>,
    ) -> Option<RuleSetId> {
        let set = rules.meet(self.rules, demand.rules?)?;
        rules.meet(set, place)
    }

    /// Returns the state after `demand` joins and the requirements become `set`; `None` when no outcome is left.
    /// `lower` decides whether `minValues` may be lowered, which only a new node may do.
    pub(crate) fn join<'a>(
        &self,
        demand: &Demand,
        mut set: RuleSetId,
        space: &PoolSpace<'a>,
        catalogue: &mut Catalogue<'a>,
        rules: &mut Rules<'a>,
        lower: MinValuesPolicy,
    ) -> Option<Self> {
        // Requirements that stay the same have been applied to these instance types already.
        let narrowed = (set != self.rules).then(|| self.variants.and(&catalogue.mask(set, rules).both));
        let mut total = self.total.plus(&demand.amounts);
        let mut attached = self.attached.clone();
        demand.attach(&mut attached, &mut total);
        let allowed = narrowed.as_ref().unwrap_or(&self.variants);
        let variants = fitting(&total, allowed, &demand.host_ports, space, catalogue);
        if variants.is_empty() {
            return None;
        }
        let short = min_values::shortfalls(set, variants.iter(), catalogue, rules);
        if !short.is_empty() {
            if lower == MinValuesPolicy::Strict {
                return None;
            }
            set = min_values::lowered(set, &short, rules);
        }
        Some(Self { rules: set, total, variants, attached, reserved: self.reserved.clone() })
    }
}

/// The instance types of `space` that could host `demand` alone if there were no limits; `None` when none could. An
/// in-flight node is never more than the pool it is from, so what the whole pool cannot host, none of its in-flight
/// nodes can.
pub(crate) fn hosting<'a>(
    demand: &Demand,
    space: &PoolSpace<'a>,
    catalogue: &mut Catalogue<'a>,
    rules: &mut Rules<'a>,
) -> Option<Bits<VariantIx>> {
    if first_untolerated(&space.pool.template.taints, &demand.tolerations).is_some() {
        return None;
    }
    let mut total = demand.amounts.clone();
    demand.attach(&mut BTreeSet::new(), &mut total);
    let empty = State::new(space, Bits::default());
    let mut variants = Bits::default();
    for place in &demand.places {
        if let Some(set) = empty.rules_with(demand, *place, rules) {
            let allowed = space.base.and(&catalogue.mask(set, rules).both);
            variants.unite(&fitting(&total, &allowed, &demand.host_ports, space, catalogue));
        }
    }
    (!variants.is_empty()).then_some(variants)
}

/// Instance types of `allowed` that hold `total` and the daemons that will run there. Where a daemon holds one
/// of `ports`, its whole group is out.
pub(crate) fn fitting(
    total: &Amounts,
    allowed: &Bits<VariantIx>,
    ports: &[HostPort],
    space: &PoolSpace<'_>,
    catalogue: &Catalogue<'_>,
) -> Bits<VariantIx> {
    let (mut fitting, mut scratch) = (Bits::none(catalogue.len()), Bits::default());
    fit(total, allowed, ports, space, catalogue, &mut fitting, &mut scratch);
    fitting
}

/// Computes [`fitting`] into the bits of `fitting`, which are reused; the content of `scratch` is lost.
pub(crate) fn fit(
    total: &Amounts,
    allowed: &Bits<VariantIx>,
    ports: &[HostPort],
    space: &PoolSpace<'_>,
    catalogue: &Catalogue<'_>,
    fitting: &mut Bits<VariantIx>,
    scratch: &mut Bits<VariantIx>,
) {
    fitting.clear();
    for group in &space.daemons {
        if ports.iter().any(|port| group.ports.iter().any(|held| held.conflicts_with(port))) {
            continue;
        }
        scratch.become_both(allowed, &group.variants);
        if !scratch.is_empty() {
            catalogue.keep_fitting(total, &group.overhead, scratch);
            fitting.unite(scratch);
        }
    }
}
