//! Metrics per Node, whose labels depend on what the provider knows about machines: every well-known label is one.
//!
//! Label names are known only at start-up, so these families are registered when they are first asked for. A family
//! is published as a whole: what is not in the new set is gone, with no moment in which anything is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::area::{Descriptor, Kind, Stability};

macro_rules! families {
    ($($field:ident: $name:literal $help:literal $resource:literal;)*) => {
        /// What each Node offers, what is asked of it, and how old it is (spec core-scheduling 30).
        #[derive(Debug)]
        pub struct NodeFamilies {
            $(#[doc = $help] pub $field: Family,)*
        }

        impl NodeFamilies {
            /// The families; of their labels only those that every provider has.
            pub const TABLE: &'static [Descriptor] = &[$(Descriptor {
                name: $name,
                kind: Kind::Gauge,
                labels: if $resource { &["node_name", "phase", "managed", "resource_type"] } else { &["node_name", "phase", "managed"] },
                stability: Stability::Alpha,
                help: $help,
                buckets: &[],
            },)*];

            /// Registers the families; `well_known` are the names of the labels of machines.
            pub(super) fn register(registry: &prometheus::Registry, well_known: &[String]) -> Self {
                let mut rows = Self::TABLE.iter();
                Self { $($field: {
                    let row = rows.next().expect("invariant: one row per family");
                    Family::register(registry, row, well_known)
                },)* }
            }
        }
    };
}

families! {
    allocatable: "karpenter_nodes_allocatable" "What the Node offers to pods" true;
    total_pod_requests: "karpenter_nodes_total_pod_requests" "What the pods of the Node ask for, daemons included" true;
    total_daemon_requests: "karpenter_nodes_total_daemon_requests" "What the daemon pods of the Node ask for" true;
    system_overhead: "karpenter_nodes_system_overhead" "What the Node keeps from pods" true;
    current_lifetime_seconds: "karpenter_nodes_current_lifetime_seconds" "Age of the Node" false;
}

/// One family of gauges.
#[derive(Debug)]
pub struct Family {
    gauge: prometheus::GaugeVec,
    published: Mutex<BTreeSet<Vec<String>>>,
}

impl Family {
    fn register(registry: &prometheus::Registry, row: &Descriptor, well_known: &[String]) -> Self {
        let labels: Vec<&str> =
            well_known.iter().map(String::as_str).chain(row.labels.iter().copied()).collect();
        let gauge = prometheus::GaugeVec::new(prometheus::Opts::new(row.name, row.help), &labels)
            .expect("invariant: well-known labels are distinct and become valid names");
        registry.register(Box::new(gauge.clone())).expect("invariant: registered once");
        Self { gauge, published: Mutex::default() }
    }

    /// Publishes exactly `samples`: the values of the well-known labels, then of the family's own.
    pub fn publish(&self, samples: BTreeMap<Vec<String>, f64>) {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, value) in &samples {
            self.gauge.with_label_values(labels).set(*value);
        }
        for gone in published.iter().filter(|labels| !samples.contains_key(*labels)) {
            // The only other error is a wrong number of labels, which would have shown when it was set.
            let _absent = self.gauge.remove_label_values(gone);
        }
        *published = samples.into_keys().collect();
    }
}
