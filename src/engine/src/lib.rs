//! The planner: a frozen snapshot in, a plan and the reasons for every line of it out.
//!
//! Pure, synchronous and deterministic: no client, clock, randomness, metrics or logs; the same snapshot gives
//! the same bytes whatever order its lists are in. A plan leaves no choice to whoever applies it.
//!
//! How it stays fast: labels, requirements and resources are interned once per snapshot ([`rules`],
//! [`amounts`]), instance types are bit sets ([`catalogue`]), pods that ask for the same are one class
//! ([`place::class`]) and remember which bins refused them, because bins only ever get narrower.

mod amounts;
mod bits;
mod catalogue;
mod daemons;
pub mod disrupt;
mod place;
mod rules;

use std::collections::BTreeSet;

use karpenter_model::{Plan, Report, Snapshot};

/// What to do about `snapshot`, and why.
///
/// Pods that wait for capacity, and those of machines on their way out, get a place on existing, coming or
/// new machines; empty machines nobody was just sent to are removed as far as budgets allow.
pub fn plan(snapshot: &Snapshot) -> (Plan, Report) {
    let placement = place::place(snapshot);
    let used: BTreeSet<_> = placement.used_nodes.into_iter().collect();
    let (removals, nodes) = disrupt::empty_except(snapshot, &used);
    let plan = Plan {
        revision: snapshot.revision,
        launches: placement.launches,
        nominations: placement.nominations,
        removals,
    };
    (plan, Report { pods: placement.pods, pools: placement.pools, nodes })
}
