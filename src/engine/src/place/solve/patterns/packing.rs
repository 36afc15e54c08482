//! Sizes of pods that share a machine so that all machines together cost little. Rules are not known here: pods are
//! amounts, and machines are room for a price.
//!
//! Every size has a *value*, what one of its pods may cost. A machine is filled with what is worth most for the room it
//! takes, where scarce room counts more, so that pods which need CPU and pods which need memory are mixed. The pattern
//! that is worth most for its price is used as often as there are pods for it, then the next, until no pod is left. Then
//! the values are moved towards what the pods have cost, so that sizes that were left to expensive patterns are looked at
//! earlier, and all of it is repeated (sequential value correction).
//!
//! Integers only, no randomness, equal values in the order of the lists: the same input gives the same patterns.

/// Number of corrections of values, unless more is worth it.
pub(super) const ROUNDS: usize = 6;
/// The share of the price, in percent, that further rounds may still save.
const HOPE: i64 = 8;
/// The share of what fits that is added at once before room is weighed again.
const AT_ONCE: i64 = 3;
/// Bits of a share of a machine.
const SHARE_BITS: u32 = 20;
/// Bits of what is left of a machine.
const FREE_BITS: u32 = 16;
/// A machine has a bit for each kind of pods.
pub(super) const MOST_KINDS: usize = 64;
/// Amounts are below two to the power of this, so that nothing overflows.
pub(super) const AMOUNT_BITS: u32 = 40;
/// Steps in which weights of resources are changed, coarse ones first: a factor, as a fraction.
const STEPS: [(u64, u64); 6] = [(4, 1), (2, 1), (3, 2), (6, 5), (21, 20), (51, 50)];
/// Most changes of weights for each step.
const MOST_CHANGES: usize = 32;

/// Pods that request the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Size {
    /// Amounts by resource.
    pub(super) amounts: Vec<i64>,
    /// Number of pods; at least one.
    pub(super) count: usize,
    /// Kind of the pods, below [`MOST_KINDS`].
    pub(super) kind: usize,
    /// A group of sizes, numbered from zero, and the largest number of pods of it on a machine.
    pub(super) cap: Option<(usize, usize)>,
}

/// An instance type as long as nothing is on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Machine {
    /// Room by resource.
    pub(super) room: Vec<i64>,
    /// Price in billionths of a dollar an hour.
    pub(super) price: i64,
    /// A bit for each kind of pods that may be on it.
    pub(super) accepts: u64,
}

/// Pods that share a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) machine: usize,
    /// Number of pods of each size, by number of the size; none of these is zero.
    pub(super) pods: Vec<(usize, usize)>,
    /// Number of machines filled like this.
    pub(super) times: usize,
}

impl Machine {
    /// Returns whether pods of `size` may be on it, room aside.
    pub(super) fn takes(&self, size: &Size) -> bool {
        self.is_for(1 << size.kind)
    }

    /// Returns whether pods of all these `kinds`, a bit for each, may be on it.
    pub(super) fn is_for(&self, kinds: u64) -> bool {
        self.accepts & kinds == kinds
    }
}

/// A price that machines for pods that need `totals` together cannot be below, however small the pods.
///
/// Resources get weights; no machine holds more of the weighted total for its price than the best one does. Any weights
/// give a bound, and a few steps look for good ones.
pub(super) fn least_price(totals: &[i64], machines: &[Machine]) -> i64 {
    liquid(totals, machines).0
}

/// Returns the weight of each resource in the bound of [`least_price`].
pub(super) fn weights(totals: &[i64], machines: &[Machine]) -> Vec<u64> {
    liquid(totals, machines).1
}

/// Returns the part of `totals` that `room` holds, by `weights`.
pub(super) fn worth(room: &[i64], totals: &[i64], weights: &[u64]) -> i128 {
    let share = |(room, total): (&i64, &i64)| (i128::from(*room) << SHARE_BITS) / i128::from((*total).max(1));
    room.iter().zip(totals).map(share).zip(weights).map(|(share, weight)| share * i128::from(*weight)).sum()
}

