//! Metrics per Node, whose labels depend on what the provider knows about machines: every well-known label is one.
//!
//! Label names are known only at start-up, so these families are registered when they are first asked for.

use super::area::{Descriptor, Kind, Stability};
use super::family::Family;

macro_rules! families {
    ($($field:ident: $name:literal $help:literal $resource:literal;)*) => {
        /// What each Node offers, what is asked of it, and how old it is (spec scheduling 30).
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
                // Only the age is not among what users may rely on.
                stability: if $resource { Stability::Beta } else { Stability::Alpha },
                help: $help,
                buckets: &[],
            },)*];

            /// Registers the families; `well_known` are the names of the labels of machines.
            pub(super) fn register(registry: &super::registry::Registry, well_known: &[String]) -> Self {
                let mut rows = Self::TABLE.iter();
                Self { $($field: {
                    let row = rows.next().expect("invariant: one row per family");
                    Family::register(registry, row, well_known.iter().map(String::as_str))
                },)* }
            }
        }
    };
}

families! {
    allocatable: "karpenter_nodes_allocatable" "What the Node offers to pods" true;
    total_pod_requests: "karpenter_nodes_total_pod_requests" "What the pods of the Node ask for, daemons included" true;
    total_pod_limits: "karpenter_nodes_total_pod_limits" "What the pods of the Node are limited to, daemons included" true;
    total_daemon_requests: "karpenter_nodes_total_daemon_requests" "What the daemon pods of the Node ask for" true;
    total_daemon_limits: "karpenter_nodes_total_daemon_limits" "What the daemon pods of the Node are limited to" true;
    system_overhead: "karpenter_nodes_system_overhead" "What the Node keeps from pods" true;
    current_lifetime_seconds: "karpenter_nodes_current_lifetime_seconds" "Age of the Node" false;
}
