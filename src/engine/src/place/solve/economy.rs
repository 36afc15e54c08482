//! The second stage: bins that cost more than two smaller ones would are split.
//!
//! Placing fills the bins that are open before it opens others, as users of the reference expect. Where sizes are
//! coarse that is dear: one pod too many turns a machine of four cores into one of eight. Once every pod has its
//! place, each bin is compared with what two bins for the same pods would cost.
//!
//! A split keeps the requirements of the bin on both sides, so whatever was true of the bin (zones, taints, volumes,
//! rules about domains) stays true, and rules that keep pods apart on hosts hold all the more. Bins for which more
//! machines could be wrong are left alone: pools with limits, reservations, `minValues`, host ports, shared volumes,
//! and pods that must share a host.

use karpenter_model::Price;

use super::Solver;
use crate::amounts::Amounts;
use crate::place::bin::{self, Bin, State};
use crate::place::class::Class;

/// Most splits that are considered in a pass, so that it stays fast however many bins there are.
const MOST_CONSIDERED: usize = 4_000;
/// Up to so many pods every way to split a bin is considered; above, only cuts of its pods in order of size.
const FEW: usize = 7;
/// Most such cuts.
const MOST_CUTS: usize = 15;
/// The part of the price, in percent, that a split must save to be worth another machine.
const LEAST_SAVING: i64 = 5;

/// One way to split a bin.
struct Split {
    price: Price,
    stays: (State, Vec<usize>),
    leaves: (State, Vec<usize>),
}

impl Solver<'_> {
    /// Splits bins as long as that saves money.
    pub(super) fn economise(&mut self) {
        let mut left = MOST_CONSIDERED;
        let mut number = 0;
        while number < self.bins.len() && left > 0 {
            match self.best_split(number, &mut left) {
                Some(split) => self.split(number, split),
                None => number += 1,
            }
        }
    }

    fn split(&mut self, number: usize, split: Split) {
        let Split { stays, leaves, .. } = split;
        let bin = &mut self.bins[number];
        let pool = bin.pool;
        (bin.state, bin.pods) = stays;
        let (state, pods) = leaves;
        self.bins.push(Bin { pool, state, ports: Default::default(), pods });
    }

    /// The cheapest way to split bin `number`, if it saves enough.
    fn best_split(&mut self, number: usize, left: &mut usize) -> Option<Split> {
        if !self.may_split(number) {
            return None;
        }
        let bin = &self.bins[number];
        let catalogue = &mut self.pools.catalogues[self.pools.spaces[bin.pool].catalogue];
        let price = catalogue.least_price(bin.state.rules, &bin.state.shapes, &self.rules)?;
        let enough = Price::from_nanos(price.nanos() - price.nanos() / 100 * LEAST_SAVING);
        let mut pods = bin.pods.clone();
        // The queue has the large ones first.
        pods.sort_unstable();
        let mut best: Option<Split> = None;
        for way in ways(pods.len()) {
            if *left == 0 {
                break;
            }
            *left -= 1;
            let bound = best.as_ref().map_or(enough, |best| best.price);
            let split = self.priced(number, &pods, way);
            if let Some(split) = split.filter(|split| split.price < bound) {
                best = Some(split);
            }
        }
        best
    }

    /// Whether bin `number` can be split without a second thought.
    fn may_split(&self, number: usize) -> bool {
        let bin = &self.bins[number];
        let State { rules, attached, reserved, .. } = &bin.state;
        let free = |index: &usize| match &self.classes[self.queue[*index].1] {
            Class::Refused(_) => false,
            Class::Wants(wants) => wants.iter().all(|want| {
                let sharing = self.wants.profile(*want).is_some_and(|id| self.topology.shares_hosts(id));
                !sharing && self.wants.ask(*want).host_ports.is_empty()
            }),
        };
        bin.pods.len() > 1
            && self.pools.spaces[bin.pool].limits.is_unlimited()
            && reserved.is_empty()
            && attached.is_empty()
            && !self.rules.has_min_values(*rules)
            && bin.pods.iter().all(free)
    }

    /// What bin `number` costs if it is split `way`; `None` when a side is possible nowhere.
    fn priced(&mut self, number: usize, pods: &[usize], way: Way) -> Option<Split> {
        let (leaving, staying): (Vec<usize>, Vec<usize>) =
            (0..pods.len()).partition(|place| way.takes(*place));
        let of = |places: Vec<usize>| -> Vec<usize> { places.into_iter().map(|place| pods[place]).collect() };
        let (leaving, staying) = (of(leaving), of(staying));
        let mut total = Amounts::default();
        for index in &leaving {
            if let Class::Wants(wants) = &self.classes[self.queue[*index].1] {
                wants.first().iter().for_each(|want| total.add(&self.wants.ask(**want).amounts));
            }
        }
        let mut rest = self.bins[number].state.total.clone();
        rest.subtract(&total);
        let (leaves, first) = self.side(number, total)?;
        let (stays, second) = self.side(number, rest)?;
        let price = first.saturating_add(second);
        Some(Split { price, stays: (stays, staying), leaves: (leaves, leaving) })
    }

    /// A bin like bin `number` that holds `total`, and its least price.
    fn side(&mut self, number: usize, total: Amounts) -> Option<(State, Price)> {
        let bin = &self.bins[number];
        let space = &self.pools.spaces[bin.pool];
        let catalogue = &mut self.pools.catalogues[space.catalogue];
        let allowed = space.base.and(&catalogue.mask(bin.state.rules, &self.rules).both);
        let shapes = bin::fitting(&total, &allowed, &[], space, catalogue);
        let price = catalogue.least_price(bin.state.rules, &shapes, &self.rules)?;
        Some((State { total, shapes, ..bin.state.clone() }, price))
    }
}

/// Which pods of a bin leave, by place in order of size; the first stays.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Those whose bit is set.
    These(usize),
    /// All from this place on.
    From(usize),
}

impl Way {
    fn takes(self, place: usize) -> bool {
        match self {
            Self::These(places) => places >> place & 1 == 1,
            Self::From(first) => place >= first,
        }
    }
}

/// The ways to split `pods` pods that are considered.
fn ways(pods: usize) -> Vec<Way> {
    if pods <= FEW {
        return (1..1 << (pods - 1)).map(|others| Way::These(others << 1)).collect();
    }
    let mut cuts: Vec<usize> = (1..=MOST_CUTS).map(|cut| pods * cut / (MOST_CUTS + 1)).collect();
    cuts.dedup();
    cuts.into_iter().filter(|cut| *cut > 0).map(Way::From).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pods_are_split_in_every_way_and_many_at_some_places() {
        assert_eq!(ways(1).len(), 0);
        assert_eq!(ways(3).len(), 3, "{{1}}, {{2}} and both leave the first");
        assert!(ways(FEW).iter().all(|way| !way.takes(0)), "the first stays");
        assert_eq!(ways(FEW).len(), (1 << (FEW - 1)) - 1);
        for pods in FEW + 1..200 {
            let ways = ways(pods);
            assert!(ways.len() <= MOST_CUTS);
            assert!(
                ways.iter().all(|way| !way.takes(0) && way.takes(pods - 1)),
                "no side of {pods} is empty"
            );
        }
    }
}
