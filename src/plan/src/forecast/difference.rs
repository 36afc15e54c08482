//! The effect of a change: the plan with it beside the plan without it, so that what the cluster does anyway is not taken
//! for an effect of the change.

use std::collections::BTreeSet;

use karpenter_model::Price;
use schemars::JsonSchema;
use serde::Serialize;

use super::Forecast;

/// A plan with a change compared with the plan without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The change, a sentence for each part: a manifest, a zone, a price.
    pub assumed: Vec<String>,
    /// Dollars per hour that the nodes cost more once both plans are carried out; negative when they cost less.
    #[schemars(with = "String")]
    pub price: Price,
    /// Number of nodes launched more, replacements included; negative when fewer are.
    pub launches: i64,
    /// Nodes that go with the change alone, by name, at once or as budgets allow.
    pub removed: Vec<String>,
    /// Nodes that go without the change alone, by name.
    pub kept: Vec<String>,
    /// Pods that would stay pending with the change alone, by name.
    pub newly_pending: Vec<String>,
    /// Pods that would stay pending without the change alone, by name.
    pub no_longer_pending: Vec<String>,
}

impl Forecast {
    /// Returns the forecast with what it changes in comparison to `before`, the forecast without what is `assumed`. The price
    /// now becomes that of `before`: nodes and prices of today.
    #[must_use]
    pub fn against(mut self, before: &Self, assumed: Vec<String>) -> Self {
        let (going, went) = (self.going(), before.going());
        let (pending, pended) = (pending(&self), pending(before));
        self.because = Some(Difference {
            assumed,
            price: self.price.after.saturating_sub(before.price.after),
            launches: launches(&self) - launches(before),
            removed: only(&going, &went),
            kept: only(&went, &going),
            newly_pending: only(&pending, &pended),
            no_longer_pending: only(&pended, &pending),
        });
        self.price.now = before.price.now;
        self
    }
}

fn pending(forecast: &Forecast) -> BTreeSet<String> {
    forecast.pending.iter().map(|waiting| waiting.pod.clone()).collect()
}

fn launches(forecast: &Forecast) -> i64 {
    let replacements: usize = forecast.removals.iter().map(|removal| removal.replacements.len()).sum();
    i64::try_from(forecast.launches.len() + replacements).unwrap_or(i64::MAX)
}

/// Names of the first set that are not in the second.
fn only(these: &BTreeSet<String>, those: &BTreeSet<String>) -> Vec<String> {
    these.difference(those).cloned().collect()
}
