//! A lower bound on what new machines for some pods must cost, to hold plans against.
//!
//! The pods are rows, one for those that ask for the same; a column is one machine with the pods on it. How many of
//! each column are bought at least cost is an integer programme, and its linear relaxation costs no more. Column
//! generation solves that: a [simplex](simplex) gives each row a price, a [knapsack] per machine looks for a column
//! that is worth more than it costs.
//!
//! The bound does not depend on how well that went (Farley). For *any* prices of rows that are not negative, let `z` be
//! the most that the pods on a machine can be worth. Scaled so that no machine's `z` exceeds what it costs, the prices
//! are a solution of the dual, and the worth of all pods, less what machines that exist already can take, is a bound.
//! So `z` may be too great, never too small, and rules may be dropped: selectors, taints, daemons, what the system keeps
//! and limits on pods of a group on one host are kept; spread and affinity over zones, pods that must be together,
//! limits of pools and reservations are not. Reserved offerings count at their price, as if there were enough of them.
//! Groups that limit their pods on a host are kept if they need most machines: with fewer rows that differ in
//! their group alone the search comes to its end.
//!
//! The linear programme buys fractions of machines. At the prices it ends with, no machine holds pods worth more than its
//! `z`, and together they must hold all: how many whole machines that takes at least is a second bound, found by dynamic
//! programming over worth.
//!
//! Floats are fine here: nothing is bought by this, and the bound is lowered by more than they can be wrong.

#![expect(
    clippy::cast_precision_loss,
    reason = "amounts are scaled to about one; the bound has room for rounding"
)]
#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of pods are small")]

mod knapsack;
mod problem;
mod simplex;

use karpenter_model::{Pod, Price, Snapshot};

use problem::Problem;
use simplex::{Column, Simplex};

/// Rounds of column generation; hard worlds stop here with a bound that is a little lower.
const ROUNDS: usize = 400;
/// Fillings of a machine that are looked at: few at first, more when those give no new column.
const FEWEST_BRANCHES: usize = 1_000;
const MOST_BRANCHES: usize = 100_000;
/// Fillings of a machine that are looked at when whole machines are counted.
const WHOLE_BRANCHES: usize = 10_000;
/// The bound is close enough to the linear programme then.
const CLOSE: f64 = 0.999;
/// Factor by which rows are worth more for the first columns.
const RAISED: f64 = 1.2;
/// Allowance for the sum of rounding errors.
const SAFETY: f64 = 1.0 - 1e-7;

/// The least price per hour at which new machines of `snapshot` can be had for those of `pods` that
/// machines that exist have no room for. Zero when some pod fits nowhere: then nothing is known.
pub fn least_price(snapshot: &Snapshot, pods: &[&Pod]) -> Price {
    let problem = Problem::new(snapshot, pods);
    if problem.rows.is_empty() || !problem.is_hosted() {
        return Price::from_nanos(0);
    }
    let mut simplex = Simplex::new(&problem.starts(), &problem.counts());
    let mut branches = FEWEST_BRANCHES;
    // Prices of resources make good first prices of rows, and raised a little they ask for full machines as columns.
    let mut prices = problem.prices_by_resource();
    let raised: Vec<f64> = prices.iter().map(|price| price * RAISED).collect();
    let (mut best, columns) = problem.bound(&prices, &raised, branches);
    for column in columns {
        simplex.add(column);
    }
    for _ in 0..ROUNDS {
        let cost = simplex.solve();
        let duals: Vec<f64> = simplex.duals().into_iter().map(|dual| dual.max(0.0)).collect();
        // Half way to the prices of the best bound so far: those of the simplex jump about.
        let mixed: Vec<f64> =
            duals.iter().zip(&prices).map(|(own, best): (&f64, &f64)| f64::midpoint(*own, *best)).collect();
        let mut found = 0;
        for candidate in [&mixed, &duals] {
            let (bound, columns) = problem.bound(candidate, &duals, branches);
            if bound > best {
                best = bound;
                prices.clone_from(candidate);
            }
            found += columns.len();
            for column in columns {
                simplex.add(column);
            }
            // The prices of the simplex are only asked when the mixture finds nothing new.
            if found > 0 {
                break;
            }
        }
        if best >= cost * CLOSE || (found == 0 && branches >= MOST_BRANCHES) {
            break;
        }
        if found == 0 {
            branches *= 10;
        }
    }
    // The linear programme buys fractions of machines, which is much where a plan has few.
    let whole =
        [&prices, &problem.prices_by_resource()].map(|one| problem.whole_machines(one, WHOLE_BRANCHES));
    let whole = whole.into_iter().fold(0.0, f64::max);
    Price::from_nanos((best.max(whole) * SAFETY * 1e9) as i64)
}

/// Returns whether a machine is worth enough more than its cost to be a new column.
fn is_worth_more(value: f64, cost: f64) -> bool {
    value > cost * (1.0 + 1e-6) + 1e-9
}

/// A column of `pods` by row, which takes one of the machines of row `machine`, for `cost`.
fn column(pods: &[(usize, usize)], machine: Option<usize>, cost: f64) -> Column {
    let mut entries: Vec<(usize, f64)> = pods.iter().map(|(row, count)| (*row, *count as f64)).collect();
    entries.extend(machine.map(|row| (row, -1.0)));
    Column { cost, entries }
}