fn liquid(totals: &[i64], machines: &[Machine]) -> (i64, Vec<u64>) {
    let asked: Vec<usize> = (0..totals.len()).filter(|name| totals[*name] > 0).collect();
    // Share of the total that each machine holds, rounded up, which can only lower the bound.
    let held = |machine: &Machine| -> Vec<u64> {
        let share = |name: &usize| {
            let room = i128::from(machine.room[*name].max(0)) << SHARE_BITS;
            u64::try_from(room / i128::from(totals[*name]) + 1).unwrap_or(u64::MAX).min(1 << AMOUNT_BITS)
        };
        asked.iter().map(share).collect()
    };
    let machines: Vec<(Vec<u64>, i64)> = machines.iter().map(|one| (held(one), one.price)).collect();
    let bound = |weights: &[u64]| -> i64 {
        let worth = |held: &[u64]| -> i128 {
            held.iter().zip(weights).map(|(held, weight)| i128::from(*held) * i128::from(*weight)).sum()
        };
        let priced = machines.iter().map(|(held, price)| (i128::from(*price), worth(held).max(1)));
        let least = priced.min_by(|(price, worth), (other, most)| (price * most).cmp(&(other * worth)));
        let all = i128::from(weights.iter().sum::<u64>()) << SHARE_BITS;
        least.map_or(0, |(price, worth)| i64::try_from(price * all / worth).unwrap_or(i64::MAX))
    };
    let mut weights = vec![1_u64 << SHARE_BITS; asked.len()];
    let mut best = bound(&weights);
    for (more, less) in STEPS {
        for _ in 0..MOST_CHANGES {
            let mut better = false;
            for place in 0..weights.len() {
                for (times, parts) in [(more, less), (less, more)] {
                    let before = weights[place];
                    weights[place] = (before * times / parts).clamp(1, 1 << (2 * SHARE_BITS));
                    let now = bound(&weights);
                    if now > best {
                        (best, better) = (now, true);
                    } else {
                        weights[place] = before;
                    }
                }
            }
            if !better {
                break;
            }
        }
    }
    let mut all = vec![0; totals.len()];
    asked.iter().zip(weights).for_each(|(name, weight)| all[*name] = weight);
    (best, all)
}

/// Patterns for all pods of `sizes` that cost less than `enough` together, if some are found.
///
/// No further round begins after `most_looks` at a size while a machine is filled.
pub(super) fn patterns(
    sizes: &[Size],
    machines: &[Machine],
    enough: i64,
    (rounds, most_looks): (usize, usize),
) -> Option<Vec<Pattern>> {
    let mut packing = Packing::new(sizes, machines);
    let mut values = packing.alone()?;
    let mut best: Option<(i64, Vec<Pattern>)> = None;
    for _ in 0..rounds {
        let patterns = packing.filled(&values);
        let price = packing.price(&patterns);
        packing.correct(&mut values, &patterns);
        if best.as_ref().is_none_or(|(least, _)| price < *least) {
            best = Some((price, patterns));
        }
        if price / 100 * (100 - HOPE) > enough || packing.looks >= most_looks {
            break;
        }
    }
    best.filter(|(price, _)| *price < enough).map(|(_, patterns)| patterns)
}

/// Sizes and machines with what is computed once about them.
struct Packing<'p> {
    sizes: &'p [Size],
    machines: &'p [Machine],
    /// Share that one pod takes, by machine, size and resource: at least 1 where it takes any.
    shares: Vec<u64>,
    /// Most pods of each group that a machine may have.
    caps: Vec<usize>,
    /// Number of times that a size was examined so far.
    looks: usize,
}

/// One machine with pods.
struct Filled {
    /// Number of pods of each size; none of these is zero.
    pods: Vec<(usize, usize)>,
    /// Sum of the values of the pods.
    value: i64,
}

/// A size of which a machine may get another pod while it is filled.
#[derive(Clone, Copy)]
struct Candidate {
    size: usize,
    value: u64,
    /// Cost of a pod when it was last examined. Room only gets scarcer, so it costs no less now.
    least_cost: u64,
}

impl Candidate {
    /// Returns whether it is worth more for its cost than `other`.
    fn is_worth_more_than(&self, other: &Self) -> bool {
        u128::from(self.value) * u128::from(other.least_cost)
            > u128::from(other.value) * u128::from(self.least_cost)
    }
}

impl<'p> Packing<'p> {
    fn new(sizes: &'p [Size], machines: &'p [Machine]) -> Self {
        let share = |(amount, room): (&i64, &i64)| {
            let share = (amount << SHARE_BITS).checked_div(*room).unwrap_or(0);
            u64::try_from(share).unwrap_or(0) + u64::from(*amount > 0)
        };
        let mut shares = Vec::new();
        for machine in machines {
            for size in sizes {
                shares.extend(size.amounts.iter().zip(&machine.room).map(share));
            }
        }
        let mut caps = Vec::new();
        for (group, most) in sizes.iter().filter_map(|size| size.cap) {
            caps.resize(caps.len().max(group + 1), usize::MAX);
            caps[group] = most;
        }
        Self { sizes, machines, shares, caps, looks: 0 }
    }

