//! The planner: a frozen snapshot in, a plan and the reasons for every line of it out.
//!
//! Pure, synchronous and deterministic: no client, clock, randomness, metrics or logs; the same snapshot gives
//! the same bytes whatever order its lists are in. A plan leaves no choice to the controllers that apply it.
//!
//! Reasons for its speed: labels, requirements and resources are interned once per snapshot ([`rules`],
//! [`amounts`]), instance types are bit sets ([`catalogue`]), pods that ask for the same are one class
//! ([`place::class`]) and remember which in-flight nodes refused them, because those only ever get
//! narrower.

mod amounts;
pub mod backlog;
mod bits;
mod catalogue;
mod conjunction;
mod daemons;
pub mod disrupt;
mod index;
mod interning;
mod node_labels;
mod place;
mod rules;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::{BinId, NodeId, Plan, PodKey, Report, Snapshot};

use place::Placement;

/// Places the pods of `snapshot`, and reports the reasons.
///
/// Pods that wait for capacity, and those of terminating nodes, get a place on existing, coming or
/// new nodes. [`disrupt::decide`] decides which nodes are removed; this plan has no commands.
pub fn plan(snapshot: &Snapshot) -> (Plan, Report) {
    of(snapshot, place::place(snapshot))
}

/// Plans as [`plan`], and returns the launches that need not wait for pods which may still come: such pods could
/// hardly make them cheaper.
pub fn plan_ahead(snapshot: &Snapshot) -> (Plan, Report, BTreeSet<BinId>) {
    let mut placement = place::place_ahead(snapshot);
    let certain = std::mem::take(&mut placement.certain);
    let (plan, report) = of(snapshot, placement);
    (plan, report, certain)
}

/// Returns the nodes of `snapshot` that are up to which the scheduler would bind the pods that wait. Pods with a promise of such a
/// node name it to the scheduler.
pub fn bound(snapshot: &Snapshot) -> Vec<(PodKey, NodeId)> {
    place::bind(snapshot)
}

fn of(snapshot: &Snapshot, placement: Placement) -> (Plan, Report) {
    let plan = Plan {
        revision: snapshot.revision,
        launches: placement.launches,
        nominations: placement.nominations,
        commands: Vec::new(),
        grants: placement.grants,
    };
    (plan, Report { pods: placement.pods, pools: placement.pools, nodes: BTreeMap::new() })
}
