//! The families of one process, and which of their series belong to a `NodePool`.
//!
//! Counts and histograms of a pool have to outlive its machines, but not the pool: where pools come and go with what
//! they are for, they would add up.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus::core::{Collector, MetricVec, MetricVecBuilder};

use super::exposition::{Page, PassOn};

/// How the name of a pool is called in labels: of our own families, and as the label of its claims and Nodes.
const POOL: [&str; 2] = ["nodepool", "karpenter_sh_nodepool"];

/// A family that writes its own lines.
pub(super) trait Written: Send + Sync {
    fn write(&self, page: &mut Page<'_>);
}

/// The families, and those of them that have series of pools.
#[derive(Default)]
pub(super) struct Registry {
    /// The ones whose series are kept by the metrics library.
    pub(super) kept: prometheus::Registry,
    written: Mutex<BTreeMap<&'static str, Arc<dyn Written>>>,
    of_pools: Mutex<Vec<Box<dyn OfPools>>>,
}

impl Registry {
    /// Adds a family whose labels are called `labels`.
    pub(super) fn register<T>(&self, labels: &[&str], family: &MetricVec<T>)
    where
        T: MetricVecBuilder + 'static,
        T::M: 'static,
    {
        self.kept.register(Box::new(family.clone())).expect(ONCE);
        if let Some(label) = POOL.into_iter().find(|label| labels.contains(label)) {
            let mut of_pools = self.of_pools.lock();
            of_pools.push(Box::new(Labelled { family: family.clone(), label }));
        }
    }

    /// Adds a family that writes its own lines.
    pub(super) fn add_written(&self, name: &'static str, family: impl Written + 'static) {
        let before = self.written().insert(name, Arc::new(family));
        assert!(before.is_none(), "{ONCE}: {name}");
    }

    /// Removes every series of a pool.
    pub(super) fn forget_pool(&self, pool: &str) {
        for family in self.of_pools.lock().iter() {
            family.forget(pool);
        }
    }

    /// Everything in the text exposition format, families in name order.
    pub(super) fn write(&self, pass_on: PassOn<'_>) {
        // Not under the lock: writing may wait for the reader.
        let written: Vec<_> =
            self.written().iter().map(|(name, family)| (*name, Arc::clone(family))).collect();
        let (mut page, mut written) = (Page::new(pass_on), written.into_iter().peekable());
        for family in self.kept.gather() {
            while let Some((_, earlier)) = written.next_if(|(name, _)| *name < family.name()) {
                earlier.write(&mut page);
            }
            page.family(family);
        }
        written.for_each(|(_, later)| later.write(&mut page));
        page.finish();
    }

    pub(super) fn written(&self) -> MutexGuard<'_, BTreeMap<&'static str, Arc<dyn Written>>> {
        self.written.lock()
    }
}

const ONCE: &str = "invariant: every metric name is declared once, checked by a test";

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
