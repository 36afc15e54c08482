//! Summaries, which the metrics library does not bring: exact quantiles over a sliding window.
//!
//! Sum and count cover the life of the process; quantiles cover the last ten minutes and at most [`WINDOW_MAX`]
//! observations, so memory is bounded. Without a recent observation a quantile is `NaN`, as the format asks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Metric, MetricVec, MetricVecBuilder, Opts};
use prometheus::proto;
use tokio::time::Instant;

/// A family of summaries that differ in their label values.
pub(super) type SummaryVec = MetricVec<SummaryBuilder>;

const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];
const WINDOW: Duration = Duration::from_mins(10);
const WINDOW_MAX: usize = 4096;

/// Makes the summary of one set of label values.
#[derive(Clone, Debug)]
pub(super) struct SummaryBuilder;

impl MetricVecBuilder for SummaryBuilder {
    type M = Quantiles;
    type P = Opts;

    fn build<V: AsRef<str>>(&self, opts: &Opts, values: &[V]) -> prometheus::Result<Quantiles> {
        let mut labels: Vec<proto::LabelPair> = opts
            .variable_labels
            .iter()
            .zip(values)
            .map(|(name, value)| {
                let mut pair = proto::LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(value.as_ref().to_owned());
                pair
            })
            .collect();
        labels.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(Quantiles { labels: labels.into(), state: Arc::default() })
    }
}

/// One summary series.
#[derive(Clone, Debug)]
pub(super) struct Quantiles {
    labels: Arc<[proto::LabelPair]>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    sum: f64,
    recent: VecDeque<(Instant, f64)>,
}

impl State {
    fn expire(&mut self, now: Instant) {
        while let Some((at, _)) = self.recent.front()
            && (now.duration_since(*at) > WINDOW || self.recent.len() > WINDOW_MAX)
        {
            self.recent.pop_front();
        }
    }
}

impl Quantiles {
    pub(super) fn observe(&self, value: f64) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.count += 1;
        state.sum += value;
        state.recent.push_back((now, value));
        state.expire(now);
    }

    pub(super) fn count(&self) -> u64 {
        self.state.lock().count
    }
}

impl Metric for Quantiles {
    fn metric(&self) -> proto::Metric {
        let mut state = self.state.lock();
        state.expire(Instant::now());
        let mut values: Vec<f64> = state.recent.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let quantiles = QUANTILES.iter().map(|&quantile| {
            let mut entry = proto::Quantile::default();
            entry.set_quantile(quantile);
            entry.set_value(nearest_rank(&values, quantile));
            entry
        });
        let mut summary = proto::Summary::default();
        summary.set_sample_count(state.count);
        summary.set_sample_sum(state.sum);
        summary.set_quantile(quantiles.collect());
        let mut metric = proto::Metric::from_label(self.labels.to_vec());
        metric.set_summary(summary);
        metric
    }
}

/// The value at `quantile` of sorted `values`; `NaN` when there are none.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rank of at most 4096 values is exact and not negative"
)]
fn nearest_rank(values: &[f64], quantile: f64) -> f64 {
    let rank = (quantile * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::nearest_rank;

    #[test]
    fn quantiles_use_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        for (quantile, want) in [(0.0, 1.0), (0.5, 50.0), (0.9, 90.0), (0.99, 99.0), (1.0, 100.0)] {
            let got = nearest_rank(&values, quantile);
            assert!((got - want).abs() < f64::EPSILON, "quantile {quantile}: {got} != {want}");
        }
    }

    #[test]
    fn no_observation_means_not_a_number() {
        assert!(nearest_rank(&[], 0.5).is_nan());
    }
}
