//! Budget arithmetic, exhaustively over small pools.

use std::time::Duration;

use karpenter_model::pool::BudgetWindow;
use karpenter_model::{BudgetNodes, Disruption};

use super::*;

fn pool(budgets: Vec<Budget>) -> Pool {
    Pool { disruption: Disruption { budgets, ..Disruption::default() }, ..Pool::bare("web") }
}

fn budget(nodes: &str) -> Budget {
    Budget { nodes: BudgetNodes::parse(nodes), reasons: None, window: None }
}

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn empty(pool: &Pool, total: u32) -> Result<u32, Invalid> {
    allowed(pool, DisruptionReason::Empty, total, now()).map(|allowed| allowed.nodes)
}

#[test]
fn percentages_round_up_and_the_strictest_budget_counts() {
    for total in 0..=30 {
        assert_eq!(empty(&pool(vec![budget("10%")]), total), Ok(total.div_ceil(10)));
        assert_eq!(empty(&pool(vec![budget("100%"), budget("3")]), total), Ok(total.min(3)));
        assert_eq!(empty(&pool(vec![budget("0")]), total), Ok(0));
    }
    assert_eq!(empty(&pool(vec![]), 5), Ok(u32::MAX), "no budget is no limit");
}

#[test]
fn budgets_for_other_reasons_do_not_count() {
    let only = |reasons: &[DisruptionReason]| Budget {
        reasons: Some(reasons.iter().copied().collect()),
        ..budget("0")
    };
    assert_eq!(empty(&pool(vec![only(&[DisruptionReason::Drifted])]), 5), Ok(u32::MAX));
    assert_eq!(empty(&pool(vec![only(&[])]), 5), Ok(u32::MAX), "an empty list matches nothing");
    assert_eq!(empty(&pool(vec![only(&[DisruptionReason::Drifted, DisruptionReason::Empty])]), 5), Ok(0));
}

#[test]
fn windows_limit_only_while_open() {
    let during = |schedule: &str| Budget {
        window: Some(BudgetWindow { schedule: schedule.into(), duration: Duration::from_hours(1) }),
        ..budget("0")
    };
    assert_eq!(empty(&pool(vec![during("0 12 * * *")]), 5), Ok(0));
    assert_eq!(empty(&pool(vec![during("0 13 * * *"), budget("2")]), 5), Ok(2));
}

#[test]
fn any_budget_that_cannot_be_evaluated_fails_closed() {
    let bad_schedule = Budget {
        reasons: Some([DisruptionReason::Drifted].into()),
        window: Some(BudgetWindow { schedule: "whenever".into(), duration: Duration::from_hours(1) }),
        ..budget("5")
    };
    assert!(empty(&pool(vec![bad_schedule]), 5).is_err());
    for nodes in ["many", "", "ten%", "101%", "-1", "-1%", "1.5", "5 %", "%"] {
        assert!(empty(&pool(vec![budget("100%"), budget(nodes)]), 5).is_err(), "{nodes:?}");
    }
}

#[test]
fn windows_are_open_always_sometimes_or_cannot_be_judged() {
    let window = |schedule: &str, hours| {
        let duration = Duration::from_hours(hours);
        opening(&BudgetWindow { schedule: schedule.to_owned(), duration }, now())
    };
    assert_eq!(window("0 9 * * mon-fri", 8), Opening::Sometimes);
    assert_eq!(window("@daily", 24), Opening::Always, "one begins when the other ends");
    assert_eq!(window("0 0 30 feb *", 1), Opening::Always, "a schedule without a hit counts as open");
    assert!(matches!(window("0 9 * *", 8), Opening::Invalid(_)));
}