    /// Returns the cost of a pod of each size on machines of its own; `None` where one fits on no machine.
    fn alone(&self) -> Option<Vec<i64>> {
        let cost = |size: &Size| {
            let costs = self.machines.iter().filter(|machine| machine.takes(size)).filter_map(|machine| {
                let most =
                    most(&size.amounts, &machine.room).min(size.cap.map_or(usize::MAX, |(_, most)| most));
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                (most > 0).then(|| (machine.price / most).max(1))
            });
            costs.min()
        };
        self.sizes.iter().map(cost).collect()
    }

    fn price(&self, patterns: &[Pattern]) -> i64 {
        let price = |pattern: &Pattern| {
            let times = i64::try_from(pattern.times).unwrap_or(i64::MAX);
            self.machines[pattern.machine].price.saturating_mul(times)
        };
        patterns.iter().map(price).fold(0, i64::saturating_add)
    }

    /// All pods on machines: the pattern that is worth most for its price first, as often as there are pods for it.
    fn filled(&mut self, values: &[i64]) -> Vec<Pattern> {
        let mut left: Vec<usize> = self.sizes.iter().map(|size| size.count).collect();
        let mut fillings: Vec<Filled> =
            (0..self.machines.len()).map(|machine| self.fill(machine, &left, values)).collect();
        let mut patterns = Vec::new();
        while left.iter().any(|count| *count > 0) {
            let Some(machine) = self.next(&mut fillings, &left, values) else { break };
            let pods = fillings[machine].pods.clone();
            let times = pods.iter().map(|(size, count)| left[*size] / count).min().unwrap_or(0).max(1);
            for (size, count) in &pods {
                left[*size] -= count * times;
            }
            patterns.push(Pattern { machine, pods, times });
        }
        patterns
    }

    /// The machine whose filling is worth most for its price. With fewer pods left a filling is never worth more, so
    /// only the best of those that are out of date have to be made again.
    fn next(&mut self, fillings: &mut [Filled], left: &[usize], values: &[i64]) -> Option<usize> {
        loop {
            let mut best: Option<usize> = None;
            for machine in (0..fillings.len()).filter(|machine| fillings[*machine].value > 0) {
                let worth = |one: usize, other: usize| {
                    i128::from(fillings[one].value) * i128::from(self.machines[other].price)
                };
                // Of equal ones the more expensive, which is the larger: fewer machines.
                if best.is_none_or(|best| worth(machine, best) >= worth(best, machine)) {
                    best = Some(machine);
                }
            }
            let best = best?;
            if fillings[best].pods.iter().all(|(size, count)| left[*size] >= *count) {
                return Some(best);
            }
            fillings[best] = self.fill(best, left, values);
        }
    }

