//! The first hours of a small cluster's day, as the week of a large one is played by `karpenter-sim week`: no rule is broken,
//! and what it costs stays near what the pods cost at least.

use karpenter_sim::{Shape, week};

/// Largest cost of the hours, in hundredths of the bound. The bound counts no time until a machine has come up, and none until
/// one that is too large is replaced.
const AT_MOST: i64 = 120;

#[test]
fn a_morning_breaks_no_rule_and_costs_little_more_than_it_must() {
    let shape = Shape { seed: 1, machines: 14, hours: 8, images_at: None };
    let morning = week(&shape, false).unwrap();
    let replay = "replay with `karpenter-sim week --machines 14 --hours 8 --images-at 99`";
    assert!(morning.violations.is_empty(), "{replay}: {morning}");
    let (cost, bound) = morning.total();
    assert!(bound.nanos() > 0 && cost >= bound, "{replay}: {morning}");
    assert!(cost.nanos() * 100 <= bound.nanos() * AT_MOST, "{replay}: {morning}");
    let machines: Vec<usize> = morning.hours.iter().map(|hour| hour.machines).collect();
    assert!(machines[7] > machines[3], "machines follow the pods: {morning}");
}
