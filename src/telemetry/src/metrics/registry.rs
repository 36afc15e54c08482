//! The families of one process, and which of their series belong to a `NodePool`.
//!
//! Counts and histograms of a pool have to outlive its machines, but not the pool: where pools come and go with what
//! they are for, they would add up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;

/// How the name of a pool is called in labels: of our own families, and as the label of its claims and Nodes.
const POOL: [&str; 2] = ["nodepool", "karpenter_sh_nodepool"];

/// The families, and those of them that have series of pools.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) all: prometheus::Registry,
    of_pools: Mutex<Vec<Box<dyn OfPools>>>,
}

impl Registry {
    /// Adds a family whose labels are called `labels`.
    pub(super) fn register<T>(&self, labels: &[&str], family: &MetricVec<T>)
    where
        T: MetricVecBuilder + 'static,
        T::M: 'static,
    {
        self.add(family.clone());
        if let Some(label) = POOL.into_iter().find(|label| labels.contains(label)) {
            let mut of_pools = self.of_pools.lock().unwrap_or_else(PoisonError::into_inner);
            of_pools.push(Box::new(Labelled { family: family.clone(), label }));
        }
    }

    /// Adds a family that keeps no series.
    pub(super) fn add(&self, family: impl Collector + 'static) {
        let once = "invariant: every metric name is declared once, checked by a test";
        self.all.register(Box::new(family)).expect(once);
    }

    /// Removes every series of a pool.
    pub(super) fn forget_pool(&self, pool: &str) {
        for family in self.of_pools.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            family.forget(pool);
        }
    }

    /// Everything, for an answer to a scrape.
    pub(super) fn gather(&self) -> Vec<MetricFamily> {
        self.all.gather()
    }
}

/// A family with series of pools.
trait OfPools: Send + Sync {
    /// Removes those of one pool.
    fn forget(&self, pool: &str);
}

/// A family in which `label` names the pool.
struct Labelled<T: MetricVecBuilder> {
    family: MetricVec<T>,
    label: &'static str,
}

impl<T: MetricVecBuilder> OfPools for Labelled<T> {
    fn forget(&self, pool: &str) {
        for collected in self.family.collect() {
            for metric in collected.get_metric() {
                let labels: HashMap<&str, &str> =
                    metric.get_label().iter().map(|pair| (pair.name(), pair.value())).collect();
                if labels.get(self.label) == Some(&pool) {
                    // Only an unknown series is an error, and this one was there a moment ago.
                    let _absent = self.family.remove(&labels);
                }
            }
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}