    /// Fills `machine` with pods that are `left`.
    fn fill(&mut self, machine: usize, left: &[usize], values: &[i64]) -> Filled {
        self.looks += self.sizes.len();
        let room = &self.machines[machine].room;
        let of_machine = self.sizes.len() * room.len();
        let shares = &self.shares[machine * of_machine..][..of_machine];
        let mut free = room.clone();
        let mut counts = vec![0_usize; self.sizes.len()];
        let mut weights = vec![0_u64; room.len()];
        let mut caps = self.caps.clone();
        // At the least possible cost, so that each size is examined at least once.
        let candidate = |size: usize| Candidate { size, value: values[size].unsigned_abs(), least_cost: 1 };
        let mut candidates: Vec<Candidate> = (0..self.sizes.len())
            .filter(|size| left[*size] > 0 && self.machines[machine].takes(&self.sizes[*size]))
            .map(candidate)
            .collect();
        loop {
            let has_room = |size: usize| {
                counts[size] < left[size]
                    && self.sizes[size].cap.is_none_or(|(group, _)| caps[group] > 0)
                    && fits(&self.sizes[size].amounts, &free)
            };
            for ((weight, free), room) in weights.iter_mut().zip(&free).zip(room) {
                // A resource weighs the more the less of it is free: pods that need the other one are worth
                // more then.
                let share = (free << FREE_BITS).checked_div(*room).unwrap_or(0).max(1);
                *weight = (1 << (2 * FREE_BITS)) / share.unsigned_abs();
            }
            let cost = |size: usize| -> u64 {
                shares[size * room.len()..][..room.len()]
                    .iter()
                    .zip(&weights)
                    .map(|(share, weight)| share * weight)
                    .sum::<u64>()
                    .max(1)
            };
            let mut best: Option<Candidate> = None;
            candidates.retain_mut(|candidate| {
                // Most are worth too little even for what they cost at an earlier look, so that neither room nor cost
                // has to be looked at.
                if best.is_some_and(|best| !candidate.is_worth_more_than(&best)) {
                    return true;
                }
                // A size that has no room has none later.
                if !has_room(candidate.size) {
                    return false;
                }
                candidate.least_cost = cost(candidate.size);
                if best.is_none_or(|best| candidate.is_worth_more_than(&best)) {
                    best = Some(*candidate);
                }
                true
            });
            let Some(Candidate { size: best, .. }) = best else { break };
            let amounts = &self.sizes[best].amounts;
            let group = self.sizes[best].cap.map(|(group, _)| group);
            let capped = group.map_or(usize::MAX, |group| caps[group]);
            let fits = most(amounts, &free).min(left[best] - counts[best]).min(capped);
            let added = i64::try_from(fits).unwrap_or(i64::MAX) / AT_ONCE;
            let added = added.max(1);
            for (free, amount) in free.iter_mut().zip(amounts) {
                *free -= amount * added;
            }
            let added = usize::try_from(added).unwrap_or(1);
            counts[best] += added;
            if let Some(group) = group {
                caps[group] -= added;
            }
        }
        let pods: Vec<(usize, usize)> =
            counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect();
        let worth = |(size, count): &(usize, usize)| {
            values[*size].saturating_mul(i64::try_from(*count).unwrap_or(i64::MAX))
        };
        let value = pods.iter().map(worth).fold(0, i64::saturating_add);
        Filled { pods, value }
    }

    /// Moves `values` half way to what pods cost in `patterns`, where those on a machine share its price by value.
    fn correct(&self, values: &mut [i64], patterns: &[Pattern]) {
        let mut paid = vec![(0_i128, 0_i128); values.len()];
        for Pattern { machine, pods, times } in patterns {
            let count = |count: usize| i128::try_from(count * times).unwrap_or(i128::MAX >> 1);
            let worth: i128 = pods.iter().map(|(size, pods)| i128::from(values[*size]) * count(*pods)).sum();
            let price = i128::from(self.machines[*machine].price) * count(1);
            for (size, pods) in pods {
                let (cost, number) = &mut paid[*size];
                *cost += i128::from(values[*size]) * price * count(*pods) / worth.max(1);
                *number += count(*pods);
            }
        }
        for (value, (cost, number)) in values.iter_mut().zip(paid) {
            let each = i64::try_from(cost / number.max(1)).unwrap_or(i64::MAX >> 1);
            *value = value.midpoint(each).max(1);
        }
    }
}

/// Returns whether `amounts` fit into `room`.
pub(super) fn fits(amounts: &[i64], room: &[i64]) -> bool {
    amounts.iter().zip(room).all(|(amount, room)| amount <= room)
}

