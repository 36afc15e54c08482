//! Conditions under which a plan fails a pipeline: `new-pending`, `removals`, `drift`, `changes`, `cost=+10%`.
//!
//! With a what-if they are about its effects alone: a pod that is pending today fails nobody's pull request.

use karpenter_model::DisruptionReason;

use super::{count, named};
use crate::forecast::Forecast;
use crate::money::{change, hourly};

/// Condition on which a plan fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// Pods would stay pending.
    NewPending,
    /// Nodes would go, at once or as budgets allow.
    Removals,
    /// Nodes would be replaced because of drift, or may be.
    Drift,
    /// Nodes would be launched or go.
    Changes,
    /// The cost per hour would rise by more than this many percent.
    Cost(u32),
}

/// A text that is no such condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a condition; write new-pending, removals, drift, changes, or a rise in cost such as cost=+10%"
)]
pub struct NotACondition(String);

impl std::str::FromStr for FailOn {
    type Err = NotACondition;

    fn from_str(written: &str) -> Result<Self, NotACondition> {
        let percent = || {
            let percent = written.strip_prefix("cost=+")?.strip_suffix('%')?;
            percent.parse().ok().map(Self::Cost)
        };
        match written {
            "new-pending" => Ok(Self::NewPending),
            "removals" => Ok(Self::Removals),
            "drift" => Ok(Self::Drift),
            "changes" => Ok(Self::Changes),
            _ => percent().ok_or_else(|| NotACondition(written.to_owned())),
        }
    }
}

impl FailOn {
    /// The exit code when one of the conditions is true.
    pub const EXIT_CODE: u8 = 5;

    /// Returns why `forecast` fails by this condition; `None` when it does not.
    pub fn failure(self, forecast: &Forecast) -> Option<String> {
        let because = forecast.because.as_ref();
        match self {
            Self::NewPending => {
                let pending = match because {
                    Some(difference) => difference.newly_pending.clone(),
                    None => forecast.pending.iter().map(|waiting| waiting.pod.clone()).collect(),
                };
                failing("new-pending", "pod", "would stay pending", &pending)
            }
            Self::Removals => {
                let removed = match because {
                    Some(difference) => difference.removed.clone(),
                    None => forecast.going().into_iter().collect(),
                };
                failing("removals", "node", "would go", &removed)
            }
            Self::Drift => {
                let drifted = forecast.removals.iter().filter(|one| one.reason == DisruptionReason::Drifted);
                let now = drifted.flat_map(|removal| removal.nodes.iter().map(|node| node.name.clone()));
                let mut drifted: Vec<String> =
                    now.chain(forecast.later.iter().map(|staying| staying.node.clone())).collect();
                drifted.retain(|name| because.is_none_or(|difference| difference.removed.contains(name)));
                // Claims of a class that changes may drift, too: an effect of the change.
                drifted.extend(forecast.may_drift.iter().flat_map(|class| class.claims.iter().cloned()));
                failing("drift", "node", "would or may be replaced because of drift", &drifted)
            }
            Self::Changes => {
                let none =
                    because.is_some_and(|it| it.launches == 0 && it.removed.is_empty() && it.kept.is_empty());
                let changes = forecast.changes() && !none;
                changes.then(|| "changes: nodes would be launched or go".to_owned())
            }
            Self::Cost(percent) => {
                let before = match because {
                    Some(difference) => forecast.price.after.saturating_sub(difference.price),
                    None => forecast.price.now,
                };
                let more = forecast.price.after.saturating_sub(before);
                let (more_nanos, before_nanos) = (i128::from(more.nanos()), i128::from(before.nanos()));
                (more_nanos * 100 > before_nanos * i128::from(percent)).then(|| {
                    format!(
                        "cost=+{percent}%: {} per hour is {} more than {}",
                        hourly(forecast.price.after),
                        change(more, hourly).trim_start_matches('+'),
                        hourly(before)
                    )
                })
            }
        }
    }
}

fn failing(condition: &str, noun: &str, what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{condition}: {} {what}: {}", count(names.len(), noun), named(names)))
}
