//! Largest worth of the pods on one machine: several resources, a limited number of each pod, and groups of which only a
//! limited number may be there.
//!
//! Each resource gets a price such that what is left of the worth of pods after paying for what they take, together
//! with the price of the whole machine, is least (Lagrange). That is an upper bound, whatever the prices. Branch and
//! bound then looks for the best filling and lowers the bound as far as its steps go.

/// Steps in which prices of resources are improved, for each pair of resources.
const PRICE_STEPS: usize = 80;
/// Fillings that differ by less are alike.
const ROUNDING: f64 = 1e-6;

/// Pods of one row.
pub(super) struct Item<'p> {
    pub(super) row: usize,
    pub(super) value: f64,
    /// Most pods of this kind that the machine holds.
    pub(super) most: usize,
    pub(super) requests: &'p [f64],
    pub(super) group: Option<usize>,
}

/// Result of the search.
pub(super) struct Filled {
    /// The best filling, by row.
    pub(super) pods: Vec<(usize, usize)>,
    /// No filling is worth more.
    pub(super) most: f64,
}

/// Fills `room` with `items`, at most `caps` of each group. Fillings that are worth less than `enough` are not
/// distinguished: `most` is `enough` for all of them. After `branches` steps the upper bound is left as it is.
pub(super) fn fill(
    items: &[Item<'_>],
    room: &[f64],
    caps: &[usize],
    (enough, branches): (f64, usize),
) -> Filled {
    if items.is_empty() {
        return Filled { pods: Vec::new(), most: 0.0 };
    }
    let (prices, relaxed) = resource_prices(items, room, caps, enough);
    if relaxed <= enough {
        return Filled { pods: Vec::new(), most: enough };
    }
    let paid = |item: &Item<'_>| dot(&prices, item.requests);
    let mut order: Vec<usize> = (0..items.len()).collect();
    let efficiency = |item: &Item<'_>| item.value / paid(item).max(1e-12);
    order.sort_by(|a, b| efficiency(&items[*b]).total_cmp(&efficiency(&items[*a])));
    let mut search = Search {
        items: order.iter().map(|place| &items[*place]).collect(),
        gains: Vec::new(),
        prices: &prices,
        best: 0.0,
        chosen: Vec::new(),
        now: Vec::new(),
        left: branches,
        enough,
    };
    search.gains = gains(&search.items, &prices, caps);
    let mut caps = caps.to_vec();
    search.branch(0, 0.0, &mut room.to_vec(), &mut caps);
    // Cut short, it has seen only some of the fillings.
    let most =
        if search.left == 0 { relaxed } else { (search.best.max(enough) * (1.0 + ROUNDING)).min(relaxed) };
    Filled { pods: search.chosen, most }
}

struct Search<'s, 'p> {
    items: Vec<&'s Item<'p>>,
    /// Most that is left of the worth of items, from each on, after paying for what they take.
    gains: Vec<f64>,
    prices: &'s [f64],
    best: f64,
    chosen: Vec<(usize, usize)>,
    now: Vec<(usize, usize)>,
    left: usize,
    enough: f64,
}

impl Search<'_, '_> {
    fn branch(&mut self, place: usize, value: f64, room: &mut [f64], caps: &mut [usize]) {
        if value > self.best {
            self.best = value;
            self.chosen.clone_from(&self.now);
        }
        let Some(item) = self.items.get(place).copied() else { return };
        let bound = value + self.gains[place] + dot(self.prices, room);
        let interesting = self.best.max(self.enough);
        if bound <= interesting * (1.0 + ROUNDING) || self.left == 0 {
            return;
        }
        self.left -= 1;
        let fits = |(asked, room): (&f64, &f64)| if *asked > 0.0 { room / asked + 1e-9 } else { f64::MAX };
        let fits = item.requests.iter().zip(room.iter()).map(fits).fold(f64::MAX, f64::min).max(0.0) as usize;
        let capped = item.group.map_or(usize::MAX, |group| caps[group]);
        let most = item.most.min(fits).min(capped);
        for count in (0..=most).rev() {
            let take = |room: &mut [f64], sign: f64| {
                room.iter_mut()
                    .zip(item.requests)
                    .for_each(|(room, asked)| *room -= sign * asked * count as f64);
            };
            take(room, 1.0);
            item.group.into_iter().for_each(|group| caps[group] -= count);
            self.now.extend((count > 0).then_some((item.row, count)));
            self.branch(place + 1, value + item.value * count as f64, room, caps);
            if count > 0 {
                self.now.pop();
            }
            item.group.into_iter().for_each(|group| caps[group] += count);
            take(room, -1.0);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the most that is left, from each of `items` on and at the end, after paying for what they take.
fn gains(items: &[&Item<'_>], prices: &[f64], caps: &[usize]) -> Vec<f64> {
    let mut gains = vec![0.0; items.len() + 1];
    let mut of_groups: Vec<Vec<f64>> = vec![Vec::new(); caps.len()];
    for (place, item) in items.iter().enumerate().rev() {
        let gain = (item.value - dot(prices, item.requests)).max(0.0);
        gains[place] = gains[place + 1];
        match item.group {
            None => gains[place] += gain * item.most as f64,
            Some(group) => {
                let of_group = &mut of_groups[group];
                gains[place] -= of_group.iter().sum::<f64>();
                of_group.extend(std::iter::repeat_n(gain, item.most));
                of_group.sort_by(|a, b| b.total_cmp(a));
                of_group.truncate(caps[group]);
                gains[place] += of_group.iter().sum::<f64>();
            }
        }
    }
    gains
}

/// Prices of resources and the bound they give: the least that some steps of the ellipsoid method have found. It is
/// slow and gets stuck nowhere; going along one resource after the other does, where several pods are on the edge. A
/// bound of `enough` is low enough.
fn resource_prices(items: &[Item<'_>], room: &[f64], caps: &[usize], enough: f64) -> (Vec<f64>, f64) {
    let all: Vec<&Item<'_>> = items.iter().collect();
    let size = room.len();
    // The price that one item alone would pay for each resource is as much as it can be worth.
    let greatest = |name: usize| {
        let asking = items.iter().filter(|item| item.requests[name] > 0.0);
        asking.map(|item| item.value / item.requests[name]).fold(0.0, f64::max)
    };
    let greatest: Vec<f64> = (0..size).map(greatest).collect();
    // Prices are shares of the greatest; the ellipsoid begins as the ball around all of them.
    let mut centre = vec![0.5; size];
    let mut matrix = vec![0.0; size * size];
    let dimensions = size.max(2) as f64;
    (0..size).for_each(|name| matrix[name * size + name] = dimensions / 4.0);
    let mut best = (vec![0.0; size], f64::MAX);
    for _ in 0..PRICE_STEPS * size * size {
        let slope: Vec<f64> = if let Some(below) = centre.iter().position(|share| *share < 0.0) {
            (0..size).map(|name| if name == below { -1.0 } else { 0.0 }).collect()
        } else {
            let prices: Vec<f64> = centre.iter().zip(&greatest).map(|(share, most)| share * most).collect();
            let at = dot(&prices, room) + gains(&all, &prices, caps)[0];
            if at < best.1 {
                best = (prices.clone(), at);
            }
            if best.1 <= enough {
                break;
            }
            let left = left_over(&all, &prices, room, caps);
            left.iter().zip(&greatest).map(|(left, most)| left * most).collect()
        };
        let turned: Vec<f64> = matrix.chunks(size).map(|row| dot(row, &slope)).collect();
        let length = dot(&turned, &slope).sqrt();
        if length.is_nan() || length < best.1 * ROUNDING / 10.0 {
            break;
        }
        for name in 0..size {
            centre[name] -= turned[name] / length / (dimensions + 1.0);
        }
        let stretch = dimensions * dimensions / (dimensions * dimensions - 1.0);
        for (place, entry) in matrix.iter_mut().enumerate() {
            let both = turned[place / size] * turned[place % size] / (length * length);
            *entry = stretch * (*entry - 2.0 / (dimensions + 1.0) * both);
        }
    }
    best
}

/// Returns what is left of `room` when everything is bought that is worth its price; below zero where that is too much.
fn left_over(items: &[&Item<'_>], prices: &[f64], room: &[f64], caps: &[usize]) -> Vec<f64> {
    let mut left = room.to_vec();
    let mut caps = caps.to_vec();
    let mut gaining: Vec<(f64, &Item<'_>)> =
        items.iter().map(|item| (item.value - dot(prices, item.requests), *item)).collect();
    gaining.retain(|(gain, _)| *gain > 0.0);
    gaining.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, item) in gaining {
        let most = item.group.map_or(item.most, |group| item.most.min(caps[group]));
        item.group.into_iter().for_each(|group| caps[group] -= most);
        left.iter_mut().zip(item.requests).for_each(|(left, asked)| *left -= asked * most as f64);
    }
    left
}