/// Returns the number of pods of `amounts` that fit into `room`.
fn most(amounts: &[i64], room: &[i64]) -> usize {
    let fits = |(amount, room): (&i64, &i64)| (*amount > 0).then(|| (room / amount).max(0));
    let most = amounts.iter().zip(room).filter_map(fits).min();
    most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// Up to eight sizes and up to six machines with room for each size on one of them, in two or three resources.
    fn world(seed: u64) -> (Vec<Size>, Vec<Machine>) {
        let mut rng = Rng::with_seed(seed);
        let names = rng.usize(2..4);
        let mut amounts = |most: i64| -> Vec<i64> { (0..names).map(|_| rng.i64(0..most)).collect() };
        let sizes: Vec<Vec<i64>> = (0..8).map(|_| amounts(20)).collect();
        let mut rooms: Vec<Vec<i64>> = (0..5).map(|_| amounts(100)).collect();
        rooms.push(vec![25; names]);
        let count = rng.usize(1..8);
        let sizes = sizes.into_iter().take(count).map(|mut amounts| {
            amounts[0] += 1;
            Size { amounts, count: rng.usize(1..60), kind: 0, cap: None }
        });
        let sizes = sizes.collect();
        let machines = rooms.into_iter().map(|room| Machine { price: rng.i64(1..200_000), room, accepts: 1 });
        (sizes, machines.collect())
    }

    fn price(patterns: &[Pattern], machines: &[Machine]) -> i64 {
        patterns.iter().map(|one| machines[one.machine].price * i64::try_from(one.times).unwrap()).sum()
    }

    #[test]
    fn every_pod_is_on_one_machine_that_holds_it_and_no_price_is_below_the_bound() {
        for seed in 0..2_000 {
            let (sizes, machines) = world(seed);
            let patterns = patterns(&sizes, &machines, i64::MAX, (ROUNDS, 10_000))
                .expect("every size fits on some machine");
            let mut placed = vec![0; sizes.len()];
            for Pattern { machine, pods, times } in &patterns {
                let mut taken = vec![0; machines[*machine].room.len()];
                for (size, count) in pods {
                    assert!(*count > 0 && *times > 0, "seed {seed}");
                    placed[*size] += count * times;
                    for (taken, amount) in taken.iter_mut().zip(&sizes[*size].amounts) {
                        *taken += amount * i64::try_from(*count).unwrap();
                    }
                }
                let fits = taken.iter().zip(&machines[*machine].room).all(|(taken, room)| taken <= room);
                assert!(fits, "seed {seed}: {pods:?}");
            }
            assert_eq!(placed, sizes.iter().map(|size| size.count).collect::<Vec<_>>(), "seed {seed}");
            let totals = (0..machines[0].room.len()).map(|name| {
                sizes.iter().map(|size| size.amounts[name] * i64::try_from(size.count).unwrap()).sum()
            });
            let bound = least_price(&totals.collect::<Vec<_>>(), &machines);
            let price = price(&patterns, &machines);
            assert!(bound <= price, "seed {seed}: the bound is {bound}, the patterns cost {price}");
        }
    }

    #[test]
    fn sizes_that_need_different_resources_share_machines() {
        let size = |amounts: [i64; 2]| Size { amounts: amounts.to_vec(), count: 100, kind: 0, cap: None };
        let machine = |room: [i64; 2], price| Machine { room: room.to_vec(), price, accepts: 1 };
        let sizes = [size([4, 1]), size([1, 4])];
        let machines = [machine([50, 50], 1_000), machine([100, 100], 2_000)];
        // Five units of each resource for a pair, 500 for all: five machines, and no fewer.
        let bound = least_price(&[500, 500], &machines);
        assert!((9_990..=10_000).contains(&bound), "{bound}");
        let patterns = patterns(&sizes, &machines, i64::MAX, (ROUNDS, 10_000)).expect("every size fits");
        assert_eq!(price(&patterns, &machines), 10_000, "{patterns:?}");
    }

    #[test]
    fn no_machine_has_more_pods_of_a_group_than_it_may_have() {
        for seed in 0..500 {
            let (mut sizes, machines) = world(seed);
            let most = 1 + usize::try_from(seed % 3).unwrap();
            sizes.iter_mut().step_by(2).for_each(|size| size.cap = Some((0, most)));
            let patterns = patterns(&sizes, &machines, i64::MAX, (ROUNDS, 10_000))
                .expect("every size fits on some machine");
            let mut placed = vec![0; sizes.len()];
            for Pattern { pods, times, .. } in &patterns {
                let capped = pods.iter().filter(|(size, _)| sizes[*size].cap.is_some());
                let capped: usize = capped.map(|(_, count)| count).sum();
                assert!(capped <= most, "seed {seed}: {pods:?}");
                for (size, count) in pods {
                    placed[*size] += count * times;
                }
            }
            assert_eq!(placed, sizes.iter().map(|size| size.count).collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn patterns_that_cost_too_much_are_none() {
        let sizes = [Size { amounts: vec![2, 0], count: 7, kind: 0, cap: None }];
        let machines = [Machine { room: vec![5, 0], price: 10, accepts: 1 }];
        assert_eq!(patterns(&sizes, &machines, 40, (ROUNDS, 10_000)), None, "four machines are needed");
        let expected = [(vec![(0, 2)], 3), (vec![(0, 1)], 1)];
        let expected = expected.map(|(pods, times)| Pattern { machine: 0, pods, times });
        assert_eq!(patterns(&sizes, &machines, 41, (ROUNDS, 10_000)), Some(expected.to_vec()));
        let too_large = [Size { amounts: vec![6, 0], count: 1, kind: 0, cap: None }];
        assert_eq!(patterns(&too_large, &machines, i64::MAX, (ROUNDS, 10_000)), None, "it fits nowhere");
    }
}
